"""The endpoints about contacts."""

from collections import Counter
from typing import Any

import msgspec

from dispatcher.base.errors import Fault, Hints
from dispatcher.base.loop_yielder import LoopYielder
from dispatcher.base.values.addresses import Address, Kind, parse_address
from dispatcher.features.contacts import models, store
from dispatcher.features.contacts.rules import KEY, ContactInput, audience_json, conditions, read
from dispatcher.features.contacts.store import Mode
from dispatcher.http import etags
from dispatcher.http.cursors import cursor, read_name
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import page
from dispatcher.http.problems import CHANGED, CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

NOUN = "contacts"
# An audience is counted so far: what has more is large, and how much more the plan of a campaign says.
COUNTED_MAX = 10_000
SAMPLE = 10
_RIGHT = Right.CONTACTS
_ONE = "/contacts/{key}"
# Modes in which fields that are not given become empty.
WHOLE = ("create", "put")
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


def requested_address(text: str, kind: Kind | None, path: str = "query.address") -> Address:
    """Return the address that a request has at a path. Raises Problem."""
    try:
        return parse_address(text, kind)
    except ValueError as fault:
        raise faulty([Fault(path, str(fault))]) from fault


@endpoint("GET", "/contacts", _RIGHT, query=models.ContactQuery, answered=models.CONTACTS)
async def list_contacts(call: Call) -> Done:
    """List contacts in the order of their keys.

    A filter that matches many looks at 5,000 of them: a page may be short, or empty, and still have a next_cursor.
    """
    asked: models.ContactQuery = call.query
    start = read_name(NOUN, asked.cursor) or asked.after or ""
    if asked.address is not None:
        found = await _reached(call, asked, requested_address(asked.address, asked.kind), start)
        return Done(models.Contacts(found, None))
    filters = {"name": asked.name, **_filters(asked)}
    rows, end = await store.listed(call.database, call.workspace, start, asked.limit + 1, **filters)
    found, more = page(rows, asked.limit, models.Contact, lambda row: cursor(NOUN, row["key"]))
    return Done(models.Contacts(found, cursor(NOUN, end) if more is None and end is not None else more))


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
    """Find the contact with an address.

    The address is in the body, since URLs are logged. There is one contact at most.
    """
    asked: models.ContactSearch = call.given
    address = requested_address(asked.address, asked.kind, "$.address")
    return Done(models.Contacts(await _reached(call, asked, address, asked.after or ""), None))


async def _reached(call: Call, asked: models.ContactFilter, address: Address, start: str) -> list[models.Contact]:
    rows = await store.reached(call.database, call.workspace, address, behind=start, **_filters(asked))
    return [msgspec.convert(row, models.Contact) for row in rows]


def _filters(asked: models.ContactFilter) -> dict[str, str | None]:
    return {"company": asked.company, "status": asked.status, "tag": asked.tag}


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
    """Save a whole contact.

    Fields that are not given become empty. An address belongs to one contact of a workspace.
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
    """Change the given fields of a contact.

    Other fields stay as they are. Attributes are merged by name, and null removes one; tags and addresses are replaced.
    With create=true a contact that does not exist is created.
    """
    return await _write(call, call.path["key"], "upsert" if call.query.create else "update")


async def _write(call: Call, key: str | None, mode: Mode) -> Done:
    contact = read(call.given, key=key, whole=mode in WHOLE)
    if isinstance(contact, list):
        raise faulty(contact)
    version = await _version(call, contact.key)
    (result,) = await store.put(call.database, call.workspace, [contact], mode, call.actor, version)
    if result.fault is not None:
        raise _refusal(contact.key, result.answer, result.fault)
    saved = models.SavedContact(contact.key, result.answer, result.version or 0)
    return Done(saved, 201 if result.answer == "created" else 200, {"etag": etags.tag(saved.version)})


def _refusal(key: str, answer: str, fault: Fault) -> Problem:
    if answer == "unknown":
        return not_found(f"contact {key!r}")
    if answer == "large":
        return faulty([fault])
    return Problem(CHANGED if answer == "stale" else CONFLICT, f"contact {key}: {fault.message}")


async def _version(call: Call, key: str) -> int | None:
    """The version that If-Match requires; 0 where it matches none."""
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
    """Write many contacts, each by itself.

    Sound contacts are written, also where others have faults; each refused contact is named with its faults.
    """
    asked: models.NewContacts = call.given
    hints, breaks = Hints(), LoopYielder()
    sound: dict[int, ContactInput] = {}
    refused: list[models.RefusedContact] = []
    for number, one in enumerate(asked.contacts):
        await breaks.take()
        contact = read(one, f"$.contacts[{number}]", whole=asked.mode in WHOLE, hints=hints)
        if isinstance(contact, ContactInput):
            sound[number] = contact
        else:
            refused.append(models.RefusedContact(number, _key_of(one), contact))
    results = await store.put(call.database, call.workspace, [*sound.values()], asked.mode, call.actor)
    saved: list[models.SavedContact] = []
    for (number, contact), result in zip(sound.items(), results, strict=True):
        if result.fault is None:
            saved.append(models.SavedContact(contact.key, result.answer, result.version or 0))
        else:
            fault = Fault(f"$.contacts[{number}]{result.fault.path.removeprefix('$')}", result.fault.message)
            refused.append(models.RefusedContact(number, contact.key, [fault]))
    refused.sort(key=lambda one: one.number)
    counts = Counter(one.answer for one in saved)
    each = saved if asked.each else []
    return Done(models.Imported(counts["created"], counts["changed"], counts["same"], refused, each))


def _key_of(one: object) -> str | None:
    key = one.get("key") if isinstance(one, dict) else None
    return key if isinstance(key, str) else None


@endpoint(
    "POST",
    "/audience",
    Right.CAMPAIGNS,
    given=models.AudienceQuestion,
    example={"audience": {"status": "customer", "tags": ["newsletter"], "exclude": ["customer-18"]}},
    answered=models.AUDIENCE_SEEN,
    looks=True,
)
async def see_audience(call: Call) -> Done:
    """Count an audience, and show ten of its contacts.

    Each condition is counted by itself as well. Counting ends at 10,000: `at_least` says that there are more.
    """
    said = audience_json(call.raw("audience"))
    if faults := await store.audience_faults(call.database, call.workspace, "$.audience", said):
        raise faulty(faults)
    alone = conditions(said)
    asked = [said, *(one for _, one in alone)]
    counts = await store.audience_counts(call.database, call.workspace, asked, COUNTED_MAX + 1)
    (count, at_least), *others = [(min(one, COUNTED_MAX), one > COUNTED_MAX) for one in counts]
    matched = [models.MatchedCondition(words, *one) for (words, _), one in zip(alone, others, strict=True)]
    sample = await store.audience_sample(call.database, call.workspace, said, SAMPLE)
    return Done(models.AudienceSeen(count, at_least, matched, sample))
