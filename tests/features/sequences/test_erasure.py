"""Erasure and enrolments: a walk that is under way writes nothing that the erasure does not find."""

import asyncio

import asyncpg
import pytest

from tests.features.sequences.steps import Sequences, sms
from tests.support.waits import until_blocked

ERASING = "SELECT pg_advisory_xact_lock(hashtextextended('dispatcher.contacts default default', 0))"


async def test_a_walk_waits_for_an_erasure_and_finds_the_contact_gone(drip: Sequences, url: str) -> None:
    await drip.publish(sms(1, 0))
    (run,) = await drip.enrolled()
    eraser = await asyncpg.connect(url)
    try:
        transaction = eraser.transaction()
        await transaction.start()
        await eraser.execute(ERASING)
        walking = asyncio.ensure_future(drip.stage.walk())
        await until_blocked(eraser)
        # The trigger would wait for the walk, which waits for us: an erasure takes the lock when that is done.
        await eraser.execute("SET LOCAL session_replication_role = replica; DELETE FROM dispatcher.contacts")
        await transaction.commit()
        await walking
    finally:
        await eraser.close()
    assert (await drip.enrollment(run))["reason"] == "contact is gone"
    assert await drip.stage.deliveries(run) == []


async def test_an_erasure_waits_for_a_walk_and_finds_what_it_has_written(
    drip: Sequences, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk shares its lock until it is committed."""
    await drip.publish(sms(1, 0))
    await drip.enrolled()
    held = """SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted"""
    seen: list[int] = []
    walker = drip.stage.walker._first
    walk_all = walker._walk_all

    async def looked_at(*given: object, **named: bool) -> object:
        seen.append(await drip.database.value(held))
        return await walk_all(*given, **named)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(walker, "_walk_all", looked_at)
    await drip.stage.walk()
    assert max(seen) == 1
    assert await drip.database.value(held) == 0
