"""Reading: the JSON of a request into a model, or every fault that it has, each with its path."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, Struct, inspect, structs

from dispatcher.base.errors import Fault, Hints, did_you_mean, quoted
from dispatcher.http.problems import faulty

# What a run takes of an object, and some levels around it.
DEPTH_MAX = 136
# Of a value some bytes are sent, and a hundred are kept of it while it is read: 5,000 deliveries have this many.
VALUES_MAX = 250_000
# More than any list takes.
PARAMETERS_MAX = 50

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_KEEP = b'[]{}:,"'
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(_KEEP))
# Escapes of what Postgres cannot keep: NUL, and half of a pair.
_SUSPICIOUS = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_SUSPECT = object()
_PLACE = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)

M = TypeVar("M", bound=Struct)


class _Doubled(dict[str, Any]):
    """An object of a request in which names stood more than once: these."""

    twice: tuple[str, ...] = ()


def _signs(body: bytes) -> bytes:
    """The brackets, colons and commas of a body, without reading anything."""
    whole = _ESCAPED.sub(b"", body) if b"\\" in body else body
    # Every second piece stood between quotes. (Matching texts by an expression costs ten times as much.)
    return b"".join(whole.translate(_BRACKETS, _OTHERS).split(b'"')[::2])


def values(body: bytes) -> int:
    """How many values and names there are at most."""
    return _values(_signs(body))


def _values(signs: bytes) -> int:
    return 1 + sum(map(signs.count, (b",", b":", b"[")))


def depth(body: bytes) -> int:
    """How deep brackets stand in each other; all that are never closed count."""
    return _depth(_signs(body))


def _depth(signs: bytes) -> int:
    brackets = signs.translate(None, b":,")
    levels = 0
    while levels <= DEPTH_MAX:
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets, levels = fewer, levels + 1
    return levels + brackets.count(b"[")


def tree(body: bytes) -> Any:  # noqa: ANN401 - whatever the request says
    """The JSON of a body whose names stand once each, without what nobody can keep. Raises Problem."""
    found, faults = _tree(body)
    if faults:
        raise faulty(faults)
    return found


def _tree(body: bytes, values_max: int = VALUES_MAX) -> tuple[Any, list[Fault]]:
    """The JSON of a body, and the names that stand twice in it; raises Problem where nothing can be made of it."""
    signs = _signs(body)
    if _values(signs) > values_max:
        raise faulty([Fault("$", f"has more than {values_max} values")])
    if _depth(signs) > DEPTH_MAX:
        raise faulty([Fault("$", f"is nested more than {DEPTH_MAX} deep")])
    found = _SUSPECT if _SUSPICIOUS.search(body) else _quickly(body, signs)
    return _thoroughly(body) if found is _SUSPECT else (found, [])


def _quickly(body: bytes, signs: bytes) -> Any:  # noqa: ANN401 - whatever the request says
    """The JSON of a body, or that there may be something wrong with it."""
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return _SUSPECT
    # A name that stood twice stands once now, and a colon with it.
    again = _signs(msgspec.json.encode(found))
    return found if again.count(b":") == signs.count(b":") else _SUSPECT


def _thoroughly(body: bytes) -> tuple[Any, list[Fault]]:
    """The same, with all that is wrong."""
    seen: list[_Doubled] = []

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(given)
        if len(made) == len(given):
            return made
        doubled = _Doubled(made)
        doubled.twice = _twice(given)
        seen.append(doubled)
        return doubled

    try:
        found = json.loads(body.decode(), object_pairs_hook=pairs, parse_constant=_refuse_constant)
    except UnicodeDecodeError as fault:
        raise faulty([Fault("$", f"is not UTF-8 at byte {fault.start + 1}")]) from fault
    except (ValueError, RecursionError) as fault:
        raise faulty([Fault("$", f"is not JSON: {fault}")]) from fault
    faults = list(_repeated(found, "$")) if seen else []
    unkeepable = list(_unkeepable(found, "$")) if _SUSPICIOUS.search(body) else []
    if unkeepable:
        # Nothing more can be asked of what nobody can write.
        raise faulty([*faults, *unkeepable])
    return found, faults


def read(body: bytes, model: type[M], values_max: int = VALUES_MAX) -> M:
    """A model out of the JSON of a body. Raises Problem, with every fault."""
    found, faults = _tree(body, values_max)
    if not faults and not _has_times(model):
        # What can be converted has no faults; only of times more is asked.
        with suppress(msgspec.ValidationError):
            return msgspec.convert(found, model)
    faults += faults_of(found, model, "$")
    if faults:
        raise faulty(faults)
    return msgspec.convert(found, model)


@cache
def _has_times(model: type[Struct]) -> bool:
    return "DateTimeType" in repr(inspect.type_info(model))


def read_query(given: list[tuple[str, str]], model: type[M]) -> M:
    """A model out of the parameters of a URL, each of which stands once."""
    if not given and isinstance(plain := _unasked(model), model):
        return plain
    if len(given) > PARAMETERS_MAX:
        raise faulty([Fault("query", f"has {len(given)} parameters, over {PARAMETERS_MAX}")])
    faults = [Fault(_at("query", name), "stands twice") for name in _twice(given)]
    fields = _fields(model)
    for name, text in given:
        if name not in fields:
            faults.append(Fault(_at("query", name), f"unknown parameter{did_you_mean(name, fields)}"))
        elif "\0" in text:
            faults.append(Fault(f"query.{name}", "has a NUL character"))
        else:
            faults += _leaf_faults(text, fields[name].type, f"query.{name}", strict=False)
    named = dict(given)
    faults += [Fault(f"query.{name}", "is required") for name in fields if fields[name].required and name not in named]
    if faults:
        raise faulty(faults)
    return msgspec.convert(named, model, strict=False)


@cache
def _unasked(model: type[Struct]) -> Struct | None:
    """The model of a URL without parameters, as most are; None where some are required."""
    return None if any(one.required for one in _fields(model).values()) else msgspec.convert({}, model)


def faults_of(value: object, annotation: Any, path: str) -> Iterator[Fault]:  # noqa: ANN401 - as it was written
    """Everything in which a value is not what an annotation says."""
    return _faults_of(value, annotation, path, Hints())


def _faults_of(value: object, annotation: Any, path: str, hints: Hints) -> Iterator[Fault]:  # noqa: ANN401 - as above
    bare, meta = _bare(annotation)
    if value is not None and (inner := _without_none(bare)) is not None:
        yield from _faults_of(value, inner, path, hints)
    elif isinstance(bare, type) and issubclass(bare, Struct):
        yield from _object_faults(value, bare, path, hints)
    elif get_origin(bare) is list and isinstance(value, list):
        yield from _length_faults(value, meta, path)
        for number, one in enumerate(value):
            yield from _faults_of(one, get_args(bare)[0], f"{path}[{number}]", hints)
    elif get_origin(bare) is dict and isinstance(value, Mapping):
        for name, one in value.items():
            yield from _faults_of(one, get_args(bare)[1], _at(path, name), hints)
    else:
        yield from _leaf_faults(value, annotation, path, strict=True)


def past_time_faults(at: datetime | None, path: str) -> list[Fault]:
    """What is wrong with a time that has to come yet."""
    return [Fault(path, "is over already")] if at is not None and at <= datetime.now(UTC) else []


def _object_faults(value: object, model: type[Struct], path: str, hints: Hints) -> Iterator[Fault]:
    if not isinstance(value, Mapping):
        yield Fault(path, "expected an object")
        return
    fields = _fields(model)
    for name, one in value.items():
        if name in fields:
            yield from _faults_of(one, fields[name].type, _at(path, name), hints)
        else:
            yield Fault(_at(path, name), f"unknown field{hints.did_you_mean(name, fields)}")
    for name, field in fields.items():
        if name not in value and field.default is NODEFAULT and field.default_factory is NODEFAULT:
            yield Fault(_at(path, name), "is required")


def _length_faults(value: list[object], meta: Meta | None, path: str) -> Iterator[Fault]:
    if meta is not None and meta.min_length is not None and len(value) < meta.min_length:
        yield Fault(path, f"has {len(value)} items, under {meta.min_length}")
    if meta is not None and meta.max_length is not None and len(value) > meta.max_length:
        yield Fault(path, f"has {len(value)} items, over {meta.max_length}")


def _leaf_faults(value: object, annotation: Any, path: str, *, strict: bool) -> list[Fault]:  # noqa: ANN401 - as above
    try:
        found = msgspec.convert(value, annotation, strict=strict)
        if found is None and not strict:
            # Who has no such parameter leaves it out.
            return [Fault(path, "is none of its values")]
        if isinstance(found, datetime):
            # Seconds since 1970 are no time in RFC 3339.
            msgspec.convert(value, annotation).astimezone(UTC)
    except OverflowError:
        return [Fault(path, "is out of range")]
    except msgspec.ValidationError as fault:
        match = _PLACE.match(str(fault))
        words, below = (match[1], match[2]) if match else (str(fault), None)
        return [Fault(path + (below or ""), words[:1].lower() + words[1:])]
    return []


@cache
def _fields(model: type[Struct]) -> dict[str, structs.FieldInfo]:
    return {field.encode_name: field for field in structs.fields(model)}


def _bare(annotation: Any) -> tuple[Any, Meta | None]:  # noqa: ANN401 - as above
    """An annotation without what is noted beside it."""
    if hasattr(annotation, "__metadata__"):
        meta = next((one for one in annotation.__metadata__ if isinstance(one, Meta)), None)
        return get_args(annotation)[0], meta
    return annotation, None


def _twice(given: list[tuple[str, Any]]) -> tuple[str, ...]:
    """The names that stand more than once."""
    return tuple(name for name, count in Counter(name for name, _ in given).items() if count > 1)


def _without_none(bare: Any) -> Any:  # noqa: ANN401 - as above
    """What else may stand where nothing may stand; None where that is not one thing."""
    if get_origin(bare) not in (Union, UnionType):
        return None
    others = [one for one in get_args(bare) if one is not NoneType]
    return others[0] if len(others) == 1 else None


def _repeated(value: object, path: str) -> Iterator[Fault]:
    match value:
        case dict():
            for name in value.twice if isinstance(value, _Doubled) else ():
                yield Fault(_at(path, name), "stands twice")
            for name, one in value.items():
                yield from _repeated(one, _at(path, name))
        case list():
            for number, one in enumerate(value):
                yield from _repeated(one, f"{path}[{number}]")
        case _:
            pass


def _unkeepable(value: object, path: str) -> Iterator[Fault]:
    match value:
        case str():
            yield from _text_faults(value, path)
        case dict():
            for name, one in value.items():
                yield from _text_faults(name, _at(path, name))
                yield from _unkeepable(one, _at(path, name))
        case list():
            for number, one in enumerate(value):
                yield from _unkeepable(one, f"{path}[{number}]")
        case _:
            pass


def _text_faults(text: str, path: str) -> Iterator[Fault]:
    if "\0" in text:
        yield Fault(path, "has a NUL character, which Postgres cannot keep")
    if any("\ud800" <= c <= "\udfff" for c in text):
        yield Fault(path, "has half of a surrogate pair, which nobody can write")


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if re.fullmatch(r"\w{1,64}", name, re.ASCII) else f"{path}[{quoted(name)}]"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
