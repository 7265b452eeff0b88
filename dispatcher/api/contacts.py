"""Contacts over HTTP: the people of a workspace, by the keys that the application has chosen."""

from collections import Counter
from typing import Any

import msgspec

from dispatcher.api import contact_models as models
from dispatcher.api import tags
from dispatcher.api.cursors import after, cursor_after
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import page
from dispatcher.api.problems import CHANGED, CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.breaks import Breaks
from dispatcher.domain.addresses import Address, Kind, given
from dispatcher.domain.contacts import KEY, Said, read
from dispatcher.domain.roles import Right
from dispatcher.errors import Fault, Hints
from dispatcher.store import contacts as store
from dispatcher.store.contacts import Mode, Put

NOUN = "contacts"


def meant(text: str, kind: Kind | None, path: str = "query.address") -> Address:
    """An address that a request names. Raises Problem."""
    try:
        return given(text, kind)
    except ValueError as fault:
        raise faulty([Fault(path, str(fault))]) from fault


async def list_(call: Call) -> Done:
    """By key."""
    asked: models.ContactQuery = call.query
    address = None if asked.address is None else meant(asked.address, asked.kind)
    start = after(NOUN, asked.cursor) or asked.after or ""
    rows = await _listed(call, asked, address, start, asked.limit + 1)
    return Done(models.Contacts(*page(rows, asked.limit, models.Contact, lambda row: cursor_after(NOUN, row["key"]))))


async def search(call: Call) -> Done:
    """The one behind an address."""
    asked: models.ContactSearch = call.given
    address = meant(asked.address, asked.kind, "$.address")
    rows = await _listed(call, asked, address, asked.after or "", 1)
    return Done(models.Contacts([msgspec.convert(row, models.Contact) for row in rows], None))


async def _listed(
    call: Call, asked: models.Traits, address: Address | None, start: str, count: int
) -> list[dict[str, Any]]:
    traits = {"company": asked.company, "status": asked.status, "tag": asked.tag}
    return await store.listed(call.database, call.workspace, start, count, **traits, address=address)


async def show(call: Call) -> Done:
    """One, whole."""
    found = await store.show(call.database, call.workspace, _key(call))
    if found is None:
        raise _nobody(call)
    contact = msgspec.convert(found, models.Contact)
    return Done(contact, headers={"etag": tags.tag(contact.version)})


def _key(call: Call) -> str:
    key = call.path["key"]
    if not KEY.match(key):
        raise _nobody(call)
    return key


def _nobody(call: Call) -> Problem:
    return not_found(f"contact {call.path['key'][:101]!r}")


async def create(call: Call) -> Done:
    """Write one that is not there yet."""
    return await _write(call, _said(call.given, None, whole=True), "create")


async def put(call: Call) -> Done:
    """Save one as a whole."""
    return await _write(call, _said(call.given, call.path["key"], whole=True), "put")


async def patch(call: Call) -> Done:
    """Change what is said of one."""
    mode: Mode = "upsert" if call.query.create else "update"
    return await _write(call, _said(call.given, call.path["key"], whole=False), mode)


def _said(body: Any, key: str | None, *, whole: bool) -> Said:  # noqa: ANN401 - whatever the request says
    said = read(body, key=key, whole=whole)
    if isinstance(said, list):
        raise faulty(said)
    return said


async def _write(call: Call, said: Said, mode: Mode) -> Done:
    version = await _version(call, said.key)
    (became,) = await store.put(call.database, call.workspace, [said], mode, call.actor, version)
    if became.fault is not None:
        raise _refusal(said.key, became, became.fault)
    answer = models.SavedContact(said.key, became.answer, became.version or 0)
    return Done(answer, 201 if became.answer == "created" else 200, {"etag": tags.tag(answer.version)})


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
    return int(found["version"]) if found is not None and tags.fits(call.if_match, found["version"]) else 0


async def delete(call: Call) -> Done:
    """Delete one; what was sent to it stays."""
    key = _key(call)
    answer = await store.delete(call.database, call.workspace, key, await _version(call, key))
    if answer == "unknown":
        raise _nobody(call)
    if answer is not None:
        raise Problem(CHANGED, f"contact {key}: it has been changed meanwhile")
    return Done(models.DeletedContact(key, "deleted"))


