"""Persons over HTTP: what somebody was sent and why, everything there is about them, and erasing it."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw

from dispatcher.base.errors import Fault
from dispatcher.base.values.addresses import Address
from dispatcher.features.contacts.endpoints import meant
from dispatcher.features.persons import erasure, models, store
from dispatcher.features.persons.rules import Person
from dispatcher.http.cursors import ID_MAX, cursor, microseconds, moment, read_id, read_numbers
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_id, page
from dispatcher.http.problems import NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

_RIGHT = Right.CONTACTS
_SECTION_LAST = 2


@endpoint(
    "POST",
    "/persons/find",
    _RIGHT,
    given=models.Whom,
    example={"addresses": [{"address": "bob@example.org"}]},
    answered=models.PERSON,
    problems=(NOT_FOUND,),
    looks=True,
)
async def find_person(call: Call) -> Done:
    """Find out by which addresses somebody is known.

    Whom an export or an erasure of these would be about.
    """
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


@endpoint("GET", "/persons/timeline", _RIGHT, query=models.PersonQuery, answered=models.TIMELINE)
async def get_timeline(call: Call) -> Done:
    """Show every message to an address and why it was sent, the newest first."""
    return await _timeline(call, call.query, "query")


@endpoint(
    "POST",
    "/persons/timeline",
    _RIGHT,
    given=models.PersonQuery,
    example={"address": "+4917012345"},
    answered=models.TIMELINE,
    looks=True,
)
async def look_up_timeline(call: Call) -> Done:
    """Show every message to an address and why it was sent, without an address in the URL.

    As getTimeline. An answer to an `Idempotency-Key` is kept for a day: it needs none.
    """
    return await _timeline(call, call.given, "$")


async def _timeline(call: Call, asked: models.PersonQuery, path: str) -> Done:
    address = meant(asked.address, asked.kind, f"{path}.address")
    before = store.END
    if asked.cursor is not None:
        at, number = read_numbers("timeline", asked.cursor, 2, f"{path}.cursor")
        before = moment(at), number
    found = await store.timeline(call.database, call.workspace, address, before, asked.limit)
    more = None if found.behind is None else cursor("timeline", microseconds(found.behind[0]), found.behind[1])
    return Done(models.Timeline(_written(found.entries), more))


def _written(rows: Iterable[object]) -> list[Raw]:
    return [Raw(msgspec.json.encode(row)) for row in rows]


@endpoint("GET", "/persons/export", _RIGHT, query=models.PersonQuery, answered=models.EXPORT)
async def export_person(call: Call) -> Done:
    """Export everything there is about the person behind an address.

    The contact with all its addresses, what stands on lists, deliveries with what they say, runs.
    """
    asked: models.PersonQuery = call.query
    who = await _person(call, [meant(asked.address, asked.kind)], None)
    return await _export(call, who, asked.cursor, asked.limit, "query.cursor")


@endpoint(
    "POST",
    "/persons/export",
    _RIGHT,
    given=models.WholePerson,
    example={"addresses": [{"address": "+4917012345"}], "limit": 100},
    answered=models.EXPORT,
    problems=(NOT_FOUND,),
    looks=True,
)
async def look_up_person(call: Call) -> Done:
    """Export everything there is about a person, without an address in the URL.

    As exportPerson, of several addresses, or of a contact. An answer to an `Idempotency-Key` is kept for a day: it
    needs none.
    """
    asked: models.WholePerson = call.given
    who = await _person(call, _named(asked), asked.contact)
    return await _export(call, who, asked.cursor, asked.limit, "$.cursor")


async def _export(call: Call, who: Person, following: str | None, count: int, path: str) -> Done:
    """A page: first what is known of somebody, then deliveries, then runs."""
    where = store.BEGIN
    if following is not None:
        section, number = read_numbers("export", following, 2, path)
        where = min(section, _SECTION_LAST), number - 1
    found, then = await store.export(call.database, call.workspace, who, where, count)
    more = None if then is None else cursor("export", then[0], then[1] + 1)
    return Done(models.Export(_written(found), more))


@endpoint(
    "POST",
    "/erasures",
    _RIGHT,
    given=models.NewErasure,
    example={"address": "ann@example.org", "reason": "she asked for it"},
    answered=models.ERASURE,
    status=202,
    problems=(NOT_FOUND,),
)
async def erase_person(call: Call) -> Done:
    """Erase a person from the workspace.

    The contact, what was sent to them with all that came of it, and runs that concern them; what they may not be sent
    stays as a hash. It is done by itself: look at the erasure to see when. What is with a provider just now is waited
    for.
    """
    asked: models.NewErasure = call.given
    single = [] if asked.address is None else [meant(asked.address, asked.kind, "$.address")]
    who = await _person(call, [*single, *_named(asked)], asked.contact)
    number = await erasure.ask(call.database, call.workspace, who, call.actor, asked.reason, asked.contact)
    return Done(await _erasure(call, number), 202)


async def _erasure(call: Call, number: int) -> models.Erasure:
    for row in await erasure.listed(call.database, call.workspace, ID_MAX, 1, number):
        return msgspec.convert(row, models.Erasure)
    raise not_found(f"erasure {number}")


@endpoint("GET", "/erasures/{erasure_id}", _RIGHT, answered=models.ERASURE, problems=(NOT_FOUND,))
async def get_erasure(call: Call) -> Done:
    """Show how far an erasure has come."""
    return Done(await _erasure(call, call.number("erasure_id", "erasure")))


@endpoint("GET", "/erasures", _RIGHT, query=models.ErasureQuery, answered=models.ERASURES)
async def list_erasures(call: Call) -> Done:
    """List erasures, the newest first."""
    asked: models.ErasureQuery = call.query
    rows = await erasure.listed(call.database, call.workspace, read_id("erasures", asked.cursor), asked.limit + 1)
    return Done(models.Erasures(*page(rows, asked.limit, models.Erasure, by_id("erasures"))))


ENDPOINTS = (
    find_person,
    look_up_timeline,
    look_up_person,
    get_timeline,
    export_person,
    erase_person,
    list_erasures,
    get_erasure,
)
