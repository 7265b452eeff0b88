"""Contacts over HTTP: the people of a workspace, by the keys that the application has chosen."""

from collections import Counter
from typing import Any

import msgspec

from dispatcher.base.errors import Fault, Hints
from dispatcher.base.loop_yielder import LoopYielder
from dispatcher.base.values.addresses import Address, Kind, parse_address
from dispatcher.features.contacts import models, store
from dispatcher.features.contacts.rules import KEY, Said, read
from dispatcher.features.contacts.store import Mode, Put
from dispatcher.http import etags
from dispatcher.http.cursors import cursor, read_name
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import page
from dispatcher.http.problems import CHANGED, CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

NOUN = "contacts"
_RIGHT = Right.CONTACTS
_ONE = "/contacts/{key}"
_WRITTEN: dict[str, Any] = {"answered": models.SAVED_CONTACT, "status": 201, "reads_itself": True, "tagged": True}
_FIELDS: dict[str, Any] = {
    "name": "Ann Lee",
    "company": "Lee & Sons",
    "status": "customer",
    "time_zone": "Europe/Berlin",
    "locale": "de",
    "tags": ["newsletter"],
    "attributes": {"plan": "gold"},
    "addresses": [{"kind": "email", "address": "Ann@example.org"}, {"kind": "phone", "address": "+4917012345678"}],
}
_EXAMPLE = {"key": "customer-17"} | _FIELDS


def meant(text: str, kind: Kind | None, path: str = "query.address") -> Address:
    """An address that a request names. Raises Problem."""
    try:
        return parse_address(text, kind)
    except ValueError as fault:
        raise faulty([Fault(path, str(fault))]) from fault


@endpoint("GET", "/contacts", _RIGHT, query=models.ContactQuery, answered=models.CONTACTS)
async def list_contacts(call: Call) -> Done:
    """List contacts in the order of their keys."""
    asked: models.ContactQuery = call.query
    address = None if asked.address is None else meant(asked.address, asked.kind)
    start = read_name(NOUN, asked.cursor) or asked.after or ""
    rows = await _listed(call, asked, address, start, asked.limit + 1)
    return Done(models.Contacts(*page(rows, asked.limit, models.Contact, lambda row: cursor(NOUN, row["key"]))))


@endpoint(
    "POST",
    "/contact-search",
    _RIGHT,
    given=models.ContactSearch,
    example={"address": "+4917012345", "kind": "phone"},
    answered=models.CONTACTS,
    looks=True,
)
async def search_contacts(call: Call) -> Done:
    """Find the contact behind an address.

    An address in a URL would be kept by whoever keeps URLs. There is one at most.
    """
    asked: models.ContactSearch = call.given
    address = meant(asked.address, asked.kind, "$.address")
    rows = await _listed(call, asked, address, asked.after or "", 1)
    return Done(models.Contacts([msgspec.convert(row, models.Contact) for row in rows], None))


async def _listed(
    call: Call, asked: models.Traits, address: Address | None, start: str, count: int
) -> list[dict[str, Any]]:
    traits = {"company": asked.company, "status": asked.status, "tag": asked.tag}
    return await store.listed(call.database, call.workspace, start, count, **traits, address=address)


@endpoint("GET", _ONE, _RIGHT, answered=models.CONTACT, problems=(NOT_FOUND,), tagged=True)
async def get_contact(call: Call) -> Done:
    """Show a contact with its addresses."""
    found = await store.show(call.database, call.workspace, _key(call))
    if found is None:
        raise _missing(call)
    contact = msgspec.convert(found, models.Contact)
    return Done(contact, headers={"etag": etags.tag(contact.version)})


def _key(call: Call) -> str:
    key = call.path["key"]
    if not KEY.match(key):
        raise _missing(call)
    return key


def _missing(call: Call) -> Problem:
    return not_found(f"contact {call.path['key'][:101]!r}")


@endpoint("POST", "/contacts", _RIGHT, given=models.NewContact, example=_EXAMPLE, problems=(CONFLICT,), **_WRITTEN)
async def create_contact(call: Call) -> Done:
    """Create a contact."""
    return await _write(call, None, "create")


@endpoint(
    "PUT",
    _ONE,
    _RIGHT,
    given=models.ContactFields,
    example={**_FIELDS, "addresses": []},
    problems=(NOT_FOUND, CONFLICT, CHANGED),
    **_WRITTEN,
)
async def put_contact(call: Call) -> Done:
    """Save a contact as a whole.

    What is not said of it is empty from then on. An address leads to one contact of a workspace.
    """
    return await _write(call, call.path["key"], "put")


