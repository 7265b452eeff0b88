"""The sender: marks before it calls, calls once, and gives back whatever was not called."""

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from channels.contract import Accepted, Envelope, NotCalled, Refused, Report, RetryAfter, Throttled, Unknown, Verdict
from dispatcher.config.settings import Channel
from dispatcher.engine.rules.life import Claimed, Lane, Outcome, Succeeded
from tests.engine.stage import CONFIG, Script, Stage, accepted, channel
from tests.engine.troubled import Troubled
from tests.support import pauses
from tests.support.waits import until

LANES = {lane.name.lower(): lane for lane in Lane}


def _lane_of(envelope: Envelope) -> Lane:
    return LANES[envelope.parts["body"]]


async def _every_lane(stage: Stage, number: int) -> dict[Lane, list[int]]:
    """Deliveries that say which lane they are of."""
    return {lane: await stage.write(number, body=name, lane=lane) for name, lane in LANES.items()}


def _all(ids: dict[Lane, list[int]]) -> list[int]:
    return [one for lane in ids.values() for one in lane]


@pytest.mark.parametrize("hung", Lane)
async def test_a_lane_that_hangs_leaves_the_others_their_share(troubled: Troubled, hung: Lane) -> None:
    stage = Stage(troubled, channel(marked_max=10))
    stage.sms.holds = lambda envelope: _lane_of(envelope) is hung
    async with stage.playing():
        ids = await _every_lane(stage, 40)
        for lane in set(Lane) - {hung}:
            await stage.until_all(ids[lane], "sent")
        assert sum(_lane_of(one) is hung for one in stage.sms.given) <= 8
        stage.sms.gate.set()
        await stage.sent_once(_all(ids))
        await stage.until_empty()


async def test_a_channel_that_hangs_leaves_the_others_alone(troubled: Troubled) -> None:
    config = replace(CONFIG, channels={"sms": Channel(marked_max=3), "email": Channel()})
    stage = Stage(troubled, config)
    stage.sms.holds = lambda _: True
    async with stage.playing():
        hung = await stage.write(30)
        other = await stage.write(30, channel="email")
        await stage.until_all(other, "sent")
        assert len(stage.sms.given) <= 3
        stage.sms.gate.set()
        await stage.until_all(hung, "sent")


async def test_no_more_are_marked_than_marked_max(troubled: Troubled) -> None:
    stage = Stage(troubled, channel(marked_max=10))
    stage.sms.holds = lambda _: True
    async with stage.playing():
        ids = _all(await _every_lane(stage, 20))
        await until(lambda: len(stage.sms.given) == 10, "all slots are used")
        assert sum(sum(sender.slots.used.values()) for sender in stage.pipeline.senders.values()) == 10
        assert (await stage.lives(ids)).count("sending") == 10
        stage.sms.gate.set()
        await stage.sent_once(ids)


@pytest.mark.parametrize("source", ["channel", "recipient"])
async def test_deliveries_claimed_before_a_changed_key_promise_are_claimed_anew(
    troubled: Troubled, source: str
) -> None:
    """Recovery goes by the terms in the claim: each call is covered by a claim of its own terms."""
    stage = Stage(troubled, channel(marked_max=10))
    stage.sms.holds = lambda _: True
    (lanes, slots) = stage.pipeline.lanes, stage.pipeline.senders["sms"].slots

    def called_and_claimed() -> bool:
        used = sum(slots.used.values())
        return 0 < used == len(stage.sms.given) and sum(state.outstanding for state in lanes) == 40

    async def promises() -> dict[int, bool]:
        under_way = """SELECT s.id, c.resend_by IS NOT NULL OR c.keyed_recipients = '{+4917012345}' AS made
                         FROM dispatcher.delivery_state s JOIN dispatcher.claims c USING (token)
                        WHERE s.marked AND s.status = 'queued'"""
        return {row["id"]: row["made"] for row in await troubled.fetch(under_way)}

    async with stage.playing():
        ids = await stage.write(40)
        await until(called_and_claimed, "as many as there are slots are called, and the rest is claimed")
        if source == "channel":
            stage.terms["sms"].settings = Channel(marked_max=10, at_least_once=True)
        else:
            stage.sms.keyed_recipients = frozenset({"+4917012345"})
        stage.pipeline.adopt(stage.config, stage.terms)
        before = set(stage.sms.ids())
        assert set((await promises()).values()) == {False}
        gate, stage.sms.gate = stage.sms.gate, asyncio.Event()
        gate.set()

        async def others() -> dict[int, bool]:
            return {one: promise for one, promise in (await promises()).items() if one not in before}

        assert set((await until(others, "the next are called")).values()) == {True}
        stage.sms.gate.set()
        await stage.sent_once(ids)


