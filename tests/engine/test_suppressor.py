"""The suppressor: what was said about an address counts for what is queued, heard or not, and if it was cut off."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dispatcher.base.values.addresses import Address
from dispatcher.engine.wakeup import Wakeup
from dispatcher.features.suppressions import store as suppressions
from dispatcher.features.suppressions import worker as suppressor
from dispatcher.features.suppressions.store import Entry
from dispatcher.features.suppressions.worker import Suppressor
from tests.engine.stage import Stage
from tests.support.waits import until

GONE = Entry(Address("phone", "+4917012345"), "complaint", "spam")


@asynccontextmanager
async def _running(*services: object) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(service.run()) for service in services]  # type: ignore[attr-defined]  # each has one
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_interrupted_erasure_is_completed_without_a_notification(stage: Stage) -> None:
    ids = await stage.write(3)
    await suppressions.add(stage.database, "default", "ann", [GONE])
    assert await stage.lives(ids) == ["pending"] * 3
    async with _running(Suppressor(stage.database, asyncio.Event())):
        await stage.until_all(ids, "skipped")


async def test_later_suppressions_are_found_without_a_notification(stage: Stage) -> None:
    """A notification may be lost: it looks again by itself."""
    async with _running(Suppressor(stage.database, asyncio.Event())):
        ids = await stage.write(3)
        await suppressions.add(stage.database, "default", "ann", [GONE])
        await stage.until_all(ids, "skipped")


async def test_a_suppression_is_heard_of(stage: Stage, url: str) -> None:
    wakeup = Wakeup(url, 10.0, asyncio.Event())
    async with _running(wakeup):
        await until(wakeup.listening.is_set, "it listens")
        wakeup.suppressed.clear()
        await suppressions.add(stage.database, "default", "ann", [GONE])
        await until(wakeup.suppressed.is_set, "it heard")
        wakeup.suppressed.clear()
        await suppressions.prefer(stage.database, "default", [GONE.address], "news", False, "ann", "asked")
        await until(wakeup.suppressed.is_set, "it heard")


async def test_a_notification_is_handled_before_the_next_poll(
    stage: Stage, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way, from a plain INSERT to a skipped delivery."""
    monkeypatch.setattr(suppressor, "POLL_SECONDS", 600.0)
    wakeup = Wakeup(url, 10.0, asyncio.Event())
    async with _running(wakeup, Suppressor(stage.database, wakeup.suppressed)):
        await until(wakeup.listening.is_set, "it listens")
        # Its first looks, at the start and when the listener came up, are over.
        await until(lambda: not wakeup.suppressed.is_set(), "it waits")
        ids = await stage.write(3)
        await stage.database.fetch(
            "INSERT INTO dispatcher.suppressions (kind, address) VALUES ('phone', '+4917012345')"
        )
        await stage.until_all(ids, "skipped")
