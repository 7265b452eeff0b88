"""Barring: what is known of addresses, and the deliveries to them that are not sent because of it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain

from msgspec import Struct

from dispatcher.base.values.addresses import Address, address, forms
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Lane
from dispatcher.engine.rules.suppression import Addressed, Known, Suppression, suppression_reason

_SQL = statements(__name__)

# Rows that one transaction locks: marks that meet it wait for it.
SKIPPED_AT_ONCE = 1_000

# A tenant, and an address by its kind and form.
Contact = tuple[str, str, str]


class Candidate(Struct, frozen=True):
    """A queued delivery that may be meant."""

    id: int
    tenant_id: str
    channel: str
    lane: Lane
    recipient: str
    topic: str | None


async def known(database: Database, items: Iterable[Addressed]) -> dict[Contact, Known]:
    """What is known of where these go; addresses of which nothing is are left out."""
    groups: dict[tuple[str, str], set[str]] = {}
    topical: set[tuple[str, str]] = set()
    for item in items:
        one = address(item.channel, item.recipient)
        group = item.tenant_id, one.kind
        groups.setdefault(group, set()).add(one.text)
        if item.topic is not None:
            topical.add(group)
    ends = list(accumulate(map(len, groups.values())))
    rows = await database.fetch(
        _SQL["known"],
        [tenant for tenant, _ in groups],
        [kind for _, kind in groups],
        list(chain.from_iterable(groups.values())),
        [1, *(end + 1 for end in ends[:-1])],
        ends,
        [group in topical for group in groups],
    )
    suppressions: dict[Contact, list[Suppression]] = {}
    topics: dict[Contact, set[str]] = {}
    for row in rows:
        contact = row["tenant_id"], row["kind"], row["address"]
        if row["topic"] is None:
            suppressions.setdefault(contact, []).append(Suppression(row["channel"], row["source"], row["reason"]))
        else:
            topics.setdefault(contact, set()).add(row["topic"])
    return {
        contact: Known(suppressions.get(contact, ()), topics.get(contact, ()))
        for contact in suppressions.keys() | topics.keys()
    }


async def reasons(database: Database, items: Sequence[Addressed]) -> dict[int, str]:
    """Why some of these may not be sent, by id."""
    found = await known(database, items) if items else {}
    if not found:
        return {}
    why: dict[int, str] = {}
    for item in items:
        one = address(item.channel, item.recipient)
        about = found.get((item.tenant_id, one.kind, one.text))
        reason = None if about is None else suppression_reason(item, about)
        if reason is not None:
            why[item.id] = reason
    return why


async def skip(database: Database, why: Mapping[int, str]) -> dict[int, str]:
    """Let none of these go out; answers what each of them became: skipped, or held where it may have arrived before."""
    became: dict[int, str] = {}
    ids = sorted(why)
    for start in range(0, len(ids), SKIPPED_AT_ONCE):
        some = ids[start : start + SKIPPED_AT_ONCE]
        became.update(await database.fetch(_SQL["skip"], some, [why[one] for one in some]))
    return became


async def catch_up(database: Database, page: int) -> int:
    """Look through what is queued for up to so many addresses about which something was said; how many it were.

    May be cut off anywhere, and be run by several at once: an address is crossed off at the very end.
    """
    work = await database.fetch(_SQL["work"], page)
    if not work:
        return 0
    asked = [(row["tenant_id"], form) for row in work for form in forms(Address(row["kind"], row["address"]))]
    rows = await database.fetch(_SQL["candidates"], [tenant for tenant, _ in asked], [form for _, form in asked])
    candidates = [Candidate(r[0], r[1], r[2], Lane(r[3]), r[4], r[5]) for r in rows]
    if candidates:
        await skip(database, await reasons(database, candidates))
    await database.fetch(_SQL["worked"], [row["id"] for row in work])
    return len(work)


async def drop_expired(database: Database, page: int) -> int:
    """Take those off the list whose time is over; says how many it were."""
    return int(await database.value(_SQL["drop_expired"], page))
