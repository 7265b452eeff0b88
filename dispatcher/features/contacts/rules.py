"""Contacts: the fields of a contact in their stored form, and every fault of a request, each with its path."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault, Hints
from dispatcher.base.values import addresses
from dispatcher.base.values.addresses import Address
from dispatcher.base.values.locales import canonical
from dispatcher.base.values.time_zones import zone_fault

# It is a part of URLs as it is.
KEY_FORM = r"[A-Za-z0-9][A-Za-z0-9._@:+-]{0,199}"
KEY = re.compile(rf"{KEY_FORM}\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
KEY_WORDS = "expected 1 to 200 letters, digits and . _ @ : + -, a letter or digit first"
TEXT_MAX = 200
WORD_MAX = 100
TAGS_MAX = 100
ADDRESSES_MAX = 20
# They are read with every contact; whole documents belong elsewhere.
ATTRIBUTES_BYTES_MAX = 16_384
ATTRIBUTES_DEPTH_MAX = 16

ContactKind = Literal["email", "phone", "push", "chat", "social"]
CONTACT_KINDS: tuple[ContactKind, ...] = get_args(ContactKind)
FIELDS = ("name", "company", "status", "time_zone", "locale", "tags", "attributes", "addresses")
STATUS = "active"
# The fields that a request leaves out, where it has a whole contact.
_EMPTY: Mapping[str, Any] = dict.fromkeys(FIELDS) | {"status": STATUS, "tags": [], "attributes": {}, "addresses": []}


class ContactInput(Struct, frozen=True):
    """The fields of a contact that a request has, each in its stored form."""

    key: str
    fields: Mapping[str, Any]


def contact_address(kind: ContactKind, text: str) -> tuple[Address, str]:
    """Return an address as it is compared, and as messages are sent to it. ValueError says what is wrong."""
    found = addresses.parse_address(text, suppressed_as(kind))
    if len(text.strip()) > addresses.CHARACTERS_MAX:
        raise ValueError(f"has more than {addresses.CHARACTERS_MAX} characters")
    if kind != "email":
        return found, found.text
    # Servers may tell upper from lower case before the @: it is compared in lower case, and sent as it was given.
    local = text.strip().removesuffix(">").rpartition("<")[2].strip().rpartition("@")[0]
    return found, f"{local}@{found.text.rpartition('@')[2]}"


def suppressed_as(kind: str) -> addresses.Kind:
    """Return the kind that suppressions have for a kind of contact address."""
    return kind if kind in ("email", "phone") else "other"  # type: ignore[return-value]  # as was just seen


def read(
    given: object, path: str = "$", *, key: str | None = None, whole: bool = True, hints: Hints | None = None
) -> ContactInput | list[Fault]:
    """Return the fields of a contact, or all faults. A `whole` contact has empty fields where none are given.

    Contacts of one request share their `hints`.
    """
    hints = Hints() if hints is None else hints
    if not isinstance(given, Mapping):
        return [Fault(path, "expected an object")]
    known = FIELDS if key is not None else ("key", *FIELDS)
    faults = [
        Fault(f"{path}.{name}", f"unknown field{hints.did_you_mean(name, known)}")
        for name in given
        if name not in known
    ]
    found = key if key is not None else given.get("key")
    if not isinstance(found, str) or not KEY.match(found):
        faults.append(Fault(f"{path}.key", KEY_WORDS if found is not None else "is required"))
    fields: dict[str, Any] = dict(_EMPTY) if whole else {}
    for name in FIELDS:
        if name not in given or given[name] is None:
            if name in given:
                fields[name] = _EMPTY[name]
            continue
        read_field = _READERS[name]
        try:
            fields[name] = read_field(given[name], f"{path}.{name}", faults)
        except ValueError as fault:
            faults.append(Fault(f"{path}.{name}", str(fault)))
    return faults or ContactInput(str(found), fields)


def _text(value: object, most: int) -> str:
    if not isinstance(value, str):
        raise ValueError("expected a text")  # noqa: TRY004 - a fault of the request
    if not value.strip() or len(value) > most:
        raise ValueError(f"expected 1 to {most} characters")
    if (words := _storage_fault(value)) is not None:
        raise ValueError(words)
    return value.strip()


def _zone(value: object, _path: str, _faults: list[Fault]) -> str:
    zone = _text(value, WORD_MAX)
    if (words := zone_fault(zone)) is not None:
        raise ValueError(words)
    return zone


def _locale(value: object, _path: str, _faults: list[Fault]) -> str:
    locale = canonical(_text(value, WORD_MAX))
    if locale is None:
        raise ValueError("is not a locale: expected a language and perhaps a region, such as de or pt-BR")
    return locale


def _tags(value: object, path: str, faults: list[Fault]) -> list[str]:
    tags: set[str] = set()
    for number, one in enumerate(_list(value, TAGS_MAX)):
        try:
            tags.add(_text(one, WORD_MAX))
        except ValueError as fault:
            faults.append(Fault(f"{path}[{number}]", str(fault)))
    return sorted(tags)


def _attributes(value: object, _path: str, _faults: list[Fault]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("expected an object")  # noqa: TRY004 - as above
    words = next(filter(None, map(_storage_fault, _leaves(value, ATTRIBUTES_DEPTH_MAX))), None)
    if words is not None:
        raise ValueError(words)
    if len(json.dumps(value, ensure_ascii=False).encode()) > ATTRIBUTES_BYTES_MAX:
        raise ValueError(f"has more than {ATTRIBUTES_BYTES_MAX} bytes")
    return value


def _addresses(value: object, path: str, faults: list[Fault]) -> list[dict[str, str]]:
    found: dict[tuple[str, str], dict[str, str]] = {}
    for number, one in enumerate(_list(value, ADDRESSES_MAX)):
        at = f"{path}[{number}]"
        if not isinstance(one, Mapping) or not set(one) <= {"kind", "address"} or "address" not in one:
            faults.append(Fault(at, 'expected {"kind": …, "address": …}'))
            continue
        try:
            text = _text(one["address"], 2 * addresses.CHARACTERS_MAX)
            kind = _kind(one.get("kind"), text)
            compared, written = contact_address(kind, text)
        except ValueError as fault:
            faults.append(Fault(f"{at}.address", str(fault)))
            continue
        found.setdefault((kind, compared.text), {"kind": kind, "address": compared.text, "written": written})
    return list(found.values())


def _kind(given: object, text: str) -> ContactKind:
    """The kind that is given, else the kind that the address looks like."""
    kind = addresses.kind_of(text) if given is None else given
    if kind not in CONTACT_KINDS:
        raise ValueError(f"name its kind, one of {', '.join(CONTACT_KINDS)}")
    return kind


def _list(value: object, most: int) -> Sequence[object]:
    if not isinstance(value, list):
        raise ValueError("expected a list")  # noqa: TRY004 - as above
    if len(value) > most:
        raise ValueError(f"has {len(value)} items, over {most}")
    return value


def _leaves(value: object, depth: int) -> Iterator[object]:
    """Yield all names and values. ValueError where they are nested too deep."""
    if depth == 0:
        raise ValueError(f"is nested more than {ATTRIBUTES_DEPTH_MAX} deep")
    if isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _leaves(one, depth - 1)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one, depth - 1)
    else:
        yield value


def _storage_fault(value: object) -> str | None:
    """Why Postgres cannot store a value, or None."""
    match value:
        case str() if "\0" in value:
            return "has a NUL character, which Postgres cannot keep"
        case str() if _SURROGATE.search(value):
            return "has half of a surrogate pair, which UTF-8 cannot encode"
        case float() if not math.isfinite(value):
            return "has a number that is out of range"
        case _:
            return None


_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_READERS: Mapping[str, Callable[[object, str, list[Fault]], Any]] = {
    "name": lambda value, _path, _faults: _text(value, TEXT_MAX),
    "company": lambda value, _path, _faults: _text(value, TEXT_MAX),
    "status": lambda value, _path, _faults: _text(value, WORD_MAX),
    "time_zone": _zone,
    "locale": _locale,
    "tags": _tags,
    "attributes": _attributes,
    "addresses": _addresses,
}


def audience_json(said: str) -> str:
    """Return an audience as it is stored: without fields that are null. Numbers stay as they were written."""
    return msgspec.json.encode({name: one for name, one in _raw(said).items() if bytes(one) != b"null"}).decode()


def conditions(said: str) -> list[tuple[str, str]]:
    """Return each condition of a sound audience: its words, and itself as an audience of its own."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name, value in _raw(said).items():
        match name:
            case "tags":
                found += ((f"tags: {tag}", {"tags": [tag]}) for tag in msgspec.json.decode(value, type=list[str]))
            case "attributes":
                found += (
                    (f"attributes.{attribute}: {bytes(one).decode()}", {"attributes": {attribute: one}})
                    for attribute, one in _raw(bytes(value).decode()).items()
                )
            case "contacts" | "exclude":
                found += [(name, {"contacts": value})] if bytes(value) != b"[]" else []
            case "company" | "status":
                found.append((f"{name}: {msgspec.json.decode(value)}", {name: value}))
            case _:
                # Everybody: as many as the whole.
                pass
    return [(words, msgspec.json.encode(one).decode()) for words, one in found]
