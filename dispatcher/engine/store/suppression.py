"""Suppression: what is known of addresses, and the deliveries to them that are skipped because of it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain

from dispatcher.base.values.addresses import Address, address, forms
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Claimed, Lane
from dispatcher.engine.rules.suppression import Candidate, Known, Suppression, suppression_reason

_SQL = statements(__name__)
# The question whether there is anything to catch up.
IS_BEHIND = _SQL["is_behind"]

# Rows that one transaction locks: marks that meet it wait for it.
SKIPPED_AT_ONCE = 1_000

# A tenant, and an address by its kind and form.
Contact = tuple[str, str, str]


async def known(database: Database, items: Iterable[Claimed | Candidate]) -> dict[Contact, Known]:
    """Return what is known of the addresses of these, by contact; without those of which nothing is known."""
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


async def reasons(database: Database, items: Sequence[Claimed | Candidate]) -> dict[int, str]:
    """Return why some of these may not be sent, by id."""
    found = await known(database, items) if items else {}
    why: dict[int, str] = {}
    for item in items if found else ():
        one = address(item.channel, item.recipient)
        reason = suppression_reason(item, found.get((item.tenant_id, one.kind, one.text), Known()))
        if reason is not None:
            why[item.id] = reason
    return why


async def skip(database: Database, why: Mapping[int, str]) -> dict[int, str]:
    """Skip these; return what each of them became: skipped, or held where an earlier attempt may have arrived."""
    became: dict[int, str] = {}
    ids = sorted(why)
    for start in range(0, len(ids), SKIPPED_AT_ONCE):
        some = ids[start : start + SKIPPED_AT_ONCE]
        became.update(await database.fetch(_SQL["skip"], some, [why[one] for one in some]))
    return became


async def catch_up(database: Database, page: int) -> int:
    """Skip what is queued for up to `page` addresses that were suppressed since; return their number.

    May be cut off anywhere, and run concurrently: an address is deleted from the work at the very end.
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
    """Delete suppressions that have expired; return their number."""
    return int(await database.value(_SQL["drop_expired"], page))
