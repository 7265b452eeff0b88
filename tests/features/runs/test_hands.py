"""The two hands of a walker: full batches are walked side by side, and each hand answers for its own."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from dispatcher.config.settings import Walk
from dispatcher.features.runs.walk import walking
from dispatcher.features.runs.walk.batch import BatchWalker, Walked
from tests.features.runs.stage import Stage
from tests.plans.walks import plan, send
from tests.support.waits import until

MAIL = plan({"mail": send(1, "{{ to }}")})
BATCH = 5
RUNS = 8 * BATCH
HANDS = 2


@pytest.fixture
def crowd(stage: Stage) -> Stage:
    """A stage with small batches."""
    stage.settings = stage.walker.settings = Walk(batch_max=BATCH)
    return stage


async def _triggered(stage: Stage) -> list[int]:
    await stage.put(MAIL)
    return [await stage.trigger(to="+4917012345") for _ in range(RUNS)]


async def test_full_batches_are_walked_side_by_side_and_each_run_once(
    crowd: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _triggered(crowd)
    inside: list[int] = []
    most = 0
    record = walking.record_walk

    async def slow(database: Any, hand: walking.Hand, ids: Sequence[int]) -> list[int]:
        nonlocal most
        inside.append(hand.number)
        most = max(most, len(inside))
        await asyncio.sleep(0.02)
        inside.remove(hand.number)
        return await record(database, hand, ids)

    monkeypatch.setattr(walking, "record_walk", slow)
    walking_on = asyncio.create_task(crowd.walker.run())
    ordered = "SELECT count(*) = $1 AND count(DISTINCT run_id) = $1 FROM dispatcher.deliveries"
    await until(lambda: crowd.database.value(ordered, RUNS), "every run has ordered its delivery")
    crowd.walker.stop()
    await walking_on
    assert most == HANDS
    assert await crowd.count("walks") == 0


async def test_a_hand_that_crashes_blames_its_own_batch_alone(crowd: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await _triggered(crowd)
    batches: dict[int, list[int]] = {}

    async def crashing(self: BatchWalker, connection: Any, batch: Sequence[Any], *_rest: Any, **_named: Any) -> None:
        batches[self._number] = [taken.run.id for taken in batch]
        if self._number == 1:
            raise RuntimeError("of the second hand")
        # As after a full batch.
        crowd.walker._crowded.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(BatchWalker, "_walk_all", crashing)
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await crowd.walker.run()
    taken = "SELECT id, takes FROM dispatcher.runs WHERE id = ANY ($1) ORDER BY id"
    for hand, takes in ((0, 0), (1, 1)):
        rows = await crowd.database.fetch(taken, batches[hand])
        assert [row["takes"] for row in rows] == [takes] * BATCH, hand
    assert await crowd.count("walks") == 0


async def test_a_stop_begins_no_batch(crowd: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    async def walk_batch(self: BatchWalker, *_given: int) -> Walked:
        begun.append(self._number)
        crowd.walker.stop()
        return Walked(0, 0)

    monkeypatch.setattr(BatchWalker, "walk_batch", walk_batch)
    await crowd.walker.run()
    assert begun == [0]
