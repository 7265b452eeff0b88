"""Waiting: a look that fails in passing is no end of it, and every other failure is."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from inspect import signature
from typing import Any

import msgspec
import pytest

from dispatcher.client import (
    AnyClient,
    Client,
    ClientError,
    Closed,
    NotFound,
    Run,
    TransactionClient,
    Unavailable,
    WaitTimedOut,
)
from dispatcher.client.waiting import wait

NOW = datetime(2030, 1, 1, tzinfo=UTC)
GOING = msgspec.convert(
    dict.fromkeys(("idempotency_key", "error", "error_step", "note", "available_at", "finished_at"))
    | {"execution_id": 7, "workflow_name": "w", "version": 1, "status": "running", "current_steps": ["a"]}
    | {"total_steps": 2, "triggered_by": "ann", "retry_count": 0, "input": {}, "context": {}, "held": 0}
    | {"deliveries_total": 1, "created_at": NOW, "started_at": NOW},
    Run,
)
DONE = msgspec.structs.replace(GOING, status="completed", current_steps=(), finished_at=NOW)
AWAY = Unavailable("nobody answers")


def _looks(*found: Run | ClientError) -> Callable[[int], Awaitable[Run]]:
    """Each look in turn, and the last one for ever."""
    left = list(found)

    async def look(_: int) -> Run:
        one = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(one, ClientError):
            raise one
        return one

    return look


async def _wait(*found: Run | ClientError, seconds: float = 30.0, patient: bool = True) -> tuple[Run, list[Run]]:
    told: list[Run] = []
    look = _looks(*found)
    return await wait(7, look, told.append, seconds=seconds, poll=0.0, patient=patient), told


@pytest.mark.parametrize("client", [Client, AnyClient, TransactionClient])
def test_it_looks_every_two_seconds_for_a_minute(client: type[Any]) -> None:
    given = signature(client.wait).parameters
    assert (given["poll"].default, given["timeout"].default) == (2.0, 60.0)


async def test_each_new_state_is_told_once() -> None:
    held = msgspec.structs.replace(GOING, held=1)
    assert await _wait(GOING, GOING, held, held, GOING, DONE) == (DONE, [GOING, held, GOING, DONE])


async def test_a_patient_wait_survives_an_outage() -> None:
    assert await _wait(AWAY, GOING, AWAY, AWAY, DONE) == (DONE, [GOING, DONE])
    with pytest.raises(Unavailable):
        await _wait(GOING, AWAY, DONE, patient=False)


@pytest.mark.parametrize("fault", [NotFound(), Closed()])
async def test_a_permanent_error_ends_the_wait(fault: ClientError) -> None:
    with pytest.raises(type(fault)):
        await _wait(GOING, fault, DONE)


async def test_its_end_says_what_was_seen_last_or_why_nothing_was() -> None:
    with pytest.raises(WaitTimedOut) as late:
        await _wait(GOING, seconds=0.0)
    assert (str(late.value), late.value.run_id, late.value.run) == ("run 7 of w is running after 0 s", 7, GOING)
    with pytest.raises(WaitTimedOut) as never:
        await _wait(AWAY, seconds=0.0)
    assert str(never.value) == "run 7 could not be looked at within 0 s: nobody answers"
    assert (never.value.run_id, never.value.run) == (7, None)


async def test_an_unanswered_poll_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.client.waiting.LAST_POLL_SECONDS", 0.0)

    async def look(_: int) -> Run:
        await asyncio.Event().wait()
        return DONE

    with pytest.raises(WaitTimedOut):
        async with asyncio.timeout(10):
            await wait(7, look, None, seconds=0.0, poll=0.0, patient=True)