async def test_a_slot_is_in_use_until_the_result_is_written(troubled: Troubled) -> None:
    """A kill leaves held what was marked without a durable result: what is being written is that too."""
    config = replace(CONFIG, channels={"sms": Channel(marked_max=30), "email": Channel()})
    stage = Stage(troubled, config)
    ids = await stage.write(100)
    writing = troubled.hold_answers("flushes.accepted")
    async with stage.playing():
        await writing.met.wait()
        for _ in range(5):
            (other,) = await stage.write(1, channel="email")
            await until(partial(_is_given, stage.scripts["email"], other), "others go on")
        assert len(stage.sms.given) <= 30
        writing.gate.set()
        await stage.sent_once(ids)


def _is_given(script: Script, delivery: int) -> bool:
    return delivery in script.ids()


async def test_transactional_ones_go_first_when_tokens_are_scarce_and_no_lane_starves(troubled: Troubled) -> None:
    stage = Stage(troubled, channel(rate_per_second=40.0, rate_burst=4.0))
    ids = await _every_lane(stage, 20)
    async with stage.playing():
        await stage.until_all(_all(ids), "sent")
    order = [_lane_of(envelope) for envelope in stage.sms.given]
    last = {lane: len(order) - order[::-1].index(lane) for lane in Lane}
    assert last[Lane.TRANSACTIONAL] < last[Lane.NORMAL] < last[Lane.BULK], order
    assert Lane.BULK in order[: last[Lane.TRANSACTIONAL] + 8], order


async def test_a_lane_that_was_paused_while_it_waited_holds_no_other_back(troubled: Troubled) -> None:
    """It waits for tokens, is paused, and has nothing more to send afterwards."""
    stage = Stage(troubled, channel(rate_per_second=20.0, rate_burst=2.0))
    async with stage.playing():
        urgent = await stage.write(6, body="transactional", lane=Lane.TRANSACTIONAL)
        sender = stage.pipeline.senders["sms"]
        await until(lambda: Lane.TRANSACTIONAL in sender.turns.queueing, "it waits for tokens")
        await pauses.pause(troubled, "channel", "sms", "test", "test")
        await stage.controls.run_once()
        await stage.until_empty()
        await troubled.fetch(
            "SELECT dispatcher.cancel_delivery_by_id(id, 'test', 'test') FROM unnest($1::bigint[]) id", urgent
        )
        await pauses.resume(troubled, "channel", "sms", "test")
        await stage.controls.run_once()
        assert Lane.TRANSACTIONAL not in sender.turns.queueing, "others give way to it, and it is not there"


async def test_a_tenants_limit_defers_only_its_own_deliveries(troubled: Troubled) -> None:
    stage = Stage(troubled, channel(tenant_rate_per_second=5.0))
    async with stage.playing():
        greedy = await stage.write(4, tenant_id="greedy")
        other = await stage.write(1, tenant_id="other")
        await stage.until_all(other, "sent")
        await stage.sent_once([*greedy, *other])
        assert [(await stage.row(one))["attempt"] for one in greedy] == [1] * 4


# What is unknown


@pytest.mark.parametrize("executed", [True, False])
async def test_an_unknown_mark_gives_the_attempt_back_and_is_sent_once(stage: Stage, executed: bool) -> None:
    lose = stage.database.lose_answers if executed else stage.database.lose_requests
    lose("marks.mark")
    ids = await stage.write(3)
    async with stage.playing():
        await stage.sent_once(ids)
        await stage.until_empty()
    assert [(await stage.row(one))["attempt"] for one in ids] == [1, 1, 1]
    assert stage.database.count("marks.mark") == 2


@pytest.mark.parametrize("executed", [True, False])
async def test_an_unknown_flush_is_written_once(stage: Stage, executed: bool) -> None:
    lose = stage.database.lose_answers if executed else stage.database.lose_requests
    lose("flushes.accepted")
    ids = await stage.write(3)
    async with stage.playing():
        await stage.sent_once(ids)
        await stage.until_empty()