async def import_(call: Call) -> Done:
    """Write many, each for itself."""
    asked: models.NewContacts = call.given
    found, whole = asked.contacts, asked.mode in ("create", "put")
    hints, breaks = Hints(), Breaks()
    read_all: list[tuple[int, Said | list[Fault]]] = []
    for number, one in enumerate(found):
        await breaks.take()
        read_all.append((number, read(one, f"$.contacts[{number}]", whole=whole, hints=hints)))
    sound = [(number, one) for number, one in read_all if isinstance(one, Said)]
    refused = [models.Refused(number, _key_of(found[number]), one) for number, one in read_all if isinstance(one, list)]
    became = await store.put(call.database, call.workspace, [one for _, one in sound], asked.mode, call.actor)
    saved: list[models.SavedContact] = []
    for (number, said), one in zip(sound, became, strict=True):
        if one.fault is None:
            saved.append(models.SavedContact(said.key, one.answer, one.version or 0))
        else:
            fault = Fault(f"$.contacts[{number}]{one.fault.path.removeprefix('$')}", one.fault.message)
            refused.append(models.Refused(number, said.key, [fault]))
    refused.sort(key=lambda one: one.number)
    counts = Counter(one.answer for one in saved)
    told = saved if asked.each else []
    return Done(models.Imported(counts["created"], counts["changed"], counts["same"], refused, told))


def _key_of(one: object) -> str | None:
    key = one.get("key") if isinstance(one, dict) else None
    return key if isinstance(key, str) else None


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

ENDPOINTS = (
    Endpoint(
        operation="listContacts",
        method="GET",
        path="/contacts",
        right=Right.CONTACTS,
        summary="List contacts in the order of their keys",
        query=models.ContactQuery,
        answer=models.Contacts,
        handle=list_,
    ),
    Endpoint(
        operation="createContact",
        method="POST",
        path="/contacts",
        right=Right.CONTACTS,
        summary="Create a contact",
        given=models.NewContact,
        example=_EXAMPLE,
        answer=models.SavedContact,
        status=201,
        problems=(CONFLICT,),
        handle=create,
        reads_itself=True,
        tagged=True,
    ),
    Endpoint(
        operation="getContact",
        method="GET",
        path="/contacts/{key}",
        right=Right.CONTACTS,
        summary="Show a contact with its addresses",
        answer=models.Contact,
        problems=(NOT_FOUND,),
        handle=show,
        tagged=True,
    ),
    Endpoint(
        operation="putContact",
        method="PUT",
        path="/contacts/{key}",
        right=Right.CONTACTS,
        summary="Save a contact as a whole",
        description="What is not said of it is empty from then on. An address leads to one contact of a workspace.",
        given=models.ContactFields,
        example={**_FIELDS, "addresses": []},
        answer=models.SavedContact,
        status=201,
        problems=(NOT_FOUND, CONFLICT, CHANGED),
        handle=put,
        reads_itself=True,
        tagged=True,
    ),
    Endpoint(
        operation="patchContact",
        method="PATCH",
        path="/contacts/{key}",
        right=Right.CONTACTS,
        summary="Change what is said of a contact",
        description="What is not said stays as it is. Attributes are merged by their names, of which null takes one "
        "away; tags and addresses are replaced. With create=true a contact that is not there is created.",
        query=models.PatchQuery,
        given=models.ContactFields,
        example={"status": "customer", "attributes": {"plan": "gold"}},
        answer=models.SavedContact,
        status=201,
        problems=(NOT_FOUND, CONFLICT, CHANGED),
        handle=patch,
        reads_itself=True,
        tagged=True,
    ),
    Endpoint(
        operation="deleteContact",
        method="DELETE",
        path="/contacts/{key}",
        right=Right.CONTACTS,
        summary="Delete a contact; what was sent to it stays",
        answer=models.DeletedContact,
        problems=(NOT_FOUND, CHANGED),
        handle=delete,
        tagged=True,
    ),
    Endpoint(
        operation="searchContacts",
        method="POST",
        path="/contact-search",
        right=Right.CONTACTS,
        summary="Find the contact behind an address",
        description="An address in a URL would be kept by whoever keeps URLs. There is one at most.",
        given=models.ContactSearch,
        example={"address": "+4917012345", "kind": "phone"},
        answer=models.Contacts,
        handle=search,
    ),
    Endpoint(
        operation="importContacts",
        method="POST",
        path="/contact-imports",
        right=Right.CONTACTS,
        summary="Write many contacts, each for itself",
        description="Sound ones are written, whatever the others are; each that is refused is named with its faults.",
        given=models.NewContacts,
        example={"contacts": [_EXAMPLE], "mode": "upsert"},
        answer=models.Imported,
        handle=import_,
        large=True,
    ),
)
