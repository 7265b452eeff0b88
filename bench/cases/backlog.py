"""The time of a claim with a million future and a million finished deliveries present, beside an empty table's."""

import time
from contextlib import AsyncExitStack

from bench import outbox
from bench.measure import BenchError, Measure, beside, median
from bench.server import Connection, Server
from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Lane, Resend
from dispatcher.engine.store import claims, instances
from dispatcher.engine.streams import Tokens

DELIVERIES = 1_000_000
# Claims on each side, in turn.
ROUNDS = 300

CLAIM = 100
# The first claims of a connection plan their statement; they are not counted.
WARM_UP = 10
FUTURE_SECONDS = 86_400
LEASE_SECONDS = 600.0

METHOD = (
    "p50 of {rounds} claims of {claim} due deliveries through dispatcher.engine.store.claims, in turn on a table with "
    "{deliveries} future and {deliveries} finished deliveries and on one with nothing but the due ones. Less is "
    "better; limit 2."
)


class Claimer:
    """Claims on one database."""

    def __init__(self, database: Database, epoch: int) -> None:
        self._database = database
        self._epoch = epoch
        self._tokens = Tokens(epoch)

    async def seconds(self) -> float:
        """Time of one full claim."""
        wanted = claims.Wanted("sms", Lane.NORMAL, CLAIM, self._tokens.issue(), Resend(), LEASE_SECONDS)
        begun = time.perf_counter()
        batch = await claims.claim(self._database, self._epoch, wanted)
        elapsed = time.perf_counter() - begun
        if len(batch) != CLAIM:
            raise BenchError(f"a claim of {CLAIM} took {len(batch)}")
        return elapsed


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Both tables at once, so that the machine's noise hits both."""
    async with AsyncExitStack() as stack:
        full = await _claimer(stack, server, deliveries, rounds)
        empty = await _claimer(stack, server, 0, rounds)
        for _ in range(WARM_UP):
            await full.seconds()
            await empty.seconds()
        pairs = [(await full.seconds(), await empty.seconds()) for _ in range(rounds)]
    value, reference = (median(side) * 1e3 for side in zip(*pairs, strict=True))
    method = METHOD.format(rounds=rounds, claim=CLAIM, deliveries=deliveries)
    return [beside("backlog", "ms/claim", value, "empty table", reference, method)]


async def _claimer(stack: AsyncExitStack, server: Server, deliveries: int, rounds: int) -> Claimer:
    url, connection = await stack.enter_async_context(outbox.outbox(server))
    if deliveries:
        await _load(connection, deliveries)
    await outbox.fill(connection, "sms", (rounds + WARM_UP) * CLAIM)
    await outbox.settle(connection)
    database = Database(Settings(), url)
    await database.open()
    stack.push_async_callback(database.close)
    await instances.join(database, instances.Beat(1, 0, LEASE_SECONDS, "bench", ""), "bench")
    return Claimer(database, 1)


async def _load(connection: Connection, deliveries: int) -> None:
    """Finished ones first, then future ones: the order in which a table grows old."""
    await outbox.fill(connection, "sms", deliveries, due_seconds=-FUTURE_SECONDS)
    await connection.execute(
        """
        UPDATE dispatcher.delivery_state
           SET ready = false, token = 1, marked = true, attempt = 1, status = 'sent',
               finished_at = now(), provider_message_id = 'blackhole-' || id
        """
    )
    await outbox.fill(connection, "sms", deliveries, due_seconds=FUTURE_SECONDS)
