"""Events that become deliveries by rules, beside as many deliveries written by one INSERT."""

import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from bench import outbox
from bench.measure import BenchError, Measure, beside, median, percentile
from bench.server import Connection, Server

DELIVERIES = 40_000
ROUNDS = 3
# Of one event: two rules of two recipients each.
DELIVERIES_OF_EVENT = 4
WARM_UP = 20
ALONE_MAX = 1_000
# Of one call.
EVENTS_MAX = 1_000
RULES = 10_000
TIMES_MAX = 3.0
SHARE_MIN = 0.3
MORE_RULES_MAX = 1.2

TRIGGER = "quote_sent"
TEMPLATES = {
    "email": {"subject": "Your quote {{ quote.number }}", "text": "Hello {{ lead.name }}, see {{ quote.url }}"},
    "whatsapp": {"body": "Hello {{ lead.name }}, see {{ quote.url }}"},
}
EVENT: dict[str, Any] = {
    "variables": {"quote": {"number": "Q-17", "total": "120 EUR", "url": "https://example.org/17"}},
    "lead": {"name": "Ann", "email": "ann@example.org", "phone": "+491701234567"},
    "partner": {"name": "Bo", "email": "bo@example.org", "phone": "+491701234568"},
}
NOTIFY = "SELECT * FROM dispatcher.notify($1, $2, $3, $4, message_id => $5)"
NOTIFY_MANY = "SELECT count(*) FROM dispatcher.notify_events('default', 'default', $1)"
INSERT = """
INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template_name, variables)
SELECT $1 || '-' || n || '-' || one.channel || one.recipient, one.channel, one.recipient, 'quote/' || one.channel, $2
  FROM generate_series(1, $3) AS n, (VALUES ('email', 'ann@example.org'), ('email', 'bo@example.org'),
       ('whatsapp', '+491701234567'), ('whatsapp', '+491701234568')) AS one (channel, recipient)
"""
ALONE = (
    "p50 of {count} calls of notify (four deliveries by two rules), each in a transaction that was open, beside that "
    "of one INSERT of four deliveries, in turn. Less is better; limit 3."
)
MANY = (
    "Median of {rounds} rounds: {count} events of four deliveries, 1,000 a call, through one connection, beside one "
    "INSERT of as many deliveries. More is better; limit 0.3."
)
MORE = "The {what} with 10,000 rules in the workspace, beside itself with two. Less is better; limit 1.2."


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure one event, many events, and both with many rules."""
    events = max(deliveries // DELIVERIES_OF_EVENT, 1)
    found: list[Measure] = []
    async with outbox.outbox(server) as (_, connection):
        await _furnish(connection)
        alone, insert, many, inserted = await _measure(connection, events, rounds)
        await _add_rules(connection)
        alone_more, _, many_more, _ = await _measure(connection, events, rounds)
    method = ALONE.format(count=min(events, ALONE_MAX))
    found.append(beside("notify", "ms", alone * 1e3, "one INSERT", insert * 1e3, method))
    method = MANY.format(count=events, rounds=rounds)
    found.append(beside("notify.batch", "deliveries/s", many, "one INSERT", inserted, method))
    found.append(beside("notify.rules", "ms", alone_more * 1e3, "two rules", alone * 1e3, MORE.format(what="same")))
    # As times, so that less is better here too.
    times = 1e6 / many_more, 1e6 / many
    found.append(
        beside("notify.batch_rules", "µs/delivery", times[0], "two rules", times[1], MORE.format(what="batch"))
    )
    return found


async def _furnish(connection: Connection) -> None:
    drafts = [
        {
            "tenant_id": "default",
            "workspace_id": "default",
            "name": f"quote/{channel}",
            "channel": channel,
            "default_locale": "en",
            "rights": [],
            "variables": ["lead.name", "quote.url"],
            "sources": {"en": {"parts": parts, "partials": {}}},
        }
        for channel, parts in TEMPLATES.items()
    ]
    await connection.execute("SELECT dispatcher.put_templates($1, true, 'bench')", json.dumps(drafts))
    await _put(connection, [(TRIGGER, channel, "lead") for channel in TEMPLATES])


async def _put(connection: Connection, names: list[tuple[str, str, str]]) -> None:
    recipients = {"includeLeadContact": True, "includePartner": True}
    rules = [
        {
            "trigger": trigger,
            "channel": channel,
            "audience": audience,
            "steps": [{"template": f"quote/{channel}", "recipients": recipients}],
        }
        for trigger, channel, audience in names
    ]
    await connection.execute("SELECT dispatcher.put_rules('default', 'default', $1, 'bench')", json.dumps(rules))


async def _add_rules(connection: Connection) -> None:
    """Rules of other triggers, which are looked past."""
    trigger = """SELECT dispatcher.put_event_trigger('default', 'default', 'other_' || n, $1, 'bench')
                   FROM generate_series(1, $2::int) AS n"""
    said = json.dumps({"variables": ["lead", "quote"]})
    await connection.execute(trigger, said, RULES // 10)
    for start in range(0, RULES // 10, 100):
        names = [
            (f"other_{number + 1}", channel, f"audience_{place}")
            for number in range(start, start + 100)
            for channel in TEMPLATES
            for place in range(5)
        ]
        await _put(connection, names)
    await connection.execute("ANALYZE dispatcher.rules, dispatcher.rule_steps, dispatcher.event_triggers")


async def _measure(connection: Connection, events: int, rounds: int) -> tuple[float, float, float, float]:
    """Seconds of one event and of its INSERT, deliveries a second of many and of theirs."""
    alone, insert = await _alone(connection, min(events, ALONE_MAX))
    many: list[float] = []
    inserted: list[float] = []
    for _ in range(rounds):
        many.append(events * DELIVERIES_OF_EVENT / await _many(connection, events))
        key = str(time.perf_counter_ns())
        seconds = await _timed(connection, partial(_insert, connection, key, events))
        inserted.append(events * DELIVERIES_OF_EVENT / seconds)
    return alone, insert, median(many), median(inserted)


async def _alone(connection: Connection, count: int) -> tuple[float, float]:
    told: list[float] = []
    written: list[float] = []
    people = [json.dumps(EVENT[name]) for name in ("variables", "lead", "partner")]
    for number in range(count + WARM_UP):
        key = f"{time.perf_counter_ns()}-{number}"
        seconds = (
            await _timed(connection, partial(connection.fetch, NOTIFY, TRIGGER, *people, key)),
            await _timed(connection, partial(_insert, connection, key, 1)),
        )
        if number >= WARM_UP:
            told.append(seconds[0])
            written.append(seconds[1])
    return percentile(told, 0.5), percentile(written, 0.5)


async def _many(connection: Connection, events: int) -> float:
    begun = time.perf_counter()
    for start in range(0, events, EVENTS_MAX):
        batch = [
            {"trigger": TRIGGER, "message_id": f"{begun}-{number}", **EVENT}
            for number in range(start, min(start + EVENTS_MAX, events))
        ]
        if await connection.fetchval(NOTIFY_MANY, json.dumps(batch)) != len(batch) * len(TEMPLATES):
            raise BenchError("an event has other decisions than it should")
    return time.perf_counter() - begun


def _insert(connection: Connection, key: str, events: int) -> Awaitable[str]:
    return connection.execute(INSERT, key, json.dumps(EVENT["variables"] | {"lead": EVENT["lead"]}), events)


async def _timed(connection: Connection, call: Callable[[], Awaitable[object]]) -> float:
    """The seconds of a call inside a transaction that is open before and committed after."""
    async with connection.transaction():
        begun = time.perf_counter()
        await call()
        return time.perf_counter() - begun
