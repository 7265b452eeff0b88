"""Receipts: kept with the delivery that each is about, which it settles where that is held, and looked for again."""

from collections.abc import Sequence
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
    hashed,
    match,
    wait_seconds,
)
from dispatcher.features.receipts.providers.request import Heard

_SQL = statements(__name__)

# recorded, or known already; settled: its delivery was held; waiting: its delivery is not known (yet); dropped: too
# many wait; gone: its delivery was deleted.
Became = Literal["recorded", "known", "settled", "waiting", "dropped", "gone"]

# The flush writes a name within seconds, unless Postgres is away; what waits longer is of another database.
KEPT_SECONDS = 86_400.0
WAITING_MAX = 100_000
# Deliveries to one address that are looked through.
CANDIDATES_MAX = 500

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Receipt).decode


async def hear(database: Database, provider: str, heard: Heard, identity: Identity) -> list[Became]:
    """Keep what was said, all of it or nothing. Says what became of each receipt; `known` where it was heard before."""
    async with database.transaction() as connection:
        if not await connection.fetch(_SQL["heard"], provider, heard.event, heard.kept_seconds):
            return ["known"]
        found = [(receipt, await _find(connection, receipt, identity)) for receipt in heard.receipts]
        # By number, so that two that say something of the same ones do not wait for each other in a ring.
        found.sort(key=lambda pair: pair[1].id if pair[1] else 0)
        return [await _keep(connection, provider, receipt, meant) for receipt, meant in found]


async def _find(connection: Any, receipt: Receipt, identity: Identity) -> Candidate | None:  # noqa: ANN401 - asyncpg's
    """The delivery that a receipt is about."""
    candidates: list[Candidate] = []
    if receipt.delivery_id is not None or receipt.key is not None:
        key = receipt.key or (None, None, None)
        candidates = _candidates(await connection.fetch(_SQL["by_name"], receipt.delivery_id, *key))
    meant = match(receipt, candidates, identity)
    if meant is None and receipt.names and receipt.recipient:
        written = forms(address("", receipt.recipient))
        await connection.fetch(_SQL["in_order"])
        candidates = _candidates(await connection.fetch(_SQL["by_address"], written, CANDIDATES_MAX))
        meant = match(msgspec.structs.replace(receipt, delivery_id=None, key=None), candidates, identity)
    return meant


def _candidates(rows: Sequence[Any]) -> list[Candidate]:
    return [Candidate(*row) for row in rows]


async def _keep(connection: Any, provider: str, receipt: Receipt, meant: Candidate | None) -> Became:  # noqa: ANN401 - asyncpg's
    if meant is not None:
        return await _record(connection, provider, receipt, meant)
    waits = await connection.fetch(
        _SQL["wait"], provider, _encode(receipt).decode(), KEPT_SECONDS, wait_seconds(0), WAITING_MAX
    )
    return "waiting" if waits else "dropped"


async def _record(connection: Any, provider: str, receipt: Receipt, meant: Candidate) -> Became:  # noqa: ANN401 - asyncpg's
    contact = address(meant.channel, receipt.recipient) if meant.is_erased else meant.contact
    if receipt.suppresses and contact.text:
        # A mailbox that is gone, or a person who complains, is so for every channel; a number without SMS may be
        # called.
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
    became: Became = await connection.fetchval(
        _SQL["record"], meant.id, receipt.kind, RANKS[receipt.kind], provider, name, receipt.at, reason
    )
    return became


async def look_again(database: Database, page: int, identity: Identity) -> list[tuple[str, Became]]:
    """Look for the deliveries of receipts that wait; says what became of those that were found, by provider."""
    became: list[tuple[str, Became]] = []
    for row in await database.fetch(_SQL["due"], page):
        async with database.transaction() as connection:
            receipt = _decode(row["receipt"])
            meant = await _find(connection, receipt, identity)
            if meant is None:
                await connection.fetch(_SQL["put_off"], row["id"], wait_seconds(row["looks"] + 1))
            elif await connection.fetch(_SQL["take"], row["id"]):
                became.append((row["provider"], await _record(connection, row["provider"], receipt, meant)))
    return became


async def settle_held(database: Database, page: int) -> int:
    """Settle held deliveries whose receipts came before they were held; says how many."""
    return int(await database.value(_SQL["settle"], page))


async def forget(database: Database, page: int) -> int:
    """Forget what was heard long enough ago; says how many it were."""
    return int(await database.value(_SQL["forget"], page))


async def waiting(database: Database) -> int:
    """How many receipts wait for their delivery."""
    return int(await database.value(_SQL["waiting"], WAITING_MAX))
