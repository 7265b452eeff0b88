"""One run of the dispatcher against two ledgers that misbehave, and the audit of all that it did."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from bench import outbox
from bench.process import dispatching
from bench.retrying.audit import Delivery, Findings, Try, audit
from bench.retrying.schedule import DUE_AT_ONCE, DUE_PER_SECOND, Schedule, due_seconds, faults
from bench.server import Connection, Server
from dispatcher.selftest.ledger_file import read_requests
from dispatcher.selftest.programs import Provider

# The one knows keys, so that unknown attempts are repeated; with the other they are held.
CHANNELS = ("keyed", "keyless")
# The dispatcher has started, and the first deliveries are due after they have all been written.
LEAD_SECONDS = 2.0
# Past the longest way through the schedule: what has not ended by then is not late, but lost.
LATE_SECONDS_MAX = 120.0
STEP_SECONDS = 0.2
# A lost answer makes unknown what is under way on its connection: with many connections that is little else.
CONNECTIONS = 64
SCHEDULE = Schedule()
SETTINGS = {
    "RETRY__BASE_SECONDS": str(SCHEDULE.base_seconds),
    "RETRY__CAP_SECONDS": str(SCHEDULE.cap_seconds),
    "RETRY__JITTER": str(SCHEDULE.jitter),
}
_FILL = """
INSERT INTO dispatcher.deliveries
    (idempotency_key, channel, recipient, template, variables, max_attempts, scheduled_for)
SELECT 'retry-' || i, ($1::text[])[1 + i % 2], '+49151' || 10000000 + i, $2::jsonb,
       jsonb_build_object('name', 'Ann', 'order', 'A-' || i, 'day', 'Monday'), $3,
       now() + make_interval(secs => $4 + i / $5::int * $6::float8)
  FROM generate_series(0, $7::int - 1) AS i
"""
_ENDS = """
SELECT d.idempotency_key AS key, extract(epoch FROM d.scheduled_for)::float8 AS due,
       CASE WHEN s.held THEN 'held' ELSE s.status END AS state, s.attempt, coalesce(s.error, '') AS reason, s.id
  FROM dispatcher.deliveries d LEFT JOIN dispatcher.delivery_state s USING (id) WHERE d.channel = $1
"""
_TRIES = """
SELECT delivery_id, attempt, extract(epoch FROM ended_at)::float8 AS ended_at,
       extract(epoch FROM next_at)::float8 AS next_at, outcome = 'unknown' AS unknown, coalesce(reason, '') AS reason
  FROM dispatcher.delivery_attempts
"""


async def trial(server: Server, deliveries: int, seed: int, **changed: str) -> Findings:
    """Send so many deliveries over a time; settings of the program can be changed, for another schedule than ours."""
    async with (
        outbox.outbox(server) as (url, connection),
        _providers(seed) as (providers, settings),
        dispatching(url, **settings | changed) as process,
    ):
        await process.started(connection)
        every = DUE_AT_ONCE / DUE_PER_SECOND
        terms = (outbox.TEMPLATE, SCHEDULE.attempts_max, LEAD_SECONDS, DUE_AT_ONCE, every)
        await connection.execute(_FILL, list(CHANNELS), *terms, deliveries)
        seconds = due_seconds(deliveries) + SCHEDULE.longest_seconds + LATE_SECONDS_MAX
        await process.until(partial(_over, connection), "all have ended", seconds, STEP_SECONDS)
        findings = Findings()
        for channel, provider in zip(CHANNELS, providers, strict=True):
            requests = read_requests(provider.path.with_suffix(".requests"))
            accepted = {key: entry.accepted for key, entry in provider.entries().items()}
            findings.add(audit(await _ends(connection, channel), requests, accepted, SCHEDULE))
        return findings


@asynccontextmanager
async def _providers(seed: int) -> AsyncIterator[tuple[list[Provider], dict[str, str]]]:
    """A ledger for each channel, and the settings that lead there."""
    drawn = faults(seed)
    shares = [f"--{name}={getattr(drawn, name)}" for name in ("drop", "refuse", "throttle", "retry")]
    settings = dict(SETTINGS)
    providers = []
    with tempfile.TemporaryDirectory(prefix="dispatcher-bench-") as folder:
        async with AsyncExitStack() as stack:
            for channel in CHANNELS:
                path = Path(folder) / channel
                keyed = ["--dedupe"] if channel == "keyed" else []
                arguments = ["--seed", str(seed), *shares, *keyed, "--requests", str(path.with_suffix(".requests"))]
                provider = await stack.enter_async_context(Provider(path, arguments))
                providers.append(provider)
                place = f"CHANNELS__{channel.upper()}__"
                settings |= {
                    f"{place}PROVIDER": "ledger",
                    f"{place}OPTIONS__PORT": str(provider.port),
                    f"{place}OPTIONS__KEYED": str(channel == "keyed").lower(),
                    f"{place}OPTIONS__CONNECTIONS": str(CONNECTIONS),
                }
            yield providers, settings


async def _over(connection: Connection) -> bool:
    return not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM dispatcher.delivery_state WHERE status = 'queued' AND NOT held)"
    )


async def _ends(connection: Connection, channel: str) -> list[Delivery]:
    tries: dict[int, dict[int, Try]] = {}
    for row in await connection.fetch(_TRIES):
        one = Try(row["ended_at"], row["next_at"], row["unknown"], row["reason"])
        tries.setdefault(row["delivery_id"], {})[row["attempt"]] = one
    return [
        Delivery(
            key=row["key"],
            keyed=channel == "keyed",
            due=row["due"],
            state=row["state"] or "without a state",
            attempt=row["attempt"] or 0,
            reason=row["reason"],
            tries=tries.get(row["id"], {}),
        )
        for row in await connection.fetch(_ENDS, channel)
    ]
