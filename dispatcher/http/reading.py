"""Reading requests: JSON and query parameters into a model, or every fault with its path."""

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
from dispatcher.base.values.counts import counted
from dispatcher.http.problems import faulty

# The depth that a run accepts of an object, and some levels around it.
DEPTH_MAX = 136
# A value takes about a hundred bytes of memory while it is read. 5,000 deliveries have this many values.
VALUES_MAX = 250_000
# More than any list takes.
PARAMETERS_MAX = 50

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_KEEP = b'[]{}:,"'
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(_KEEP))
# Escapes of what Postgres cannot store: NUL, and half of a surrogate pair.
_SUSPICIOUS = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_SUSPECT = object()
_PLACE = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)

M = TypeVar("M", bound=Struct)


class _Doubled(dict[str, Any]):
    """A JSON object, with the names that it had more than once."""

    twice: tuple[str, ...] = ()


def signs(body: bytes) -> bytes:
    """Return the brackets, colons and commas of a body, without parsing it."""
    whole = _ESCAPED.sub(b"", body) if b"\\" in body else body
    # Every second piece stood between quotes. (Matching texts by an expression costs ten times as much.)
    return b"".join(whole.translate(_BRACKETS, _OTHERS).split(b'"')[::2])


def values(signs: bytes) -> int:
    """Return how many values and names there are at most."""
    return 1 + sum(map(signs.count, (b",", b":", b"[")))


def depth(signs: bytes) -> int:
    """Return how deep brackets are nested; all that are never closed count."""
    brackets = signs.translate(None, b":,")
    levels = 0
    while levels <= DEPTH_MAX:
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets, levels = fewer, levels + 1
    return levels + brackets.count(b"[")


def tree(body: bytes) -> Any:  # noqa: ANN401 - whatever the request says
    """Return the JSON of a body. Raises Problem for repeated names and characters that Postgres cannot store."""
    found, faults = _tree(body)
    if faults:
        raise faulty(faults)
    return found


def _tree(body: bytes, values_max: int = VALUES_MAX) -> tuple[Any, list[Fault]]:
    """Return the JSON of a body and the faults of repeated names. Raises Problem where it cannot be read."""
    found_signs = signs(body)
    if values(found_signs) > values_max:
        raise faulty([Fault("$", f"has more than {values_max} values")])
    if depth(found_signs) > DEPTH_MAX:
        raise faulty([Fault("$", f"is nested more than {DEPTH_MAX} deep")])
    found = _SUSPECT if _SUSPICIOUS.search(body) else _quickly(body, found_signs)
    return _thoroughly(body) if found is _SUSPECT else (found, [])


def _quickly(body: bytes, found_signs: bytes) -> Any:  # noqa: ANN401 - whatever the request says
    """Return the JSON of a body, or _SUSPECT if it may have faults."""
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return _SUSPECT
    # A repeated name is there once now, and so is its colon.
    again = signs(msgspec.json.encode(found))
    return found if again.count(b":") == found_signs.count(b":") else _SUSPECT


def _thoroughly(body: bytes) -> tuple[Any, list[Fault]]:

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(given)
        if len(made) == len(given):
            return made
        doubled = _Doubled(made)
        doubled.twice = _twice(given)
        return doubled

    try:
        found = json.loads(body.decode(), object_pairs_hook=pairs, parse_constant=_refuse_constant)
    except UnicodeDecodeError as fault:
        raise faulty([Fault("$", f"is not UTF-8 at byte {fault.start + 1}")]) from fault
    except (ValueError, RecursionError) as fault:
        raise faulty([Fault("$", f"is not JSON: {fault}")]) from fault
    everything = list(_walk(found, "$"))
    faults = [
        Fault(_at(path, name), "stands twice")
        for path, value in everything
        if isinstance(value, _Doubled)
        for name in value.twice
    ]
    if unstorable := [
        fault for path, text in everything if isinstance(text, str) for fault in _text_faults(text, path)
    ]:
        raise faulty([*faults, *unstorable])
    return found, faults


def read(body: bytes, model: type[M], values_max: int = VALUES_MAX) -> M:
    """Return a model read from the JSON of a body. Raises Problem, with every fault."""
    found, faults = _tree(body, values_max)
    if not faults and not _has_times(model):
        # What can be converted has no faults, except in times.
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
    """Return a model read from the parameters of a URL. Raises Problem, with every fault."""
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
    """Return the model of a URL without parameters; None if some are required."""
    return None if any(one.required for one in _fields(model).values()) else msgspec.convert({}, model)