async def test_expired_between_claim_and_mark_is_skipped(stage: Stage) -> None:
    stage.sms.ready.clear()
    ids = await stage.write(2)
    async with stage.playing():
        await until(lambda: stage.sms.preparing == 1, "it is about to be marked")
        past = "UPDATE dispatcher.delivery_state SET expires_at = statement_timestamp() WHERE id = $1"
        await stage.database.fetch(past, ids[0])
        stage.sms.ready.set()
        await stage.until_all(ids[:1], "skipped")
        await stage.until_all(ids[1:], "sent")
        await stage.until_empty()
    assert stage.sms.ids() == ids[1:]
    assert (await stage.row(ids[0]))["error"] == "expired"


async def test_cancelled_between_claim_and_mark_is_not_called(stage: Stage) -> None:
    stage.sms.ready.clear()
    ids = await stage.write(2)
    async with stage.playing():
        await until(lambda: stage.sms.preparing == 1, "it is about to be marked")
        cancel = "SELECT dispatcher.cancel_delivery_by_id($1, 'test', 'not needed')"
        assert await stage.database.value(cancel, ids[0]) == "cancelled"
        stage.sms.ready.set()
        await stage.until_all(ids[1:], "sent")
        await stage.until_empty()
    assert stage.sms.ids() == ids[1:]
    await stage.sound()


# Channels that misbehave


class Raising(Script):
    """Reports the first, then raises."""

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        self.given += batch
        report(batch[0], accepted(batch[0]))
        raise ValueError("a bug of the channel's")


class Twice(Script):
    """Reports everything twice."""

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        await super().deliver(batch, report)
        for envelope in batch:
            report(envelope, Refused("no, after all"))


async def test_calls_without_a_result_are_held_when_the_channel_raises(troubled: Troubled) -> None:
    stage = Stage(troubled, scripts={"sms": Raising()})
    ids = await stage.write(3)
    async with stage.playing() as running:
        await stage.until_all(ids[:1], "sent")
        await stage.until_all(ids[1:], "held")
        await stage.until_empty()
        assert not running.done()
    assert "ValueError" in (await stage.row(ids[1]))["error"]
    await stage.sound()


async def test_a_second_report_is_logged_and_changes_nothing(troubled: Troubled) -> None:
    stage = Stage(troubled, scripts={"sms": Twice()})
    ids = await stage.write(2)
    with capture_logs() as logs:
        async with stage.playing():
            await stage.sent_once(ids)
            await stage.until_empty()
    assert [line["delivery_id"] for line in logs if line["event"] == "channel.reported_twice"] == ids


async def test_unreported_calls_are_held(stage: Stage) -> None:
    stage.sms.answer = lambda envelope: None if envelope.parts["body"] == "silence" else accepted(envelope)
    quiet, heard = await stage.write(1, body="silence"), await stage.write(1)
    async with stage.playing():
        await stage.until_all(quiet, "held")
        await stage.until_all(heard, "sent")
        await stage.until_empty()


async def test_a_call_that_hangs_past_its_time_is_held_and_the_lane_may_mark(troubled: Troubled) -> None:
    stage = Stage(troubled, channel(call_seconds_max=0.2, marked_max=3))
    stage.sms.holds = lambda envelope: envelope.parts["body"] == "hang"
    async with stage.playing():
        hung = await stage.write(2, body="hang")
        await stage.until_all(hung, "held")
        after = await stage.write(5)
        await stage.until_all(after, "sent")
        await stage.until_empty()
    assert "0.2 s" in (await stage.row(hung[0]))["error"]


async def test_a_channel_that_cannot_connect_marks_nothing(stage: Stage) -> None:
    stage.sms.unready = ConnectionRefusedError()
    ids = await stage.write(2)
    async with stage.playing():
        await until(lambda: stage.database.count("flushes.others"), "they were put back")
        await stage.until_empty()
    assert stage.database.count("marks.mark") == 0
    assert [(await stage.row(one))["attempt"] for one in ids] == [0, 0]


async def test_a_bug_in_a_channel_s_preparation_takes_no_other_channel_with_it(troubled: Troubled) -> None:
    stage = Stage(troubled, replace(CONFIG, channels={"sms": Channel(), "email": Channel()}))
    stage.sms.unready = ValueError("a bug of the channel's")
    async with stage.playing() as running:
        await stage.write(1)
        other = await stage.write(1, channel="email")
        await stage.until_all(other, "sent")
        await until(lambda: running.done() or stage.database.count("flushes.others"), "it was put back")
        assert not running.done()


