"""Runs whose texts would hold the event loop are walked in the worker process, tenant by tenant."""

from typing import Any

import pytest

from dispatcher.base.errors import CallLost
from dispatcher.features.runs.walk.batch import CRASHES_MAX
from dispatcher.plans import worker_functions
from tests.features.runs.stage import Stage
from tests.plans.walks import plan, send

LONG = "{% for i in (1..3000) %}{% assign x = i | plus: 1 %}{% endfor %}"
SLOW = plan({"mail": send(0, "{{ to }}" + LONG), "text": send(1, "{{ to }}")})


async def test_a_slow_run_goes_to_its_end(stage: Stage) -> None:
    await stage.put(SLOW)
    runs = [await stage.trigger(to="+4917012345") for _ in range(3)]
    await stage.play()
    assert await stage.statuses() == {"completed": len(runs)}
    assert set((await stage.ordered()).values()) == {1}
    assert [(one["slow"], one["takes"]) for one in [await stage.run(run) for run in runs]] == [(False, 0)] * 3
    await stage.sound()


async def test_tenants_take_turns_at_slow_walks(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.put(SLOW)
    for _ in range(4):
        await stage.trigger(to="+4917012345")
    await stage.walk()
    await stage.database.fetch(
        "UPDATE dispatcher.runs SET tenant_id = CASE WHEN id % 4 = 0 THEN 'b' ELSE 'a' END WHERE slow"
    )
    walked: list[str] = []
    call = stage.walker._first._offload.call

    async def seen(tenant: str, *given: Any) -> Any:
        walked.append(tenant)
        return await call(tenant, *given)

    monkeypatch.setattr(stage.walker._first._offload, "call", seen)
    for _ in range(3):
        await stage.walk()
    assert walked[:2] in (["a", "b"], ["b", "a"])


async def test_a_run_that_kills_the_worker_process_is_a_dead_letter_and_the_walker_goes_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.put(SLOW)
    run = await stage.trigger(to="+4917012345")

    async def lost(_tenant: str, function: Any, *_given: Any) -> Any:
        assert function is worker_functions.walk
        raise CallLost("walk: BrokenWorkerProcess")

    monkeypatch.setattr(stage.walker._first._offload, "call", lost)
    for _ in range(CRASHES_MAX + 2):
        await stage.walk()
        await stage.poison_worker.run_once()
    row = await stage.run(run)
    assert (row["status"], row["dead"]) == ("failed", True)
    assert await stage.count("walks") == 0
    await stage.sound()