def faults_of(value: object, annotation: Any, path: str) -> Iterator[Fault]:  # noqa: ANN401 - as it was written
    """Yield every fault of a value that does not fit an annotation."""
    return _faults_of(value, annotation, path, Hints())


def _faults_of(value: object, annotation: Any, path: str, hints: Hints) -> Iterator[Fault]:  # noqa: ANN401 - as above
    bare, meta = _bare(annotation)
    if value is not None and (inner := _without_none(bare)) is not None:
        yield from _faults_of(value, inner, path, hints)
    elif isinstance(bare, type) and issubclass(bare, Struct):
        yield from _object_faults(value, bare, path, hints)
    elif get_origin(bare) is list and isinstance(value, list):
        yield from _length_faults(len(value), meta, path, "item")
        for number, one in enumerate(value):
            yield from _faults_of(one, get_args(bare)[0], f"{path}[{number}]", hints)
    elif get_origin(bare) is dict and isinstance(value, Mapping):
        yield from _length_faults(len(value), meta, path, "field")
        for name, one in value.items():
            yield from _leaf_faults(name, get_args(bare)[0], _at(path, name), strict=True)
            yield from _faults_of(one, get_args(bare)[1], _at(path, name), hints)
    else:
        yield from _leaf_faults(value, annotation, path, strict=True)


def past_time_faults(at: datetime | None, path: str) -> list[Fault]:
    """Return the fault of a time that has to be in the future."""
    return [Fault(path, "is in the past")] if at is not None and at <= datetime.now(UTC) else []


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


def _length_faults(length: int, meta: Meta | None, path: str, one: str) -> Iterator[Fault]:
    if meta is not None and meta.min_length is not None and length < meta.min_length:
        yield Fault(path, f"has {counted(length, one)}, under {meta.min_length}")
    if meta is not None and meta.max_length is not None and length > meta.max_length:
        yield Fault(path, f"has {counted(length, one)}, over {meta.max_length}")


def _leaf_faults(value: object, annotation: Any, path: str, *, strict: bool) -> list[Fault]:  # noqa: ANN401 - as above
    try:
        found = msgspec.convert(value, annotation, strict=strict)
        if found is None and not strict:
            # To omit a parameter is to leave it out.
            return [Fault(path, "is not one of its values")]
        if isinstance(found, datetime):
            # Seconds since 1970 are not a time of RFC 3339.
            msgspec.convert(value, annotation).astimezone(UTC)
    except OverflowError:
        return [Fault(path, "is out of range")]
    except msgspec.ValidationError as fault:
        match = _PLACE.match(str(fault))
        words, below = (match[1], match[2]) if match else (str(fault), None)
        meta = _bare(annotation)[1]
        if "matching regex" in words and meta is not None and meta.extra is not None:
            words = f"expected {meta.extra['form']}"
        return [Fault(path + (below or ""), words[:1].lower() + words[1:])]
    return []


@cache
def _fields(model: type[Struct]) -> dict[str, structs.FieldInfo]:
    return {field.encode_name: field for field in structs.fields(model)}


def _bare(annotation: Any) -> tuple[Any, Meta | None]:  # noqa: ANN401 - as above
    """Return an annotation without its metadata, and its Meta."""
    if hasattr(annotation, "__metadata__"):
        meta = next((one for one in annotation.__metadata__ if isinstance(one, Meta)), None)
        return get_args(annotation)[0], meta
    return annotation, None


def _twice(given: list[tuple[str, Any]]) -> tuple[str, ...]:
    return tuple(name for name, count in Counter(name for name, _ in given).items() if count > 1)


def _without_none(bare: Any) -> Any:  # noqa: ANN401 - as above
    """Return the other type of an optional one; None if there is not exactly one."""
    if get_origin(bare) not in (Union, UnionType):
        return None
    others = [one for one in get_args(bare) if one is not NoneType]
    return others[0] if len(others) == 1 else None


def _walk(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield each value and each name inside a value, with its path."""
    yield path, value
    if isinstance(value, dict):
        for name, one in value.items():
            yield _at(path, name), name
            yield from _walk(one, _at(path, name))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _walk(one, f"{path}[{number}]")


def _text_faults(text: str, path: str) -> Iterator[Fault]:
    if "\0" in text:
        yield Fault(path, "has a NUL character, which Postgres cannot keep")
    if any("\ud800" <= c <= "\udfff" for c in text):
        yield Fault(path, "has half of a surrogate pair, which nobody can write")


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if re.fullmatch(r"\w{1,64}", name, re.ASCII) else f"{path}[{quoted(name)}]"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")
