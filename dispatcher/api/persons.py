"""Persons over HTTP: what somebody was sent and why, and everything there is about them."""

from collections.abc import Sequence

import msgspec

from dispatcher.api import person_models as models
from dispatcher.api.contacts import meant
from dispatcher.api.cursors import ID_MAX, behind, below, cursor, microseconds, moment
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import by_id, page
from dispatcher.api.problems import NOT_FOUND, Problem, faulty, not_found
from dispatcher.domain.addresses import Address
from dispatcher.domain.persons import Person
from dispatcher.domain.roles import Right
from dispatcher.errors import Fault
from dispatcher.store import erasures
from dispatcher.store import persons as store

_SECTION_LAST = 2


async def find(call: Call) -> Done:
    """By which addresses somebody is known."""
    who = await _person(call, _named(call.given), call.given.contact)
    return Done(models.Person([models.PersonAddress(one.kind, one.text) for one in who.addresses]))


def _named(asked: models.Whom) -> list[Address]:
    """The addresses in a body. Raises Problem with every one that is none."""
    found, faults = list[Address](), list[Fault]()
    for number, one in enumerate(asked.addresses):
        try:
            found.append(meant(one.address, one.kind, f"$.addresses[{number}].address"))
        except Problem as problem:
            faults += problem.faults
    if faults:
        raise faulty(faults)
    return found


async def _person(call: Call, addresses: Sequence[Address], contact: str | None) -> Person:
    if not addresses and contact is None:
        raise faulty([Fault("$", "name an address, or a contact")])
    who = await store.find(call.database, call.workspace, addresses, contact)
    if who is None:
        raise not_found(f"contact {contact!r}")
    return who


async def timeline(call: Call) -> Done:
    """What was sent to an address, and why."""
    return await _timeline(call, call.query, "query")


async def look_up_timeline(call: Call) -> Done:
    """The same of an address in the body."""
    return await _timeline(call, call.given, "$")


async def _timeline(call: Call, asked: models.PersonQuery, path: str) -> Done:
    address = meant(asked.address, asked.kind, f"{path}.address")
    before = store.END
    if asked.cursor is not None:
        at, number = behind("timeline", asked.cursor, 2, f"{path}.cursor")
        before = moment(at), number
    found = await store.timeline(call.database, call.workspace, address, before, asked.limit)
    more = None if found.behind is None else cursor("timeline", microseconds(found.behind[0]), found.behind[1])
    return Done(models.Timeline(list(found.entries), more))


async def export(call: Call) -> Done:
    """Everything about somebody: first what is known of them, then deliveries, then runs."""
    asked: models.PersonQuery = call.query
    who = await _person(call, [meant(asked.address, asked.kind)], None)
    return await _export(call, who, asked.cursor, asked.limit, "query.cursor")


async def look_up_person(call: Call) -> Done:
    """The same of somebody in the body."""
    asked: models.WholePerson = call.given
    who = await _person(call, _named(asked), asked.contact)
    return await _export(call, who, asked.cursor, asked.limit, "$.cursor")


async def _export(call: Call, who: Person, following: str | None, count: int, path: str) -> Done:
    where = store.BEGIN
    if following is not None:
        section, number = behind("export", following, 2, path)
        where = min(section, _SECTION_LAST), number - 1
    found, then = await store.export(call.database, call.workspace, who, where, count)
    return Done(models.Export(found, None if then is None else cursor("export", then[0], then[1] + 1)))


async def erase(call: Call) -> Done:
    """Ask for an erasure, which the program does by itself."""
    asked: models.NewErasure = call.given
    single = [] if asked.address is None else [meant(asked.address, asked.kind, "$.address")]
    who = await _person(call, [*single, *_named(asked)], asked.contact)
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
        operation="findPerson",
        method="POST",
        path="/persons/find",
        right=Right.CONTACTS,
        summary="Find out by which addresses somebody is known",
        description="Whom an export or an erasure of these would be about.",
        given=models.Whom,
        example={"addresses": [{"address": "bob@example.org"}]},
        answer=models.Person,
        problems=(NOT_FOUND,),
        handle=find,
    ),
    Endpoint(
        operation="lookUpTimeline",
        method="POST",
        path="/persons/timeline",
        right=Right.CONTACTS,
        summary="Show every message to an address and why it was sent, without an address in the URL",
        description="As getTimeline. An answer to an `Idempotency-Key` is kept for a day: it needs none.",
        given=models.PersonQuery,
        example={"address": "+4917012345"},
        answer=models.Timeline,
        handle=look_up_timeline,
    ),
    Endpoint(
        operation="lookUpPerson",
        method="POST",
        path="/persons/export",
        right=Right.CONTACTS,
        summary="Export everything there is about a person, without an address in the URL",
        description="As exportPerson, of several addresses, or of a contact. An answer to an `Idempotency-Key` is kept "
        "for a day: it needs none.",
        given=models.WholePerson,
        example={"addresses": [{"address": "+4917012345"}], "limit": 100},
        answer=models.Export,
        problems=(NOT_FOUND,),
        handle=look_up_person,
    ),
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
