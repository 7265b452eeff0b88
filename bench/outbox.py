"""The outbox as a benchmark fills and watches it: set-based in, cheap questions out."""

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.measure import BenchError
from bench.server import Connection, Server, connected
from dispatcher.db.schema import migrator

# An SMS of some 90 characters with three variables in four places.
TEMPLATE = json.dumps(
    {"body": "Hi {{ name }}, your order {{ order }} ships on {{ day }}. Track it: https://sms.example/{{ order }}"}
)
DAY = "Monday"


@asynccontextmanager
async def outbox(server: Server) -> AsyncIterator[tuple[str, Connection]]:
    """A database with the schema, and a connection to it."""
    async with server.database() as url:
        await migrator.migrate(url)
        async with connected(url) as connection:
            yield url, connection


async def fill(
    connection: Connection,
    channel: str,
    deliveries: int,
    due_seconds: int = 0,
    lane: int = 1,
    *,
    traceparent: str | None = None,
) -> None:
    """Insert so many deliveries of one channel in one statement, due after so many seconds."""
    await connection.execute(
        """
        INSERT INTO dispatcher.deliveries
            (idempotency_key, channel, lane, recipient, template, variables, scheduled_for, traceparent)
        SELECT format('%s-%s-%s-%s', $1::text, $5::int, $3::int, md5(i::text)), $1, $5, '+49151' || 10000000 + i,
               $2::jsonb, jsonb_build_object('name', 'Ann', 'order', 'A-' || i, 'day', $6::text),
               now() + make_interval(secs => $3), $7
          FROM generate_series(1, $4::int) AS i
        """,
        channel,
        TEMPLATE,
        due_seconds,
        deliveries,
        lane,
        DAY,
        traceparent,
    )


async def settle(connection: Connection) -> None:
    """Vacuum and checkpoint now, and not during a measurement."""
    await connection.execute("VACUUM (ANALYZE) dispatcher.deliveries, dispatcher.delivery_state")
    await connection.execute("CHECKPOINT")


async def copy_in(connection: Connection, channel: str, first: int, deliveries: int) -> None:
    """Add a batch by COPY, as a bulk producer does."""
    template = TEMPLATE.replace("\\", "\\\\")
    lines = (
        f'{channel}-{number}\t{channel}\t+49151{number}\t{template}\t{{"name":"Ann","order":"A-{number}","day":"{DAY}"}}\n'
        for number in range(first, first + deliveries)
    )
    await connection.copy_to_table(
        "deliveries",
        schema_name="dispatcher",
        columns=("idempotency_key", "channel", "recipient", "template", "variables"),
        source=io.BytesIO("".join(lines).encode()),
    )


async def is_drained(connection: Connection, channel: str) -> bool:
    """Nothing waits and nothing is under way. Reads two small indexes, and not the table."""
    return bool(
        await connection.fetchval(
            """
            SELECT NOT EXISTS (SELECT FROM dispatcher.delivery_state WHERE ready AND channel = $1)
               AND NOT EXISTS (SELECT FROM dispatcher.claims c JOIN dispatcher.deliveries d ON d.id = c.ids[1]
                                WHERE d.channel = $1)
            """,
            channel,
        )
    )


async def ready(connection: Connection, counted_max: int) -> int:
    """How many wait to be claimed, counted up to a bound."""
    return int(
        await connection.fetchval(
            "SELECT count(*) FROM (SELECT FROM dispatcher.delivery_state WHERE ready LIMIT $1) AS few", counted_max
        )
    )


async def require_sent(connection: Connection, channel: str, deliveries: int) -> None:
    """A rate counts only when every delivery has arrived, once."""
    [(sent, attempts)] = await connection.fetch(
        "SELECT count(*) AS sent, coalesce(sum(attempt), 0) AS attempts FROM dispatcher.delivery_state "
        "WHERE status = 'sent' AND channel = $1",
        channel,
    )
    if (sent, attempts) != (deliveries, deliveries):
        raise BenchError(f"{sent} of {deliveries} deliveries of {channel} were sent, in {attempts} attempts")
