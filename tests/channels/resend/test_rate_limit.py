"""Properties of the limit: what may begin, by what the answers say, on a clock in the test's hands."""

import asyncio
from collections.abc import Mapping

import pytest

from channels.resend.rate_limit import PATIENCE_SECONDS, RateLimit


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def limits(remaining: object, reset: object = 1, limit: object = 5) -> Mapping[str, str]:
    return {"ratelimit-limit": str(limit), "ratelimit-remaining": str(remaining), "ratelimit-reset": str(reset)}


@pytest.fixture
def hands() -> Hands:
    """The clock."""
    return Hands()


@pytest.fixture
def limit(hands: Hands) -> RateLimit:
    """A limit that knows nothing yet."""
    return RateLimit(hands)


async def begun(limit: RateLimit, wanted: int = 100) -> int:
    """How many of so many calls may begin now."""
    turns = [asyncio.create_task(limit.acquire()) for _ in range(wanted)]
    for _ in range(3):
        await asyncio.sleep(0)
    began = sum(turn.done() for turn in turns)
    for turn in turns:
        turn.cancel()
    await asyncio.gather(*turns, return_exceptions=True)
    return began


async def test_the_first_call_goes_alone(limit: RateLimit) -> None:
    assert await begun(limit) == 1
    assert await begun(limit) == 0


async def test_as_many_begin_as_remain(limit: RateLimit) -> None:
    await limit.acquire()
    limit.answered(limits(4))
    assert await begun(limit) == 4


async def test_calls_under_way_are_counted_against_what_remains(limit: RateLimit) -> None:
    await limit.acquire()
    limit.answered(limits(4))
    assert await begun(limit, 3) == 3
    limit.answered(limits(3))
    assert await begun(limit) == 1, "of three that remain two are under way already"


async def test_answers_that_come_in_another_order_give_nothing_back(limit: RateLimit) -> None:
    await limit.acquire()
    limit.answered(limits(4))
    assert await begun(limit, 2) == 2
    limit.answered(limits(2))
    limit.answered(limits(3))
    assert await begun(limit) <= 2


async def test_after_the_reset_there_is_a_new_window(limit: RateLimit, hands: Hands) -> None:
    await limit.acquire()
    limit.answered(limits(0, reset=1))
    hands.now += 0.75
    assert await begun(limit) == 0
    hands.now += 0.25
    assert await begun(limit) == 5


async def test_without_limits_nothing_waits(limit: RateLimit) -> None:
    await limit.acquire()
    limit.answered({})
    assert await begun(limit, 50) == 50


@pytest.mark.parametrize("word", ["", "x", "-1", "nan", "inf", "1e400"])
async def test_a_limit_that_is_not_a_number_is_ignored(limit: RateLimit, word: str) -> None:
    await limit.acquire()
    limit.answered(limits(word))
    assert await begun(limit, 50) == 50


async def test_when_every_answer_was_lost_one_goes_alone(limit: RateLimit, hands: Hands) -> None:
    await limit.acquire()
    limit.answered(None)
    assert await begun(limit) == 1
    limit.answered(limits(4, reset=1))
    assert await begun(limit) == 4
    hands.now += 1
    assert await begun(limit) == 5
    for _ in range(9):
        limit.answered(None)
    assert await begun(limit) == 1


async def test_a_long_closed_limit_refuses_waiters_and_then_admits_one(limit: RateLimit, hands: Hands) -> None:
    await limit.acquire()
    limit.answered(limits(4))
    limit.close(60.0)
    assert await limit.acquire() == 60.0
    hands.now += 60.0
    assert await begun(limit) == 1


async def test_closed_for_a_moment_it_is_waited_for(limit: RateLimit, hands: Hands) -> None:
    limit.close(PATIENCE_SECONDS)
    assert await begun(limit) == 0
    hands.now += PATIENCE_SECONDS
    assert await begun(limit) == 1


async def test_an_answer_from_before_the_closure_does_not_open_it(limit: RateLimit, hands: Hands) -> None:
    await limit.acquire()
    limit.answered(limits(4))
    await limit.acquire()
    limit.close(60.0)
    limit.answered(limits(4))
    assert await limit.acquire() == 60.0
    hands.now += 60.0
    assert await begun(limit) == 1


async def test_a_longer_closure_stands(limit: RateLimit) -> None:
    limit.close(60.0)
    limit.close(1.0)
    assert await limit.acquire() == 60.0


async def test_a_turn_that_was_not_used_is_given_back(limit: RateLimit) -> None:
    await limit.acquire()
    limit.answered(limits(1))
    await limit.acquire()
    limit.release()
    assert await begun(limit) == 1
