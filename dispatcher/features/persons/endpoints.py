"""The endpoints about persons: what a person was sent and why, all their records, and erasing them."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw

from dispatcher.base.errors import Fault
from dispatcher.base.values.addresses import Address
from dispatcher.features.contacts.endpoints import requested_address
from dispatcher.features.deliveries.subjects import subjects
from dispatcher.features.persons import erasure, models, store
from dispatcher.features.persons.rules import Person
from dispatcher.http.cursors import ID_MAX, cursor, microseconds, moment, read_id, read_numbers
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_id, page
from dispatcher.http.models import PageQuery
from dispatcher.http.problems import NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

_RIGHT = Right.CONTACTS
_SECTION_LAST = 2


@endpoint(
    "POST",
    "/persons/find",
    _RIGHT,
    given=models.PersonSelector,
    example={"addresses": [{"address": "bob@example.org"}]},
    answered=models.PERSON,
    problems=(NOT_FOUND,),
    looks=True,
)
async def find_person(call: Call) -> Done:
    """List the addresses of a person: an export or an erasure of the same selection is about these."""
    person = await _person(call, _addresses(call.given), call.given.contact)
    return Done(models.Person([models.PersonAddress(one.kind, one.text) for one in person.addresses]))


def _addresses(body: models.PersonSelector) -> list[Address]:
    """The addresses in a body. Raises Problem with every faulty address."""
    found, faults = list[Address](), list[Fault]()
    for number, one in enumerate(body.addresses):
        try:
            found.append(requested_address(one.address, one.kind, f"$.addresses[{number}].address"))
        except Problem as problem:
            faults += problem.faults
    if faults:
        raise faulty(faults)
    return found


async def _person(call: Call, addresses: Sequence[Address], contact: str | None) -> Person:
    if not addresses and contact is None:
        raise faulty([Fault("$", "name an address, or a contact")])
    person = await store.find(call.database, call.workspace, addresses, contact)
    if person is None:
        raise not_found(f"contact {contact!r}")
    return person


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
    address = requested_address(asked.address, asked.kind, f"{path}.address")
    before = store.END
    if asked.cursor is not None:
        at, number = read_numbers("timeline", asked.cursor, 2, f"{path}.cursor")
        before = moment(at), number
    entries, last = await store.timeline(call.database, call.workspace, address, before, asked.limit)
    ids = [row["id"] for row in entries if row["kind"] == "delivery"]
    known = await subjects(call.database, call.served.config().limits, ids)
    for row in entries:
        if row["kind"] == "delivery":
            row["subject"] = known.get(row["id"])
    more = None if last is None else cursor("timeline", microseconds(last[0]), last[1])
    return Done(models.Timeline(_encoded(entries), more))


def _encoded(rows: Iterable[object]) -> list[Raw]:
    return [Raw(msgspec.json.encode(row)) for row in rows]


@endpoint("GET", "/persons/export", _RIGHT, query=models.PersonQuery, answered=models.EXPORT)
async def export_person(call: Call) -> Done:
    """Export all records of the person with an address.

    The contact with all its addresses, list entries, deliveries with their content, runs.
    """
    asked: models.PersonQuery = call.query
    person = await _person(call, [requested_address(asked.address, asked.kind)], None)
    return await _export(call, person, asked.cursor, asked.limit, "query.cursor")


@endpoint(
    "POST",
    "/persons/export",
    _RIGHT,
    given=models.PersonExport,
    example={"addresses": [{"address": "+4917012345"}], "limit": 100},
    answered=models.EXPORT,
    problems=(NOT_FOUND,),
    looks=True,
)
async def look_up_person(call: Call) -> Done:
    """Export all records of a person, without an address in the URL.

    As exportPerson, of several addresses, or of a contact. An answer to an `Idempotency-Key` is kept for a day: it
    needs none.
    """
    asked: models.PersonExport = call.given
    person = await _person(call, _addresses(asked), asked.contact)
    return await _export(call, person, asked.cursor, asked.limit, "$.cursor")


async def _export(call: Call, person: Person, after: str | None, count: int, path: str) -> Done:
    """A page of facts, then of deliveries, then of runs."""
    place = store.BEGIN
    if after is not None:
        section, number = read_numbers("export", after, 2, path)
        place = min(section, _SECTION_LAST), number - 1
    found, following = await store.export(call.database, call.workspace, person, place, count)
    more = None if following is None else cursor("export", following[0], following[1] + 1)
    return Done(models.Export(_encoded(found), more))


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

    The contact, deliveries to them with attempts and receipts, and runs that concern them; suppressions stay as a
    hash. The erasure runs in the background and waits for deliveries that are with a provider: getErasure shows how
    far it has come.
    """
    asked: models.NewErasure = call.given
    single = [] if asked.address is None else [requested_address(asked.address, asked.kind, "$.address")]
    person = await _person(call, [*single, *_addresses(asked)], asked.contact)
    number = await erasure.request(call.database, call.workspace, person, call.actor, asked.reason, asked.contact)
    return Done(await _erasure(call, number), 202)


async def _erasure(call: Call, number: int) -> models.Erasure:
    for row in await erasure.listed(call.database, call.workspace, ID_MAX, 1, number):
        return msgspec.convert(row, models.Erasure)
    raise not_found(f"erasure {number}")


@endpoint("GET", "/erasures/{erasure_id}", _RIGHT, answered=models.ERASURE, problems=(NOT_FOUND,))
async def get_erasure(call: Call) -> Done:
    """Show how far an erasure has come."""
    return Done(await _erasure(call, call.number("erasure_id", "erasure")))


@endpoint("GET", "/erasures", _RIGHT, query=PageQuery, answered=models.ERASURES)
async def list_erasures(call: Call) -> Done:
    """List erasures, the newest first."""
    asked: PageQuery = call.query
    rows = await erasure.listed(call.database, call.workspace, read_id("erasures", asked.cursor), asked.limit + 1)
    return Done(models.Erasures(*page(rows, asked.limit, models.Erasure, by_id("erasures"))))
