"""Contacts: the list with its search, one contact with its addresses, timeline and topics, and its export."""

import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from dispatcher.console.page import Answer, Visit, page
from dispatcher.console.pages.people.contact_timeline import Moment, moments
from dispatcher.console.rendering import plain
from dispatcher.features.contacts.endpoints import get_contact, list_contacts
from dispatcher.features.contacts.models import Contact, Contacts
from dispatcher.features.contacts.rules import KEY
from dispatcher.features.persons.endpoints import look_up_person, look_up_timeline
from dispatcher.features.suppressions.endpoints import check_address
from dispatcher.features.suppressions.models import CheckedAddress
from dispatcher.http.problems import CONFLICT, FAULTY, NOT_FOUND, Problem
from dispatcher.http.roles import Right

ROWS = 50
# Of each address, and of all of them in one list.
ENTRIES = 30
# Less than a request may take, and what a file may have.
EXPORT_SECONDS_MAX = 8.0
EXPORT_BYTES_MAX = 32 * 1024 * 1024
_KINDS = ("email", "phone")


class Reached(Struct, frozen=True):
    """An address of a contact, and whether it may be written to. Its place names it in paths, so that URLs do not."""

    place: int
    kind: str
    address: str
    said: CheckedAddress | None


@page("/contacts", Right.CONTACTS)
async def contacts(visit: Visit) -> Answer:
    """List contacts by key, or search them."""
    found = await _found(visit)
    return visit.show("people/contacts.html", found=found, rows=[(one, plain(one.addresses)) for one in found.contacts])


async def _found(visit: Visit) -> Any:  # noqa: ANN401 - a page of contacts
    """Return the contact with this key or address, else those with these words in the name, or all that match."""
    text = visit.query.get("q", "").strip()
    filters = {name: visit.query.get(name) for name in ("company", "status", "tag", "cursor")}
    if not text:
        return await visit.ask(list_contacts, query={"limit": ROWS, **filters})
    if KEY.match(text):
        try:
            return Contacts([await visit.ask(get_contact, text)], None)
        except Problem as problem:
            if problem.kind is not NOT_FOUND:
                raise
    try:
        found = await visit.ask(list_contacts, query={"limit": ROWS, **filters, "address": text})
        if found.contacts:
            return found
    except Problem as problem:
        if problem.kind is not FAULTY:
            raise
    return await visit.ask(list_contacts, query={"limit": ROWS, **filters, "name": text})


@page("/contacts/{key}", Right.CONTACTS)
async def contact(visit: Visit) -> Answer:
    """Show one contact: whom messages reach, what was sent and why, and what the person wants."""
    one: Contact = await visit.ask(get_contact)
    reached = await addresses(visit, one)
    chosen = visit.query.get("at", "")
    shown = [one for one in reached if str(one.place) == chosen] or reached
    entries, cursor, is_cut = await _timeline(visit, shown)
    topics = sorted({topic.topic for each in reached if each.said for topic in each.said.topics})
    wants = {(each.place, topic.topic): topic.subscribed for each in reached if each.said for topic in each.said.topics}
    return visit.show(
        "people/contact.html",
        one=one,
        reached=reached,
        barred=[each for each in reached if each.said and each.said.barred],
        chosen=chosen if len(shown) == 1 and chosen else "",
        entries=entries,
        cursor=cursor,
        is_cut=is_cut,
        topics=topics,
        wants=wants,
        attributes=plain(one.attributes),
    )


async def addresses(visit: Visit, one: Contact) -> list[Reached]:
    """Return the addresses of a contact, each with what is known about it."""
    found = []
    for place, each in enumerate(plain(one.addresses)):
        asked = asked_about(each["kind"], each["address"])
        said = await visit.ask(check_address, body=asked) if visit.may(Right.SUPPRESSIONS) else None
        found.append(Reached(place, each["kind"], each["address"], said))
    return found


def asked_about(kind: str, address: str) -> dict[str, object]:
    """Return an address as endpoints about suppressions and persons take it."""
    return {"address": address, "kind": kind if kind in _KINDS else "other"}


async def _timeline(visit: Visit, shown: Sequence[Reached]) -> tuple[list[Moment], str | None, bool]:
    """Return the newest entries about addresses; the next page, if it is one; and whether older ones were left out."""
    found: list[tuple[str, dict[str, Any]]] = []
    cursor, is_cut = None, False
    for one in shown:
        at = visit.query.get("cursor") if len(shown) == 1 else None
        asked = asked_about(one.kind, one.address) | {"limit": ENTRIES, "cursor": at}
        page = await visit.ask(look_up_timeline, body=asked)
        found += [(one.address, plain(row)) for row in page.entries]
        cursor, is_cut = page.next_cursor, is_cut or page.next_cursor is not None
    made = moments(found)
    if len(shown) == 1:
        return made, cursor, False
    return made[:ENTRIES], None, is_cut or len(made) > ENTRIES


@page("/contacts/{key}/export", Right.CONTACTS, raw=True)
async def export(visit: Visit) -> Answer:
    """Download all records of a person, one a line."""
    key, end = visit.path["key"], time.monotonic() + EXPORT_SECONDS_MAX
    lines = bytearray()
    cursor: str | None = None
    while True:
        found = await visit.ask(look_up_person, body={"contact": key, "limit": 500, "cursor": cursor})
        for row in found.records:
            lines += bytes(row) + b"\n"
        cursor = found.next_cursor
        if cursor is None:
            return visit.download(bytes(lines), f"{key}.jsonl", "application/x-ndjson")
        if time.monotonic() > end or len(lines) > EXPORT_BYTES_MAX:
            words = f"the records are too many for a page: use dispatcher contacts export-person --contact {key}"
            raise Problem(CONFLICT, words)
