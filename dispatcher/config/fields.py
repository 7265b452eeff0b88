"""The shape of the configuration: the structs of `config` as a tree of tables and leaves that can be walked."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct, inspect, structs

from dispatcher.base.errors import quoted

Keys = tuple[str, ...]

# Past this a float loses units, and Python refuses to print integers of more than 4300 digits.
SHOWN_NUMBER_MAX = 10**15


class Leaf(Struct, frozen=True):
    """One value: its type with bounds, and what `Meta(extra=…)` says about it."""

    annotation: Any
    info: inspect.Type
    extra: Mapping[str, object]

    @property
    def secret(self) -> bool:
        return self.extra.get("secret") is True


class Table(Struct, frozen=True):
    """One struct: named children."""

    cls: type[Struct]
    children: Mapping[str, "Node"]


class Many(Struct, frozen=True):
    """A table whose keys the user chooses, all with the same shape inside."""

    key: Leaf
    value: Table
    length_max: int


class Options(Struct, frozen=True):
    """A table whose keys are declared elsewhere: here any name with any single value."""

    key: Leaf
    value: Leaf


Node = Leaf | Table | Many | Options

# A variable whose name ends in this names a file, so an option's name cannot.
FILE_ENDING = "_file"


@cache
def table_of(cls: type[Struct]) -> Table:
    """The tree below one struct."""
    return Table(cls, {field.encode_name: _node(field.type) for field in structs.fields(cls)})


def _node(annotation: Any) -> Node:  # noqa: ANN401 - an annotation is whatever was written behind the colon
    info = inspect.type_info(annotation)
    extra: Mapping[str, object] = {}
    if isinstance(info, inspect.Metadata):
        extra = info.extra or {}
        info = info.type
    if isinstance(info, inspect.StructType):
        return table_of(info.cls)
    if isinstance(info, inspect.DictType):
        return _dict(annotation, info)
    return Leaf(annotation, info, extra)


def _dict(annotation: Any, info: inspect.DictType) -> Many | Options:  # noqa: ANN401 - as in _node
    bare = annotation if get_origin(annotation) is dict else get_args(annotation)[0]
    match tuple(map(_node, get_args(bare))), info.max_length:
        case (Leaf() as key, Table() as value), int(length_max):
            return Many(key, value, length_max)
        case (Leaf() as key, Leaf() as value), int():
            return Options(key, value)
        case _:
            raise TypeError(f"{annotation}: a configurable dict holds structs or scalars and has a max_length")


def step(node: Node, key: str) -> Node | None:
    """One key down, or None where there is no such key."""
    match node:
        case Table():
            return node.children.get(key)
        case Many():
            return node.value if fits(node.key, key) else None
        case Options():
            return node.value if fits(node.key, key) and not key.endswith(FILE_ENDING) else None
        case Leaf():
            return None


def fits(leaf: Leaf, value: object) -> bool:
    """Whether a value is in the leaf's type and bounds."""
    try:
        msgspec.convert(value, leaf.annotation)
    except msgspec.ValidationError:
        return False
    return True


def expected(leaf: Leaf) -> str:
    """A leaf's type and bounds in words."""
    words = leaf.extra.get("expects")
    if isinstance(words, str):
        return words
    match leaf.info:
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(json.dumps(value) for value in values)
        case inspect.IntType() as info:
            return "a whole number" + _between(info)
        case inspect.FloatType() as info:
            return "a number" + _between(info)
        case inspect.StrType(min_length=low, max_length=high) if low is not None and high is not None:
            return f"a text of {low} to {high} characters"
        case _:
            raise TypeError(f"no words for {leaf.annotation}: give it bounds, or Meta(extra={{'expects': …}})")


def _between(info: inspect.IntType | inspect.FloatType) -> str:
    high = "" if info.le is None else _plain(info.le)
    if info.gt is not None:
        return f" over {_plain(info.gt)}" + (high and f" and up to {high}")
    if info.ge is not None:
        return f" from {_plain(info.ge)}" + (high and f" to {high}")
    return high and f" up to {high}"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


def got(value: object) -> str:
    """A value that was given, short enough for one line; only for values that are no secret."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return quoted(value)
        case int() | float():
            return "a very large number" if abs(value) > SHOWN_NUMBER_MAX else str(value)
        case dict():
            return "a table"
        case list():
            return "a list"
        case _:
            return "a date or time"


def dotted(keys: Keys) -> str:
    """Keys as TOML writes them: bare where that is possible."""
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key) else quoted(key) for key in keys)
