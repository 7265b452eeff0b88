"""Contacts over HTTP: the people of a workspace, by the keys that the application has chosen."""

import re
from collections import Counter
from typing import Any

import msgspec

from dispatcher.api import contact_models as models
from dispatcher.api import tags
from dispatcher.api.cursors import after, cursor_after
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import page
from dispatcher.api.problems import CHANGED, CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.domain.addresses import Address, Kind, given
from dispatcher.domain.contacts import KEY, Said, read
from dispatcher.domain.roles import Right
from dispatcher.errors import Fault
from dispatcher.store import contacts as store
from dispatcher.store.contacts import Mode, Put

NOUN = "contacts"
_TAG = re.compile(r'"([1-9][0-9]{0,8})"')


def meant(text: str, kind: Kind | None, path: str = "query.address") -> Address:
    """An address that a request names. Raises Problem."""
    try:
        return given(text, kind)
    except ValueError as fault:
        raise faulty([Fault(path, str(fault))]) from fault


async def list_(call: Call) -> Done:
    """By key."""
    asked: models.ContactQuery = call.query
    rows = await store.listed(
        call.database,
        call.workspace,
        after(NOUN, asked.cursor),
        asked.limit + 1,
        company=asked.company,
        status=asked.status,
        tag=asked.tag,
        address=None if asked.address is None else meant(asked.address, asked.kind),
    )
    return Done(models.Contacts(*page(rows, asked.limit, models.Contact, lambda row: cursor_after(NOUN, row["key"]))))


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
    (became,) = await store.put(call.database, call.workspace, [said], mode, call.actor, _version(call))
    if became.fault is not None:
        raise _refusal(said.key, became)
    answer = models.SavedContact(said.key, became.answer, became.version or 0)
    return Done(answer, 201 if became.answer == "created" else 200, {"etag": tags.tag(answer.version)})


def _refusal(key: str, became: Put) -> Problem:
    if became.answer == "unknown":
        return not_found(f"contact {key!r}")
    if became.answer == "large":
        return faulty([Fault("$.attributes", became.fault or "")])
    kind = CHANGED if became.answer == "stale" else CONFLICT
    return Problem(kind, f"contact {key}: {became.fault}")


def _version(call: Call) -> int | None:
    """The version that has to be there still; one that never was is none."""
    if call.if_match is None:
        return None
    match = _TAG.fullmatch(call.if_match)
    return int(match[1]) if match else 0


async def delete(call: Call) -> Done:
    """Delete one; what was sent to it stays."""
    key = _key(call)
    answer = await store.delete(call.database, call.workspace, key, _version(call))
    if answer == "unknown":
        raise _nobody(call)
    if answer is not None:
        raise Problem(CHANGED, f"contact {key}: it has been changed meanwhile")
    return Done(models.DeletedContact(key, "deleted"))


async def import_(call: Call) -> Done:
    """Write many, each for itself."""
    asked = call.given
    found = asked.get("contacts") if isinstance(asked, dict) else None
    mode = asked.get("mode", "upsert") if isinstance(asked, dict) else None
    if not isinstance(found, list) or not set(asked) <= {"contacts", "mode"}:
        raise faulty([Fault("$", 'expected an object with contacts and mode: {"contacts": [...]}')])
    if not 1 <= len(found) <= models.IMPORT_MAX:
        raise faulty([Fault("$.contacts", f"expected 1 to {models.IMPORT_MAX} of them, got {len(found)}")])
    if mode not in ("upsert", "create", "put"):
        raise faulty([Fault("$.mode", "expected one of upsert, create, put")])
    read_all = [
        (number, read(one, f"$.contacts[{number}]", whole=mode != "upsert")) for number, one in enumerate(found)
    ]
    sound = [(number, one) for number, one in read_all if isinstance(one, Said)]
    refused = [models.Refused(number, _key_of(found[number]), one) for number, one in read_all if isinstance(one, list)]
    became = await store.put(call.database, call.workspace, [one for _, one in sound], mode, call.actor)
    counts = Counter[str]()
    for (number, said), one in zip(sound, became, strict=True):
        if one.fault is None:
            counts[one.answer] += 1
        else:
            refused.append(models.Refused(number, said.key, [Fault(f"$.contacts[{number}]", one.fault)]))
    refused.sort(key=lambda one: one.number)
    return Done(models.Imported(counts["created"], counts["changed"], counts["same"], refused))


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
        reads_itself=True,
        large=True,
    ),
)
