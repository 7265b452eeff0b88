"""Receipts: stored with their deliveries, which they settle where those are held; unmatched receipts wait."""

from typing import Any, Literal

import msgspec

from dispatcher.base.values.addresses import address, forms
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.receipts.providers.receipt import (
    RANKS,
    Candidate,
    Identity,
    Receipt,
    Reply,
    hashed,
    match,
    wait_seconds,
)
from dispatcher.features.receipts.providers.request import Accepted
from dispatcher.features.suppressions import store as suppressions

_SQL = statements(__name__)

# settled: recorded, and its delivery was held; waiting: its delivery is not known (yet); dropped: too many wait; gone:
# its delivery was deleted; stopped, started: a reply took effect for a tenant.
Outcome = Literal["recorded", "known", "settled", "waiting", "dropped", "gone", "stopped", "started"]

# The flush writes a name within seconds, unless Postgres is away; a receipt that waits longer is of another database.
KEPT_SECONDS = 86_400.0
WAITING_MAX = 100_000
# Deliveries to one address that are searched.
CANDIDATES_MAX = 500
ACTOR = "dispatcher"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Receipt).decode


async def accept(database: Database, provider: str, accepted: Accepted, identity: Identity) -> list[Outcome]:
    """Store the receipts of a request in one transaction; return an outcome each, or `known` for a repetition."""
    async with database.transaction() as connection:
        if not await connection.fetch(_SQL["remember"], provider, accepted.event, accepted.kept_seconds):
            return ["known"]
        found = [(receipt, await _find(connection, receipt, identity)) for receipt in accepted.receipts]
        # In the order of ids: two requests about the same deliveries cannot deadlock.
        found.sort(key=lambda pair: pair[1].id if pair[1] else 0)
        outcome = [await _keep(connection, provider, receipt, meant) for receipt, meant in found]
        return outcome + (await _heed(connection, provider, accepted.reply) if accepted.reply else [])


async def _find(connection: Any, receipt: Receipt, identity: Identity) -> Candidate | None:  # noqa: ANN401 - asyncpg's
    """Return the delivery that a receipt is about."""
    if receipt.delivery_id is not None or receipt.key is not None:
        key = receipt.key or (None, None, None)
        rows = await connection.fetch(_SQL["by_name"], receipt.delivery_id, *key)
        meant = match(receipt, [Candidate(*row) for row in rows], identity)
        if meant is not None:
            return meant
    if not (receipt.names and receipt.recipient):
        return None
    await connection.fetch(_SQL["in_order"])
    rows = await connection.fetch(_SQL["by_address"], forms(address("", receipt.recipient)), CANDIDATES_MAX)
    unnamed = msgspec.structs.replace(receipt, delivery_id=None, key=None)
    return match(unnamed, [Candidate(*row) for row in rows], identity)


async def _keep(connection: Any, provider: str, receipt: Receipt, meant: Candidate | None) -> Outcome:  # noqa: ANN401 - asyncpg's
    if meant is not None:
        return await _record(connection, provider, receipt, meant)
    waits = await connection.fetch(
        _SQL["wait"], provider, _encode(receipt).decode(), KEPT_SECONDS, wait_seconds(0), WAITING_MAX
    )
    return "waiting" if waits else "dropped"


async def _record(connection: Any, provider: str, receipt: Receipt, meant: Candidate) -> Outcome:  # noqa: ANN401 - asyncpg's
    contact = address(meant.channel, receipt.recipient) if meant.is_erased else meant.contact
    if receipt.suppresses and contact.text:
        # A dead mailbox and a complaint hold for every channel; a number without SMS may be called.
        everywhere = contact.kind == "email" or receipt.suppresses == "complaint"
        await connection.fetch(
            _SQL["suppress_erased" if meant.is_erased else "suppress"],
            meant.tenant_id,
            contact.kind,
            contact.text,
            "" if everywhere else meant.channel,
            receipt.suppresses,
            f"delivery {meant.id}: {receipt.reason or receipt.kind.replace('_', ' ')}",
            meant.id,
            receipt.kind,
            receipt.at,
        )
    name, reason = receipt.names[0] if receipt.names else None, receipt.reason
    if meant.is_erased:
        name, reason = None if name is None else hashed(name), ""
    outcome: Outcome = await connection.fetchval(
        _SQL["record"], meant.id, receipt.kind, RANKS[receipt.kind], provider, name, receipt.at, reason
    )
    return outcome


async def _heed(connection: Any, provider: str, reply: Reply) -> list[Outcome]:  # noqa: ANN401 - asyncpg's
    """Suppress the address of who has written STOP, and release that of who has written START; an outcome a tenant."""
    # In one order: two replies about the same tenants cannot deadlock.
    tenants = [reply.tenant_id] if reply.tenant_id else sorted(await _writers(connection, reply))
    for tenant in tenants:
        if not reply.starts:
            entry = suppressions.Entry(reply.contact, "unsubscribe", f"{provider}: STOP", reply.channel)
            await suppressions.add(connection, tenant, ACTOR, [entry])
            continue
        # Who writes has a number that lives, whatever was said about it before.
        for source in ("unsubscribe", "bounce"):
            await suppressions.release(
                connection, tenant, [reply.contact], ACTOR, f"{provider}: START", source=source, channel=reply.channel
            )
    return ["started" if reply.starts else "stopped"] * len(tenants)


async def _writers(connection: Any, reply: Reply) -> set[str]:  # noqa: ANN401 - asyncpg's
    """Return the tenants that have written to an address by this channel."""
    await connection.fetch(_SQL["in_order"])
    rows = await connection.fetch(_SQL["by_address"], forms(reply.contact), CANDIDATES_MAX)
    found = [Candidate(*row) for row in rows]
    return {one.tenant_id for one in found if one.channel == reply.channel and one.contact == reply.contact}


async def match_waiting(database: Database, page: int, identity: Identity) -> list[tuple[str, Outcome]]:
    """Search for the deliveries of waiting receipts; return provider and outcome of each that was found."""
    outcome: list[tuple[str, Outcome]] = []
    for row in await database.fetch(_SQL["due"], page):
        async with database.transaction() as connection:
            receipt = _decode(row["receipt"])
            meant = await _find(connection, receipt, identity)
            if meant is None:
                await connection.fetch(_SQL["put_off"], row["id"], wait_seconds(row["looks"] + 1))
            elif await connection.fetch(_SQL["take"], row["id"]):
                outcome.append((row["provider"], await _record(connection, row["provider"], receipt, meant)))
    return outcome


async def settle_held(database: Database, page: int) -> int:
    """Settle held deliveries whose receipts came before they were held; return their number."""
    return int(await database.value(_SQL["settle"], page))


async def forget(database: Database, page: int) -> int:
    """Delete remembered events that have expired; return their number."""
    return int(await database.value(_SQL["forget"], page))


async def waiting(database: Database) -> int:
    """Return the number of receipts that wait for their delivery."""
    return int(await database.value(_SQL["waiting"], WAITING_MAX))
