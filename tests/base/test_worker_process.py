"""The worker process: it answers what a call would here, tenants take turns, and what is lost is said to be lost."""

import asyncio
import os
import signal
import time

import pytest

from dispatcher.base.errors import CallLost, Fault, InputError, NeedsWorker
from dispatcher.base.worker_process import NICE, Offload


def _who(number: int) -> tuple[int, int, int]:
    return os.getpid(), os.getpriority(os.PRIO_PROCESS, 0), number


def _when(name: str) -> tuple[str, float]:
    time.sleep(0.02)
    return name, time.monotonic()


def _refuse() -> None:
    raise InputError([Fault("$.name", "is missing")])


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _heavy(hurried: bool, number: int) -> tuple[int, int]:
    if hurried and number > 1:
        raise NeedsWorker
    return os.getpid(), number


async def test_a_call_is_made_in_another_process_which_gives_way() -> None:
    pid, nice, number = await Offload().call("a", _who, 7)
    assert (pid != os.getpid(), nice >= NICE, number) == (True, True, 7)


async def test_an_error_comes_back_as_it_was_raised() -> None:
    with pytest.raises(InputError) as refused:
        await Offload().call("a", _refuse)
    assert refused.value.faults == (Fault("$.name", "is missing"),)


async def test_tenants_take_turns_however_many_calls_one_has() -> None:
    offload = Offload()
    greedy = [offload.call("greedy", _when, f"greedy {number}") for number in range(6)]
    calls = [asyncio.create_task(one) for one in [*greedy, offload.call("other", _when, "other")]]
    ended = dict(await asyncio.gather(*calls))
    assert sorted(ended, key=lambda name: ended[name]).index("other") <= 2


async def test_a_cancelled_trigger_does_not_block_others() -> None:
    offload = Offload()
    calls = [asyncio.create_task(offload.call("a", _when, str(number))) for number in range(5)]
    await asyncio.sleep(0)
    for one in calls[1:3]:
        one.cancel()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in ended] == [False, True, True, False, False]


async def test_a_call_that_kills_its_process_or_never_ends_is_lost_and_the_next_one_is_made() -> None:
    offload = Offload(seconds_max=2.0)
    with pytest.raises(CallLost, match="_die"):
        await offload.call("a", _die)
    assert (await offload.call("a", _who, 1))[2] == 1
    with pytest.raises(CallLost, match="sleep"):
        await offload.call("a", time.sleep, 60)
    assert (await offload.call("a", _who, 2))[2] == 2


async def test_light_work_is_done_in_this_process() -> None:
    offload = Offload()
    assert await offload.call_if_heavy("a", _heavy, 1) == (os.getpid(), 1)
    there, number = await offload.call_if_heavy("a", _heavy, 2)
    assert (there != os.getpid(), number) == (True, 2)
