"""Barring: what is known of addresses, and the deliveries to them that are not sent because of it."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from dispatcher.domain.addresses import Address, address, forms
from dispatcher.domain.life import Lane
from dispatcher.domain.suppression import Addressed, Known, Suppression, barred
from dispatcher.store.database import Database
from dispatcher.store.queries import statements

_SQL = statements("barring")

# Rows that one transaction locks: marks that meet it wait for it.
BARRED_AT_ONCE = 1_000

Contact = tuple[str, Address]


class Candidate(Struct, frozen=True):
    """A queued delivery that may be meant."""

    id: int
    tenant_id: str
    channel: str
    lane: Lane
    recipient: str
    topic: str | None


async def known(database: Database, contacts: Iterable[Contact]) -> dict[Contact, Known]:
    """What is known of these addresses, each of one tenant; those of which nothing is are left out."""
    asked = list(dict.fromkeys(contacts))
    rows = await database.fetch(
        _SQL["known"],
        [tenant for tenant, _ in asked],
        [one.kind for _, one in asked],
        [one.text for _, one in asked],
    )
    suppressions: dict[Contact, list[Suppression]] = {}
    topics: dict[Contact, set[str]] = {}
    for row in rows:
        contact = row["tenant_id"], Address(row["kind"], row["address"])
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
    contacts = [(item.tenant_id, address(item.channel, item.recipient)) for item in items]
    found = await known(database, contacts)
    if not found:
        return {}
    why = ((item.id, barred(item, found[c])) for item, c in zip(items, contacts, strict=True) if c in found)
    return {delivery_id: reason for delivery_id, reason in why if reason is not None}


async def bar(database: Database, why: Mapping[int, str]) -> dict[int, str]:
    """Let none of these go out; answers what each of them became: skipped, or held where it may have arrived before."""
    became: dict[int, str] = {}
    ids = sorted(why)
    for start in range(0, len(ids), BARRED_AT_ONCE):
        some = ids[start : start + BARRED_AT_ONCE]
        became.update(await database.fetch(_SQL["bar"], some, [why[one] for one in some]))
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
        await bar(database, await reasons(database, candidates))
    await database.fetch(_SQL["worked"], [row["id"] for row in work])
    return len(work)
