"""The source of a definition: the JSON or YAML that people write, within bounds, as one JSON object.

YAML is read with the types of JSON: `no`, `12:30` and dates are texts. What JSON does not have (aliases, tags, several
documents) is refused.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import yaml
from msgspec import Struct

from dispatcher.liquid.template_part import is_unicode
from dispatcher.plans.definition.paths import ROOT, Faults, inside

DEFINITION_BYTES_MAX = 1024 * 1024
# A larger JSON text is still looked at, so that its other limits are named too; YAML takes too long to read for that.
LOOKED_BYTES_MAX = 8 * DEFINITION_BYTES_MAX
# Postgres and the interpreter read a hundred times that.
DEPTH_MAX = 64
VALUES_MAX = 100_000
# What JSON readers keep exactly.
WHOLE_MAX = 2**63 - 1
_DIGITS_MAX = 25

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
# In C where the library has it: tenfold in speed.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DuplicateKey(Struct, frozen=True):
    """A key that an object has twice. The object is referenced, so that no other gets its id()."""

    owner: Mapping[str, Any]
    key: str


class ParsedText(Struct):
    """The value of a text, None where it could not be read, and its duplicate keys."""

    value: Any = None
    duplicates: list[DuplicateKey] = []


class _Unreadable(Exception):  # noqa: N818 - it never leaves this file
    """The text is not JSON, or not YAML."""


def read(text: str | bytes, faults: Faults) -> ParsedText:
    """The value that a text of JSON or YAML has."""
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as fault:
            line = fault.object[: fault.start].count(b"\n") + 1
            faults.add(ROOT, f"line {line}: is not UTF-8")
            return ParsedText()
    text = text.removeprefix("\ufeff")
    size = len(text.encode("utf-8", "surrogatepass"))
    looks_like_json = text.lstrip()[:1] in ("{", "[")
    if size > DEFINITION_BYTES_MAX:
        faults.add(ROOT, f"has {size} bytes, over {DEFINITION_BYTES_MAX}: cut the workflow in two")
        if size > LOOKED_BYTES_MAX or not looks_like_json:
            return ParsedText()
    try:
        return _read(text, looks_like_json and size <= DEFINITION_BYTES_MAX, looks_like_json)
    except _Unreadable as fault:
        faults.add(ROOT, str(fault))
        return ParsedText()


def _read(text: str, may_be_yaml: bool, looks_like_json: bool) -> ParsedText:
    if not looks_like_json:
        return _yaml(text)
    try:
        return _json(text)
    except _Unreadable:
        if not may_be_yaml:
            raise
        try:
            return _yaml(text)  # whose flow style begins alike
        except _Unreadable:
            pass
        raise


def _json(text: str) -> ParsedText:
    made = ParsedText(duplicates=[])

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key, value in pairs:
            if key in built:
                made.duplicates.append(DuplicateKey(built, key))
            built[key] = value
        return built

    try:
        made.value = json.loads(text, object_pairs_hook=build, parse_int=_whole)
    except json.JSONDecodeError as fault:
        raise _Unreadable(f"line {fault.lineno}: is not JSON: {fault.msg} at column {fault.colno}") from fault
    except RecursionError as fault:
        raise _Unreadable(f"is nested deeper than {DEPTH_MAX}") from fault
    return made


def _whole(digits: str) -> int:
    """A whole number; the interpreter refuses to read those of thousands of digits."""
    return int(digits[:_DIGITS_MAX])


def _yaml(text: str) -> ParsedText:
    if "\0" in text:
        raise _Unreadable("has a NUL character")
    building = _Building()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            building.take(event)
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise _Unreadable(f"{line}is not YAML: {getattr(fault, 'problem', None) or 'unreadable'}") from fault
    except (UnicodeError, RecursionError) as fault:
        raise _Unreadable(f"is not YAML: {type(fault).__name__}") from fault
    return building.made


class _Building:
    """Makes one value of the events of a YAML text, without recursion."""

    def __init__(self) -> None:
        self.made = ParsedText(duplicates=[])
        self._documents = 0
        # What is open: lists and objects, each object with the key whose value is awaited.
        self._open: list[tuple[list[Any] | dict[str, Any], list[str]]] = []

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise _refusal(event, "has several documents: keep one definition in a file")
            case yaml.AliasEvent():
                raise _refusal(event, f"an alias (*{event.anchor}) is not read: write out what it stands for")
            case yaml.ScalarEvent():
                self._plain(event)
                self._put(event, self._key_or_value(event))
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._plain(event)
                made: list[Any] | dict[str, Any] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
                self._put(event, made)
                self._open.append((made, []))
                if len(self._open) > DEPTH_MAX:
                    raise _refusal(event, f"is nested deeper than {DEPTH_MAX}")
            case yaml.CollectionEndEvent():
                self._open.pop()
            case _:
                pass

    def _plain(self, event: yaml.NodeEvent) -> None:
        if getattr(event, "tag", None) not in (None, "!"):
            raise _refusal(event, "a tag (!) is not read: write the value alone, in quotes where it is a text")
        if event.anchor is not None:
            raise _refusal(event, f"an anchor (&{event.anchor}) is not read: take it out")

    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1][0], dict) and not self._open[-1][1]

    def _key_or_value(self, event: yaml.ScalarEvent) -> object:
        text = str(event.value)
        return text if self._awaits_key() or not event.implicit[0] else _scalar(text)

    def _put(self, event: yaml.Event, value: object) -> None:
        if not self._open:
            self.made.value = value
            return
        owner, keys = self._open[-1]
        if isinstance(owner, list):
            owner.append(value)
        elif keys:
            owner[keys.pop()] = value
        elif isinstance(value, str):
            if value in owner:
                self.made.duplicates.append(DuplicateKey(owner, value))
            keys.append(value)
        else:
            raise _refusal(event, "a key is a text")


def _refusal(event: yaml.Event, words: str) -> _Unreadable:
    mark = event.start_mark
    return _Unreadable(f"line {mark.line + 1}: {words}" if mark else words)


def _scalar(text: str) -> object:
    """The value of a plain word, as in JSON."""
    if text in ("", "~", "null"):
        return None
    if text in ("true", "false"):
        return text == "true"
    number = _NUMBER.fullmatch(text)
    if number is None:
        return {".inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}.get(text.lower(), text)
    return float(text) if number[1] or number[2] else _whole(text)


def check(made: ParsedText, faults: Faults) -> bool:
    """Whether a value is JSON within bounds; False where it cannot be looked at any further."""
    checking = _Checking(made, faults)
    while checking.waiting:
        if words := checking.next():
            faults.add(ROOT, words)
            return False
    return checking.is_json


class _Checking:
    """Goes through a value without recursion, in the order in which it is written."""

    def __init__(self, made: ParsedText, faults: Faults) -> None:
        self.waiting: list[tuple[str, Any, int]] = [(ROOT, made.value, 0)]
        self.is_json = True
        self._faults = faults
        self._count = 0
        self._size = 0
        self._duplicates: dict[int, dict[str, None]] = {}
        for one in made.duplicates:
            self._duplicates.setdefault(id(one.owner), {})[one.key] = None

    def next(self) -> str | None:
        """Look at one value; answers what is too much to be looked at."""
        place, value, depth = self.waiting.pop()
        self._count += 1
        self._size += _size(value)
        if depth > DEPTH_MAX:
            return f"is nested deeper than {DEPTH_MAX}"
        if self._count + (len(value) if isinstance(value, dict | list) else 0) > VALUES_MAX:
            return f"has more than {VALUES_MAX} values"
        if isinstance(value, dict):
            self._object(place, value, depth)
        elif isinstance(value, list):
            self.waiting.extend((inside(place, n), value[n], depth + 1) for n in range(len(value) - 1, -1, -1))
        elif words := _wrong(value):
            self._faults.spoil(place, words)
        if self._size > DEFINITION_BYTES_MAX:
            return f"has more than {DEFINITION_BYTES_MAX} bytes: cut the workflow in two"
        return None

    def _object(self, place: str, value: dict[Any, Any], depth: int) -> None:
        for key in self._duplicates.get(id(value), ()):
            self._faults.add(inside(place, key), "is given twice: keep one of them")
        # What waits is taken from the end.
        for key, inner in reversed(value.items()):
            if not isinstance(key, str):
                self._faults.spoil(place, f"has a key that is not a text: {type(key).__name__}")
                self.is_json = False
            elif words := _wrong(key):
                self._faults.spoil(inside(place, key), f"its key {words}")
            else:
                self._size += _size(key)
                self.waiting.append((inside(place, key), inner, depth + 1))


def _size(value: object) -> int:
    """About what it takes as JSON: never more."""
    return len(value.encode("utf-8", "surrogatepass")) + 2 if isinstance(value, str) else 1


def _wrong(value: object) -> str | None:
    """The fault of a single value that is not JSON or cannot be stored; None for any other."""
    match value:
        case None | bool():
            return None
        case str():
            if "\0" in value:
                return "has a NUL character"
            return None if is_unicode(value) else "has half of a surrogate pair, which is not a character"
        case int():
            return None if -WHOLE_MAX <= value <= WHOLE_MAX else "is too large a number: write it as a text"
        case float():
            return None if math.isfinite(value) else "is not a JSON number"
        case _:
            return f"is not JSON: {type(value).__name__}"
