"""Caps at the fault points: wherever a process dies, nobody gets one message too many, and no place is lost."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count

import pytest

from dispatcher.base.fault_points import POINTS
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.health import checks
from dispatcher.features.caps import store
from dispatcher.features.deliveries.store import New, insert
from tests.support.program import Program
from tests.support.waits import until

QUICK = {
    "DISPATCHER_INSTANCE__HEARTBEAT_SECONDS": "0.1",
    "DISPATCHER_INSTANCE__LEASE_SECONDS": "0.6",
    "DISPATCHER_INSTANCE__LICENCE_SECONDS": "0.4",
    "DISPATCHER_CHANNELS__SMS__PROVIDER": "capture",
    # Several marks, of which some meet people who were marked before.
    "DISPATCHER_CHANNELS__SMS__MARKED_MAX": "8",
    "DISPATCHER_CLAIM__LANE_CAPACITY": "20",
}
SENDING = POINTS[: POINTS.index("flush.written") + 1]
PEOPLE = [f"+49170{number:03}" for number in range(12)]
MESSAGES = 3
SENT = ("sent", "held")

_numbers = count(1)


@pytest.fixture
async def second(url: str) -> AsyncIterator[Program]:
    """The replica that goes on."""
    program = Program(url, **QUICK)
    try:
        yield program
    finally:
        program.end()


async def _write(database: Database) -> None:
    """More than may be sent, to each."""
    body = '{"body": "x"}'
    people = PEOPLE * (MESSAGES + 2)
    keys = [f"cap-{next(_numbers)}" for _ in people]
    pairs = zip(keys, people, strict=True)
    await insert(database, [New(idempotency_key=k, recipient=to, channel="sms", template=body) for k, to in pairs])


async def _ended(database: Database) -> dict[str, Counter[str]]:
    """Wait until all has ended; answers where each person's messages stand."""
    waiting = "SELECT count(*) FROM dispatcher.delivery_state WHERE status = 'queued' AND NOT held"

    async def none() -> bool:
        return int(await database.value(waiting)) == 0

    await until(none, "all have ended")
    found: dict[str, Counter[str]] = {one: Counter() for one in PEOPLE}
    lives = "SELECT recipient, life FROM dispatcher.delivery_life JOIN dispatcher.deliveries USING (id)"
    for row in await database.fetch(lives):
        found[row["recipient"]][row["life"]] += 1
    return found


async def _require_capped(database: Database) -> None:
    for lives in (await _ended(database)).values():
        assert sum(lives[life] for life in SENT) == MESSAGES, lives
        assert lives["skipped"] == lives.total() - MESSAGES
    captured = await database.fetch("SELECT recipient FROM dispatcher.captured_messages")
    assert max(Counter(row["recipient"] for row in captured).values()) <= MESSAGES
    reasons = await database.fetch("SELECT DISTINCT error FROM dispatcher.delivery_state WHERE status = 'skipped'")
    assert [row["error"] for row in reasons] == [f"capped ({MESSAGES} in 7 days)"]
    assert [found for name in checks.invariants() if (found := await checks.check(database, name))] == []


@pytest.mark.parametrize("point", SENDING)
async def test_death_while_sending_under_a_cap(
    database: Database, program: Program, second: Program, point: str
) -> None:
    await store.put(database, Workspace(), store.Definition("weekly", MESSAGES, 7 * 86_400.0, ["sms"], []), "ann")
    program.environment = dict(QUICK)
    await program.start(FAULT=f"{point}:2:kill9")
    await _write(database)
    assert await program.ended(15) == -signal.SIGKILL, program.lines()[-5:]
    await second.start()
    await _require_capped(database)


async def test_two_replicas_under_a_cap(database: Database, program: Program, second: Program) -> None:
    """A new cap is heeded by those that run already."""
    program.environment = dict(QUICK)
    await asyncio.gather(program.start(), second.start())
    await store.put(database, Workspace(), store.Definition("weekly", MESSAGES, 7 * 86_400.0, ["sms"], []), "ann")
    heeded = "SELECT now() - max(updated_at) > interval '1 s' FROM dispatcher.caps"
    await until(lambda: database.value(heeded), "the cap has stood for as long as a replica may take to heed it")
    await asyncio.gather(*(_write(database) for _ in range(4)))
    await _require_capped(database)