@endpoint(
    "PATCH",
    _ONE,
    _RIGHT,
    query=models.PatchQuery,
    given=models.ContactFields,
    example={"status": "customer", "attributes": {"plan": "gold"}},
    problems=(NOT_FOUND, CONFLICT, CHANGED),
    **_WRITTEN,
)
async def patch_contact(call: Call) -> Done:
    """Change what is said of a contact.

    What is not said stays as it is. Attributes are merged by their names, of which null takes one away; tags and
    addresses are replaced. With create=true a contact that is not there is created.
    """
    return await _write(call, call.path["key"], "upsert" if call.query.create else "update")


async def _write(call: Call, key: str | None, mode: Mode) -> Done:
    said = read(call.given, key=key, whole=_is_whole(mode))
    if isinstance(said, list):
        raise faulty(said)
    version = await _version(call, said.key)
    (became,) = await store.put(call.database, call.workspace, [said], mode, call.actor, version)
    if became.fault is not None:
        raise _refusal(said.key, became, became.fault)
    answer = _saved(said, became)
    return Done(answer, 201 if became.answer == "created" else 200, {"etag": etags.tag(answer.version)})


def _is_whole(mode: Mode) -> bool:
    """Whether what is not said of a contact is empty."""
    return mode in ("create", "put")


def _saved(said: Said, became: Put) -> models.SavedContact:
    return models.SavedContact(said.key, became.answer, became.version or 0)


def _refusal(key: str, became: Put, fault: Fault) -> Problem:
    if became.answer == "unknown":
        return not_found(f"contact {key!r}")
    if became.answer == "large":
        return faulty([fault])
    kind = CHANGED if became.answer == "stale" else CONFLICT
    return Problem(kind, f"contact {key}: {fault.message}")


async def _version(call: Call, key: str) -> int | None:
    """The version that has to be there still; one that never was is none."""
    if call.if_match is None:
        return None
    found = await store.show(call.database, call.workspace, key)
    return int(found["version"]) if found is not None and etags.matches(call.if_match, found["version"]) else 0


@endpoint("DELETE", _ONE, _RIGHT, answered=models.DELETED_CONTACT, problems=(NOT_FOUND, CHANGED), tagged=True)
async def delete_contact(call: Call) -> Done:
    """Delete a contact; what was sent to it stays."""
    key = _key(call)
    answer = await store.delete(call.database, call.workspace, key, await _version(call, key))
    if answer == "unknown":
        raise _missing(call)
    if answer is not None:
        raise Problem(CHANGED, f"contact {key}: it has been changed meanwhile")
    return Done(models.DeletedContact(key, "deleted"))


@endpoint(
    "POST",
    "/contact-imports",
    _RIGHT,
    given=models.NewContacts,
    example={"contacts": [_EXAMPLE], "mode": "upsert"},
    answered=models.IMPORTED,
    large=True,
)
async def import_contacts(call: Call) -> Done:
    """Write many contacts, each for itself.

    Sound ones are written, whatever the others are; each that is refused is named with its faults.
    """
    asked: models.NewContacts = call.given
    hints, breaks = Hints(), LoopYielder()
    sound: dict[int, Said] = {}
    refused: list[models.RefusedContact] = []
    for number, one in enumerate(asked.contacts):
        await breaks.take()
        said = read(one, f"$.contacts[{number}]", whole=_is_whole(asked.mode), hints=hints)
        if isinstance(said, Said):
            sound[number] = said
        else:
            refused.append(models.RefusedContact(number, _key_of(one), said))
    became = await store.put(call.database, call.workspace, [*sound.values()], asked.mode, call.actor)
    saved: list[models.SavedContact] = []
    for (number, said), one in zip(sound.items(), became, strict=True):
        if one.fault is None:
            saved.append(_saved(said, one))
        else:
            fault = Fault(f"$.contacts[{number}]{one.fault.path.removeprefix('$')}", one.fault.message)
            refused.append(models.RefusedContact(number, said.key, [fault]))
    refused.sort(key=lambda one: one.number)
    counts = Counter(one.answer for one in saved)
    told = saved if asked.each else []
    return Done(models.Imported(counts["created"], counts["changed"], counts["same"], refused, told))


def _key_of(one: object) -> str | None:
    key = one.get("key") if isinstance(one, dict) else None
    return key if isinstance(key, str) else None


ENDPOINTS = (
    list_contacts,
    create_contact,
    get_contact,
    put_contact,
    patch_contact,
    delete_contact,
    search_contacts,
    import_contacts,
)
