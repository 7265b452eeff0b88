"""Frequency caps: what they cost deliveries that they touch and others, and two replicas that send none too many."""

import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

from bench import outbox
from bench.cases.throughput import SETTINGS, Drain, drain_of
from bench.measure import BenchError, Measure, beside, median
from bench.process import dispatching
from bench.server import Connection, Server
from dispatcher.selftest.programs import Provider

DELIVERIES = 100_000
ROUNDS = 3

MESSAGES = 3
# Of the race: the messages to each, of which the last ones are too many.
TO_EACH = 5
# Each is given caps that the others do not have.
_HERE = (("default", "sms"),)
PLACES = {"none": (), "elsewhere": (("other", "sms"), ("default", "email")), "touched": _HERE, "known": _HERE}
# Each recipient has got a message before.
_COUNTERS = """
    INSERT INTO dispatcher.cap_counters (cap_id, person, period, messages, deliveries, marked_at)
    SELECT c.id, dispatcher.cap_person(a.contact_id, NULL, NULL), c.period, c.messages, '{0}', ARRAY[now()]
      FROM dispatcher.caps c, dispatcher.contact_addresses a
"""
_CONTACTS = """
    WITH made AS (
        INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, status, updated_by)
        SELECT 'default', 'default', i, 'active', 'bench' FROM generate_series(1, $1::int) AS i RETURNING id, key
    )
    INSERT INTO dispatcher.contact_addresses (contact_id, position, tenant_id, workspace_id, kind, address, written)
    SELECT id, 1, 'default', 'default', 'phone', '+49151' || 10000000 + key::int, '' FROM made
"""
LEDGER = {"CHANNELS__SMS__PROVIDER": "ledger", "CHANNELS__SMS__MARKED_MAX": "500"}

METHOD = (
    "CPU of the worker and of Postgres for each of {deliveries} deliveries as in `throughput`, {rounds} rounds in "
    "turn, medians. {what} Reference: the same without any cap. Less is better; limit {limit}."
)
WORDS = {
    "elsewhere": ("Caps of another workspace and of another channel of this one.", "1.1"),
    "touched": (f"A cap of {MESSAGES} in 7 days on the channel, one message to each recipient.", "1.33"),
    "known": ("The same, and each recipient is a contact and has got a message before.", "1.33"),
}
METHOD_RACE = (
    f"Two replicas, the ledger, {{deliveries}} deliveries, {TO_EACH} to each recipient, a cap of {MESSAGES} in 7 "
    f"days: the most that the ledger has accepted for one recipient. Exactly {MESSAGES} for each, or the case fails."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure all alternately, then let two replicas race."""
    drains: dict[str, list[Drain]] = {place: [] for place in PLACES}
    for _ in range(rounds):
        for place, found in drains.items():
            found.append(await _drain(server, deliveries, place))
    costs = {place: median(map(cost, found)) for place, found in drains.items()}
    measures = []
    for place, (what, limit) in WORDS.items():
        method = METHOD.format(deliveries=deliveries, rounds=rounds, what=what, limit=limit)
        measures.append(beside(f"caps.{place}", "us/delivery", costs[place], "no caps", costs["none"], method))
    most = await _race(server, deliveries)
    method = METHOD_RACE.format(deliveries=deliveries)
    return [*measures, beside("caps.replicas", "messages", most, "cap", MESSAGES, method)]


def cost(one: Drain) -> float:
    """Return what a delivery has cost, in microseconds."""
    return one.worker_microseconds + one.postgres_microseconds


async def add_cap(connection: Connection, workspace: str, channel: str) -> None:
    """Add a cap on a channel of a workspace."""
    await connection.execute(
        "SELECT dispatcher.put_cap('default', $1, $2, $3::int::smallint, '168 h', ARRAY[$2], '{}', 'bench')",
        workspace,
        channel,
        MESSAGES,
    )


async def _drain(server: Server, deliveries: int, place: str) -> Drain:
    async with outbox.outbox(server) as (url, connection):
        await outbox.fill(connection, "sms", deliveries)
        for workspace, channel in PLACES[place]:
            await add_cap(connection, workspace, channel)
        if place == "known":
            await connection.execute(_CONTACTS, deliveries)
            await connection.execute(_COUNTERS)
            await connection.execute(
                "VACUUM (ANALYZE) dispatcher.contacts, dispatcher.contact_addresses, dispatcher.cap_counters"
            )
        return await drain_of(server, url, connection, deliveries, SETTINGS)


async def _race(server: Server, deliveries: int) -> int:
    people = deliveries // TO_EACH
    async with AsyncExitStack() as stack:
        url, connection = await stack.enter_async_context(outbox.outbox(server))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dispatcher-bench-")))
        provider = await stack.enter_async_context(Provider(folder / "ledger", []))
        await add_cap(connection, "default", "sms")
        await connection.execute(
            """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
               SELECT format('%s:%s', 10000000 + i % $1, i), 'sms', '+49151' || 10000000 + i % $1, '{"body": "x"}'
                 FROM generate_series(0, $1::int * $2::int - 1) AS i""",
            people,
            TO_EACH,
        )
        await outbox.settle(connection)
        settings = LEDGER | {"CHANNELS__SMS__OPTIONS__PORT": str(provider.port)}
        await stack.enter_async_context(dispatching(url, **settings, INSTANCE__NAME="one"))
        other = await stack.enter_async_context(dispatching(url, **settings, INSTANCE__NAME="other"))
        await other.drained(connection, "sms")
        entries = provider.entries()
        rows = await connection.fetch("SELECT status, count(*) FROM dispatcher.delivery_state GROUP BY 1")
        statuses = {row["status"]: row["count"] for row in rows}
    return _most(Counter(key.partition(":")[0] for key in entries), people, statuses)


def _most(accepted: Counter[str], people: int, statuses: dict[str, int]) -> int:
    expected = {"sent": people * MESSAGES, "skipped": people * (TO_EACH - MESSAGES)}
    if set(accepted.values()) != {MESSAGES} or len(accepted) != people or statuses != expected:
        found = dict(Counter(accepted.values()))
        raise BenchError(f"expected {MESSAGES} for each of {people}; so many got: {found}; ended as {statuses}")
    return max(accepted.values())