async def test_a_channel_counts_as_used_from_before_its_mark(stage: Stage) -> None:
    """A reload closes what it replaces once `calls` is 0: between mark and call it must not be."""
    marking = stage.database.hold_answers("marks.mark")
    ids = await stage.write(1)
    async with stage.playing():
        await marking.met.wait()
        calls = stage.terms["sms"].calls
        marking.gate.set()
        await stage.sent_once(ids)
    assert calls == 1, "the channel would be closed, and the delivery held"


# Verdicts


@pytest.mark.parametrize(
    ("verdict", "life", "attempts"),
    [
        (Accepted("p"), "sent", 1),
        (Refused("no"), "failed", 1),
        (RetryAfter("busy", 600.0), "pending", 1),
        (Throttled(600.0), "pending", 0),
        (Unknown("after the last byte"), "held", 1),
    ],
)
async def test_every_verdict_has_its_end(stage: Stage, verdict: Verdict, life: str, attempts: int) -> None:
    stage.sms.answer = lambda _: verdict
    ids = await stage.write(1)
    async with stage.playing():
        await until(lambda: stage.sms.given, "it was called")
        await stage.until_empty()
    assert (await stage.lives(ids), (await stage.row(ids[0]))["attempt"]) == ([life], attempts)
    await stage.sound()


async def test_a_success_keeps_the_providers_answer(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    put, outcomes = stage.pipeline.inbox.put, list[Outcome]()

    def noted(item: Claimed, outcome: Outcome) -> None:
        outcomes.append(outcome)
        put(item, outcome)

    monkeypatch.setattr(stage.pipeline.inbox, "put", noted)
    stage.sms.answer = lambda _: Accepted("p", {"invoice": 17})
    async with stage.playing():
        await stage.sent_once(await stage.write(1))
    assert outcomes == [Succeeded("p", {"invoice": 17})]


async def test_not_called_gives_the_attempt_back_and_is_due_at_once(stage: Stage) -> None:
    answers: list[Verdict] = [NotCalled("the licence ran out"), Accepted("p")]
    stage.sms.answer = lambda _: answers.pop(0)
    ids = await stage.write(1)
    async with stage.playing():
        await stage.until_all(ids, "sent")
    assert [envelope.attempt for envelope in stage.sms.given] == [1, 1]


# Pauses


async def _pause(stage: Stage, scope: pauses.Scope, name: str) -> None:
    await pauses.pause(stage.database, scope, name, "test", "test")
    await stage.controls.run_once()


@pytest.mark.parametrize(("scope", "name"), [("channel", "sms"), ("provider", "capture"), ("tenant", "default")])
async def test_a_pause_stops_marks_at_once_and_ends(stage: Stage, scope: pauses.Scope, name: str) -> None:
    async with stage.playing():
        first = await stage.write(2)
        await stage.until_all(first, "sent")
        await _pause(stage, scope, name)
        marked = stage.database.count("marks.mark")
        second = await stage.write(3)
        if scope == "tenant":
            await stage.until_all(second, "parked")
        assert stage.database.count("marks.mark") == marked
        await pauses.resume(stage.database, scope, name, "test")
        await stage.controls.run_once()
        stage.woken.set()
        await stage.sent_once([*first, *second])
        await stage.until_empty()


async def test_a_delivery_that_waited_for_postgres_is_not_marked_after_a_pause(stage: Stage) -> None:
    stage.pipeline.inbox.high_water = 2
    async with stage.playing():
        flushing = stage.database.hold_answers("flushes.accepted")
        first = await stage.write(2)
        await flushing.met.wait()
        second = await stage.write(3)
        await stage.until_all(second, "claimed")
        await _pause(stage, "channel", "sms")
        flushing.gate.set()
        await stage.until_all(first, "sent")
        await stage.until_empty()
        assert await stage.lives(second) == ["pending"] * 3


async def test_a_delivery_that_waited_for_a_connection_is_not_marked_after_a_pause(stage: Stage) -> None:
    stage.sms.ready.clear()
    ids = await stage.write(2)
    async with stage.playing():
        await until(lambda: stage.sms.preparing == 1, "it is about to be marked")
        await _pause(stage, "channel", "sms")
        stage.sms.ready.set()
        await stage.until_empty()
        assert await stage.lives(ids) == ["pending"] * 2
