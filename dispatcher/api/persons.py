"""Persons over HTTP: what somebody was sent and why, and everything there is about them."""

import msgspec

from dispatcher.api import person_models as models
from dispatcher.api.contacts import meant
from dispatcher.api.cursors import ID_MAX, behind, below, cursor, microseconds, moment
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import by_id, page
from dispatcher.api.problems import NOT_FOUND, faulty, not_found
from dispatcher.domain import persons
from dispatcher.domain.persons import Person
from dispatcher.domain.roles import Right
from dispatcher.errors import Fault
from dispatcher.store import erasures
from dispatcher.store import persons as store

_SECTION_LAST = 2


async def timeline(call: Call) -> Done:
    """What was sent to an address, and why."""
    asked: models.PersonQuery = call.query
    address = meant(asked.address, asked.kind)
    before = store.END
    if asked.cursor is not None:
        at, number = behind("timeline", asked.cursor, 2)
        before = moment(at), number
    found = await store.timeline(call.database, call.workspace, address, before, asked.limit)
    more = None if found.behind is None else cursor("timeline", microseconds(found.behind[0]), found.behind[1])
    return Done(models.Timeline(list(found.entries), more))


async def export(call: Call) -> Done:
    """Everything about somebody: first what is known of them, then deliveries, then runs."""
    asked: models.PersonQuery = call.query
    who = persons.of([meant(asked.address, asked.kind)])
    contact = await store.behind_address(call.database, call.workspace, who.addresses[0])
    whole: Person = who if contact is None else persons.of([*who.addresses, *contact.addresses])
    where = store.BEGIN
    if asked.cursor is not None:
        section, following = behind("export", asked.cursor, 2)
        where = min(section, _SECTION_LAST), following - 1
    found, then = await store.export(call.database, call.workspace, whole, where, asked.limit)
    return Done(models.Export(found, None if then is None else cursor("export", then[0], then[1] + 1)))


async def erase(call: Call) -> Done:
    """Ask for an erasure, which the program does by itself."""
    asked: models.NewErasure = call.given
    if (asked.address is None) == (asked.contact is None):
        raise faulty([Fault("$", "name an address, or a contact")])
    if asked.contact is not None:
        who = await store.behind_contact(call.database, call.workspace, asked.contact)
        if who is None:
            raise not_found(f"contact {asked.contact!r}")
    else:
        one = meant(asked.address or "", asked.kind, "$.address")
        who = await store.behind_address(call.database, call.workspace, one)
        who = persons.of([one] if who is None else [one, *who.addresses])
    number = await erasures.ask(call.database, call.workspace, who, call.actor, asked.reason, asked.contact)
    (row,) = await erasures.listed(call.database, call.workspace, ID_MAX, 1, number)
    return Done(msgspec.convert(row, models.Erasure), 202)


async def erasure(call: Call) -> Done:
    """How far one has come."""
    number = call.number("erasure_id", "erasure")
    for row in await erasures.listed(call.database, call.workspace, ID_MAX, 1, number):
        return Done(msgspec.convert(row, models.Erasure))
    raise not_found(f"erasure {number}")


async def list_erasures(call: Call) -> Done:
    """The newest."""
    asked: models.ErasureQuery = call.query
    rows = await erasures.listed(call.database, call.workspace, below("erasures", asked.cursor), asked.limit + 1)
    return Done(models.Erasures(*page(rows, asked.limit, models.Erasure, by_id("erasures"))))


ENDPOINTS = (
    Endpoint(
        operation="getTimeline",
        method="GET",
        path="/persons/timeline",
        right=Right.CONTACTS,
        summary="Show every message to an address and why it was sent, the newest first",
        query=models.PersonQuery,
        answer=models.Timeline,
        handle=timeline,
    ),
    Endpoint(
        operation="exportPerson",
        method="GET",
        path="/persons/export",
        right=Right.CONTACTS,
        summary="Export everything there is about the person behind an address",
        description="The contact with all its addresses, what stands on lists, deliveries with what they say, runs.",
        query=models.PersonQuery,
        answer=models.Export,
        handle=export,
    ),
    Endpoint(
        operation="erasePerson",
        method="POST",
        path="/erasures",
        right=Right.CONTACTS,
        summary="Erase a person from the workspace",
        description="The contact, what was sent to them with all that came of it, and runs that concern them; what "
        "they may not be sent stays as a hash. It is done by itself: look at the erasure to see when. What is with a "
        "provider just now is waited for.",
        given=models.NewErasure,
        example={"address": "ann@example.org", "reason": "she asked for it"},
        answer=models.Erasure,
        status=202,
        problems=(NOT_FOUND,),
        handle=erase,
    ),
    Endpoint(
        operation="listErasures",
        method="GET",
        path="/erasures",
        right=Right.CONTACTS,
        summary="List erasures, the newest first",
        query=models.ErasureQuery,
        answer=models.Erasures,
        handle=list_erasures,
    ),
    Endpoint(
        operation="getErasure",
        method="GET",
        path="/erasures/{erasure_id}",
        right=Right.CONTACTS,
        summary="Show how far an erasure has come",
        answer=models.Erasure,
        problems=(NOT_FOUND,),
        handle=erasure,
    ),
)
