"""Precedence: while a transactional delivery is on its way to its mark, no other work begins, but for a while only."""

import asyncio
from collections.abc import Iterator

import pytest

from dispatcher.engine.rules.life import Lane, Lost
from dispatcher.engine.slots import Slots
from dispatcher.engine.streams import Inbox, LaneState, Precedence
from tests.engine.stage import Stage, claimed
from tests.support.waits import until


class Clocked(Precedence):
    """A precedence on a clock of its own, which counts how often other work has waited."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.waits = 0
        super().__init__(lambda: self.now, self._wait)

    async def _wait(self, seconds: float) -> None:
        self.waits += 1
        self.now += seconds


@pytest.fixture
def state() -> Iterator[LaneState]:
    """A transactional lane."""
    state = LaneState("sms", Lane.TRANSACTIONAL, 100, lambda: 100.0, Slots(10))
    yield state
    state.pipe.send.close()
    state.pipe.receive.close()


async def test_other_work_waits_for_a_claim_and_not_for_ever(state: LaneState) -> None:
    precedence = Clocked()
    with precedence.claiming(state):
        await precedence.give()
        assert precedence.waits == Precedence.WAITS_MAX
        await precedence.give(Lane.TRANSACTIONAL)
        assert precedence.waits == Precedence.WAITS_MAX
    await precedence.give()
    assert precedence.waits == Precedence.WAITS_MAX


async def test_other_work_waits_for_what_is_claimed_and_has_no_slot(state: LaneState) -> None:
    precedence = Clocked()
    with precedence.claiming(state):
        state.outstanding = 2
    state.slots.take(state.lane, 1)
    await precedence.give()
    assert precedence.waits == Precedence.WAITS_MAX
    state.slots.take(state.lane, 1)
    await precedence.give()
    assert precedence.waits == Precedence.WAITS_MAX


async def test_other_work_does_not_wait_for_what_has_waited_long_for_its_mark(state: LaneState) -> None:
    precedence = Clocked()
    with precedence.claiming(state):
        state.outstanding = 1
    precedence.now += Precedence.MARK_SECONDS
    await precedence.give()
    assert precedence.waits == 0


async def test_other_work_is_done_in_portions_while_transactional_deliveries_come(state: LaneState) -> None:
    precedence, count = Clocked(), Precedence.PORTION + 1
    assert precedence.portion(count) == count
    with precedence.claiming(state):
        pass
    assert [precedence.portion(count, lane) for lane in Lane] == [count, count - 1, count - 1]
    assert precedence.portion(7) == 7
    precedence.now += Precedence.COMING_SECONDS
    assert precedence.portion(count) == count


async def test_work_without_portions_rests_while_transactional_deliveries_come(state: LaneState) -> None:
    precedence = Clocked()
    await precedence.rest(0.04)
    assert precedence.waits == 0
    with precedence.claiming(state):
        pass
    began = precedence.now
    await precedence.rest(0.04)
    assert precedence.now - began == pytest.approx(0.04)


class Portions(Precedence):
    """A precedence by which other work is done in portions of two."""

    def is_coming(self) -> bool:
        return True

    def portion(self, count: int, lane: Lane = Lane.BULK) -> int:
        return count if lane is Lane.TRANSACTIONAL else min(count, 2)


async def test_claims_marks_and_flushes_are_done_in_portions(stage: Stage) -> None:
    stage.precedence = Portions()
    stage.fresh()
    async with stage.playing():
        ids = await stage.write(5, lane=Lane.BULK)
        await stage.until_all(ids, "sent")
    asked = {name: stage.database.arguments(name) for name in ("marks.mark", "flushes.accepted")}
    assert max(len(ids) for _, ids, *_ in asked["marks.mark"] if isinstance(ids, list)) == 2
    assert max(len(ids) for ids, *_ in asked["flushes.accepted"] if isinstance(ids, list)) == 2
    assert [arguments[7] for arguments in stage.database.arguments("claims.claim")][:3] == [2, 2, 2]


class Gate(Precedence):
    """A precedence that other lanes are given when the test opens it."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.asked = 0

    def is_coming(self) -> bool:
        return True

    async def give(self, lane: Lane = Lane.BULK) -> None:
        self.asked += 1
        if lane is not Lane.TRANSACTIONAL:
            await self.open.wait()


@pytest.fixture
def gate(stage: Stage) -> Gate:
    """The precedence of a fresh pipeline."""
    gate = stage.precedence = Gate()
    stage.fresh()
    return gate


async def test_a_transactional_delivery_is_sent_while_others_are_not_claimed(stage: Stage, gate: Gate) -> None:
    async with stage.playing():
        bulk = await stage.write(1, lane=Lane.BULK)
        urgent = await stage.write(1, lane=Lane.TRANSACTIONAL)
        await until(lambda: stage.sms.ids() == urgent, "it is called")
        assert await stage.lives(bulk) == ["pending"]
        gate.open.set()
        await stage.until_all([*bulk, *urgent], "sent")


async def test_a_bulk_delivery_that_is_claimed_is_not_marked(stage: Stage, gate: Gate) -> None:
    gate.open.set()
    async with stage.playing():
        await until(lambda: stage.database.count("claims.due"), "it claims")
        claiming = stage.database.hold_answers("claims.claim")
        bulk = await stage.write(1, lane=Lane.BULK)
        await claiming.met.wait()
        gate.open.clear()
        asked = gate.asked
        claiming.gate.set()
        await until(lambda: gate.asked > asked, "it asks before its mark")
        assert await stage.lives(bulk) == ["claimed"]
        gate.open.set()
        await stage.until_all(bulk, "sent")


async def test_only_results_of_transactional_deliveries_are_written(stage: Stage, gate: Gate) -> None:
    gate.open.set()
    stage.sms.holds = lambda envelope: envelope.parts["body"] == "later"
    async with stage.playing():
        bulk = await stage.write(1, lane=Lane.BULK, body="later")
        await until(lambda: stage.sms.ids() == bulk, "it is called")
        gate.open.clear()
        asked = gate.asked
        stage.sms.gate.set()
        await until(lambda: gate.asked > asked and stage.pipeline.inbox.pending, "its result waits")
        assert await stage.lives(bulk) == ["sending"]
        gate.open.set()
        await stage.until_all(bulk, "sent")
        gate.open.clear()
        await stage.until_all(await stage.write(1, lane=Lane.TRANSACTIONAL), "sent")
        gate.open.set()


async def test_results_of_transactional_deliveries_are_written_before_others_and_all_at_once() -> None:
    inbox = Inbox(100)
    for number in range(6):
        inbox.put(claimed(number, lane=Lane.TRANSACTIONAL if number % 2 else Lane.BULK), Lost())
    assert inbox.put_urgent_first(5) == 2
    assert [item.id for item, _ in inbox.take(6)] == [1, 3, 0, 2, 4, 5]
