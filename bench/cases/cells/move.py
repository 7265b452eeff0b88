"""A tenant moves to another cell, beside pg_dump into psql of the same rows."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from bench import outbox
from bench.measure import BenchError, Measure, beside
from bench.server import Connection, Server
from dispatcher.features.cells.moving.cell_connections import Place, connected
from dispatcher.features.cells.moving.mover import Mover
from dispatcher.features.cells.moving.moves import Result

DELIVERIES = 1_100_000
ROUNDS = 1

# Of the deliveries: one in eleven waits, the others are sent.
WAITING_SHARE = 1 / 11
STILL_SECONDS = 10.0
TENANT = "default"
TABLES = ("deliveries", "delivery_state")
# The states that $1 deliveries have when they are sent, and the others while they wait.
STATES = """
    INSERT INTO dispatcher.delivery_state
           (id, channel, lane, run_at, status, ready, marked, attempt, token, finished_at, key_used_at, provider,
            provider_message_id)
    SELECT d.id, d.channel, d.lane, d.scheduled_for, CASE WHEN sent THEN 'sent' ELSE 'queued' END, NOT sent, sent,
           sent::int, CASE WHEN sent THEN d.id / 100 + 1 END, CASE WHEN sent THEN now() END,
           CASE WHEN sent THEN now() END, CASE WHEN sent THEN 'smtp' END, CASE WHEN sent THEN md5(d.id::text) END
      FROM (SELECT *, row_number() OVER (ORDER BY id) <= $1 AS sent FROM dispatcher.deliveries) AS d
"""

METHOD = (
    "A tenant of {deliveries} deliveries, one in eleven of which waits, between two databases of one server; no "
    "dispatcher runs. Reference: `pg_dump --data-only --disable-triggers` of deliveries and states into `psql`, into a "
    "database with the same schema. "
)
MOVED = "From the begin until the tenant works in the other cell. Less is better; limit 3."
CLEANED = "As well until nothing is left where it was. Less is better."
STILL = (
    "Time in which the tenant sends nothing; reference: 10 s and the waiting ones' share of the other time. Limit 1."
)


async def run(server: Server, deliveries: int, _rounds: int) -> list[Measure]:
    """Both once: a round takes minutes."""
    waiting = max(1, int(deliveries * WAITING_SHARE))
    async with AsyncExitStack() as stack:
        (first, one), (second, _), (third, copy) = [
            await stack.enter_async_context(outbox.outbox(server)) for _ in range(3)
        ]
        await _fill(one, deliveries, waiting)
        dumped = await _dumped(one, first, third)
        if await copy.fetchval("SELECT count(*) FROM dispatcher.delivery_state") != deliveries:
            raise BenchError("pg_dump and psql have not copied everything")
        await copy.execute("CHECKPOINT")
        result, moved, cleaned = await _moved(first, second)
        if result.rows < len(TABLES) * deliveries:
            raise BenchError(f"{result.rows} rows of {deliveries} deliveries have moved")
    method = METHOD.format(deliveries=deliveries)
    reference = "pg_dump | psql"
    allowed = STILL_SECONDS + dumped * waiting / deliveries
    return [
        beside("cells.move", "s", moved, reference, dumped, method + MOVED),
        beside("cells.move.cleaned", "s", cleaned, reference, dumped, method + CLEANED),
        beside("cells.move.still", "s", result.still_seconds or 0.0, "allowed", allowed, method + STILL),
    ]


async def _fill(connection: Connection, deliveries: int, waiting: int) -> None:
    """Write deliveries that are sent, and some that wait, without the updates that sending takes."""
    await connection.execute("SELECT dispatcher.join_cells(1::smallint)")
    await connection.execute("SET session_replication_role = replica")
    await outbox.fill(connection, "sms", deliveries)
    await connection.execute(STATES, deliveries - waiting)
    await outbox.settle(connection)


async def _dumped(connection: Connection, source: str, target: str) -> float:
    """Copy with the server's own programs; return the seconds."""
    place = Path(await connection.fetchval("SELECT setting FROM pg_config() WHERE name = 'BINDIR'"))
    chosen = " ".join(f"-t dispatcher.{table}" for table in TABLES)
    command = (
        f"set -o pipefail; {place}/pg_dump --data-only --disable-triggers {chosen} '{source}'"
        f" | {place}/psql -q -v ON_ERROR_STOP=1 '{target}' > /dev/null"
    )
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec("bash", "-c", command)
    if await process.wait():
        raise BenchError("pg_dump or psql has failed")
    return time.monotonic() - began


async def _moved(source: str, target: str) -> tuple[Result, float, float]:
    """Move the tenant; return the result, and the seconds until it worked there and until nothing was left."""
    places = [Place(number, url) for number, url in enumerate((source, target), 1)]
    async with AsyncExitStack() as stack:
        cells = [await stack.enter_async_context(connected(place)) for place in places]
        for cell in cells:
            await cell.control.execute("SELECT dispatcher.join_cells($1::smallint)", cell.number)
        mover = Mover(cells[0], cells[1], TENANT, _tell)
        began = time.monotonic()
        await mover.open("bench", "")
        result = await mover.run()
        cleaned = time.monotonic() - began
        opened = "SELECT extract(epoch FROM opened_at - started_at)::float8 FROM dispatcher.tenant_moves"
        return result, float(await cells[0].control.fetchval(opened)), cleaned


def _tell(words: str) -> None:
    """Say nothing: the lines of the case say it."""
