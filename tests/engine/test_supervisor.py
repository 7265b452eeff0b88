"""The supervisor: starts again what crashed, until it has crashed too often."""

import asyncio

import pytest

from dispatcher.base.clock import Clock
from dispatcher.base.errors import RestartBudgetSpent
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Supervisor as Budget
from dispatcher.engine.supervisor import Supervisor
from tests.support.metering import sample


class Part:
    """A part that crashes so often, a number of seconds after the last time, and then ends."""

    def __init__(self, crashes: int, apart_seconds: float = 0.0) -> None:
        self.left = crashes
        self.starts = 0
        self.now = 0.0
        self._apart_seconds = apart_seconds

    async def run(self) -> None:
        self.starts += 1
        self.now += self._apart_seconds
        if self.left:
            self.left -= 1
            raise ExceptionGroup("a group", [ZeroDivisionError("a bug")])


def _keeping(part: Part, crashes_max: int) -> tuple[Supervisor, Metrics]:
    metrics = Metrics()
    return Supervisor(Budget(restarts_max=crashes_max), Clock(monotonic=lambda: part.now), metrics), metrics


async def test_a_part_that_returns_is_not_started_again() -> None:
    part = Part(0)
    await _keeping(part, 5)[0].supervise("part", part.run)
    assert part.starts == 1


async def test_a_crash_is_counted_and_followed_by_another_start() -> None:
    part = Part(1)
    supervisor, metrics = _keeping(part, 5)
    await supervisor.supervise("part", part.run)
    assert part.starts == 2
    assert sample(metrics.restarts.labels("part")) == 1


async def test_one_crash_too_many_ends_it_and_names_the_part() -> None:
    part = Part(10)
    with pytest.raises(RestartBudgetSpent, match=r"part crashed 2 times within 60 s") as spent:
        await _keeping(part, 1)[0].supervise("part", part.run)
    assert isinstance(spent.value.__cause__, ExceptionGroup)


async def test_a_budget_of_zero_ends_the_process_at_once() -> None:
    part = Part(10)
    with pytest.raises(RestartBudgetSpent):
        await _keeping(part, 0)[0].supervise("part", part.run)
    assert part.starts == 1


async def test_crashes_before_the_window_are_forgotten() -> None:
    part = Part(4, apart_seconds=61.0)
    await _keeping(part, 1)[0].supervise("part", part.run)
    assert part.starts == 5


async def test_a_stopped_actor_is_not_restarted() -> None:
    part = Part(0)

    async def waits() -> None:
        part.starts += 1
        await asyncio.Event().wait()

    task = asyncio.create_task(_keeping(part, 5)[0].supervise("part", waits))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert part.starts == 1
