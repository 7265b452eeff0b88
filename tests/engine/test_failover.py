"""Several providers of a channel: the next one is used where nothing had left, and never where something may have."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from channels.contract import Envelope, NotCalled, Refused, RetryAfter, Throttled, Unknown, Unready, Verdict
from dispatcher.config.settings import Channel, ChannelProvider, Retry
from dispatcher.engine.providers import terms as provider_terms
from dispatcher.engine.store import instances
from dispatcher.engine.store import pauses as store_pauses
from tests.engine.stage import CONFIG, Script, Stage, accepted
from tests.engine.troubled import Troubled
from tests.support import pauses
from tests.support.metering import sample_value
from tests.support.waits import until

MAIN, BACKUP = "main (capture)", "backup (capture)"
AGAIN = Retry(base_seconds=0.01, cap_seconds=0.01)
FAULT = Refused("options.key: is wrong", provider_fault=True)


def _provider(**fields: Any) -> ChannelProvider:
    return ChannelProvider(provider="capture", **fields)


def _several(troubled: Troubled, main: Any = None, backup: Any = None, **channel: Any) -> Stage:
    """A stage whose channel has two providers, `main` and `backup`."""
    providers = {"main": _provider(**(main or {})), "backup": _provider(**(backup or {}))}
    return Stage(troubled, replace(CONFIG, retry=AGAIN, channels={"sms": Channel(providers=providers, **channel)}))


def _always(verdict: Verdict) -> Callable[[Envelope], Verdict]:
    return lambda _: verdict


def _first_then_accepted(verdict: Verdict) -> Callable[[Envelope], Verdict]:
    """Judge the first call of each delivery like this; the others are taken."""
    seen: set[int] = set()

    def answer(envelope: Envelope) -> Verdict:
        if envelope.delivery_id in seen:
            return accepted(envelope)
        seen.add(envelope.delivery_id)
        return verdict

    return answer


async def _attempts(stage: Stage, delivery_id: int) -> list[tuple[int, str, str]]:
    rows = await stage.database.fetch(
        "SELECT attempt, outcome, provider FROM dispatcher.delivery_attempts WHERE delivery_id = $1 ORDER BY 1",
        delivery_id,
    )
    return [tuple(row) for row in rows]


async def _reopen(stage: Stage, ids: list[int]) -> None:
    """Let what waits for its time be due."""
    await stage.database.fetch("UPDATE dispatcher.delivery_state SET run_at = now() WHERE ready AND id = ANY ($1)", ids)
    stage.woken.set()


async def test_the_first_provider_has_everything(troubled: Troubled) -> None:
    stage = _several(troubled)
    async with stage.playing():
        ids = await stage.write(50)
        await stage.until_all(ids, "sent")
    assert sorted(stage.scripts["main"].ids()) == ids
    assert stage.scripts["backup"].given == []
    assert {(await stage.row(one))["provider"] for one in ids} == {MAIN}
    await stage.sound()


@pytest.mark.parametrize("trouble", [Unready("options.key: is wrong"), OSError("no route"), ValueError("a bug")])
async def test_the_next_provider_has_what_the_first_cannot_be_reached_for(
    troubled: Troubled, trouble: Exception
) -> None:
    stage = _several(troubled)
    stage.scripts["main"].unready = trouble
    async with stage.playing():
        ids = await stage.write(20)
        await stage.until_all(ids, "sent")
        await stage.until_empty()
    assert sorted(stage.scripts["backup"].ids()) == ids
    row = await stage.row(ids[0])
    assert (row["provider"], row["attempt"], row["attempt_base"]) == (BACKUP, 1, 0)
    await stage.sound()


@pytest.mark.parametrize(
    "fault", [FAULT, RetryAfter("no connection", provider_fault=True)], ids=["refused", "unreached"]
)
async def test_what_a_provider_is_at_fault_for_is_passed_on_without_an_attempt(
    troubled: Troubled, fault: Verdict
) -> None:
    stage = _several(troubled)
    stage.scripts["main"].answer = _always(fault)
    async with stage.playing():
        (first,) = await stage.write(1, max_attempts=1)
        await stage.until_all([first], "sent")
        others = await stage.write(20)
        await stage.until_all(others, "sent")
    assert stage.scripts["main"].ids() == [first], "its breaker is open after that"
    assert sorted(stage.scripts["backup"].ids()) == [first, *others]
    row = await stage.row(first)
    assert (row["provider"], row["attempt"], row["attempt_base"]) == (BACKUP, 2, 1)
    assert await _attempts(stage, first) == [(1, "retry", MAIN)]
    await stage.sound()


async def test_where_every_provider_refuses_us_each_is_asked_once_and_an_attempt_is_used(troubled: Troubled) -> None:
    stage = _several(troubled)
    for script in stage.scripts.values():
        script.answer = _always(FAULT)
    async with stage.playing():
        (one,) = await stage.write(1, max_attempts=1)
        await stage.until_all([one], "failed")
    assert (stage.scripts["main"].ids(), stage.scripts["backup"].ids()) == ([one], [one])
    assert (await stage.row(one))["error"] == "exhausted: options.key: is wrong"
    await stage.sound()


async def test_a_call_that_was_not_begun_is_passed_on(troubled: Troubled) -> None:
    stage = _several(troubled)
    stage.scripts["main"].answer = _always(NotCalled("the licence ran out"))
    async with stage.playing():
        ids = await stage.write(20)
        await stage.until_all(ids, "sent")
    assert sorted(stage.scripts["backup"].ids()) == ids
    row = await stage.row(ids[0])
    assert (row["attempt"], row["attempt_base"], await _attempts(stage, ids[0])) == (1, 0, [])
    await stage.sound()


@pytest.mark.parametrize("verdict", [Unknown("no answer"), None], ids=["unknown", "unsaid"])
async def test_an_unknown_attempt_is_held_and_no_other_provider_sees_it(
    troubled: Troubled, verdict: Verdict | None
) -> None:
    stage = _several(troubled, main={"breaker_failures": 1})
    stage.scripts["main"].answer = lambda _: verdict
    async with stage.playing():
        (one,) = await stage.write(1)
        await stage.until_all([one], "held")
        (other,) = await stage.write(1)
        await stage.until_all([other], "sent")
    assert stage.scripts["backup"].ids() == [other], "the breaker is open"
    assert (await stage.row(one))["provider"] == MAIN
    await stage.sound()


async def test_a_refused_message_is_refused_for_good(troubled: Troubled) -> None:
    stage = _several(troubled)
    stage.scripts["main"].answer = _always(Refused("recipient: is not a number"))
    async with stage.playing():
        (one,) = await stage.write(1)
        await stage.until_all([one], "failed")
    assert stage.scripts["backup"].given == []


async def test_a_failure_that_may_be_the_messages_is_tried_again_where_it_was(troubled: Troubled) -> None:
    stage = _several(troubled)
    stage.scripts["main"].answer = _first_then_accepted(RetryAfter("greylisted"))
    async with stage.playing():
        ids = await stage.write(5)
        await stage.until_all(ids, "sent")
    assert stage.scripts["backup"].given == []
    await stage.sound()


async def test_failures_in_a_row_open_the_breaker_and_one_delivery_closes_it(troubled: Troubled) -> None:
    stage = _several(troubled, main={"breaker_failures": 3, "breaker_seconds": 0.3})
    stage.scripts["main"].answer = _always(RetryAfter("503"))
    (main, _) = stage.terms["sms"].several
    async with stage.playing():
        ids = await stage.write(3, max_attempts=9)
        await stage.until_all(ids, "sent")
        assert {(await stage.row(one))["provider"] for one in ids} == {BACKUP}
        stage.scripts["main"].answer = accepted
        before = len(stage.scripts["main"].given)
        await until(lambda: main.breaker.wait(asyncio.get_running_loop().time()) <= 0, "it may be tried")
        more = await stage.write(10)
        await stage.until_all(more, "sent")
        tried = stage.scripts["main"].given[before:]
        assert main.breaker.is_closed
    assert len(tried) >= 1
    assert sorted([*stage.scripts["main"].ids()[before:], *stage.scripts["backup"].ids()[len(ids) :]]) == more
    await stage.sound()


async def test_a_key_is_used_again_at_its_own_provider_only(troubled: Troubled) -> None:
    """Even while that one is broken and the other is not."""
    stage = _several(troubled, main={"breaker_failures": 1, "breaker_seconds": 0.3})
    main, backup = stage.scripts["main"], stage.scripts["backup"]
    main.idempotency_key_seconds = backup.idempotency_key_seconds = float("inf")
    stage.pipeline.adopt(stage.config, stage.terms)
    main.answer = _always(Unknown("no answer"))
    async with stage.playing():
        (one,) = await stage.write(1)
        await until(lambda: len(main.given) == 1, "it is called")
        await stage.until_all([one], "pending")
        others = await stage.write(10)
        await stage.until_all(others, "sent")
        assert sorted(backup.ids()) == others
        main.answer = accepted
        await until(lambda: len(main.given) >= 2, "it is called again, where it was")
        await stage.until_all([one], "sent")
    assert one not in backup.ids()
    assert (await stage.row(one))["provider"] == MAIN
    assert await _attempts(stage, one) == [(1, "unknown", MAIN)]
    await stage.sound()


@pytest.mark.parametrize("gone", ["removed", "another kind"])
async def test_an_unknown_attempt_is_held_where_its_provider_is_gone(troubled: Troubled, gone: str) -> None:
    stage = _several(troubled)
    main, backup = stage.scripts["main"], stage.scripts["backup"]
    main.idempotency_key_seconds = backup.idempotency_key_seconds = float("inf")
    stage.pipeline.adopt(stage.config, stage.terms)
    main.answer = _always(Unknown("no answer"))
    stage.terms["sms"].several[0].retry = Retry(base_seconds=60.0)
    async with stage.playing():
        (one,) = await stage.write(1)
        await until(lambda: len(main.given) == 1, "it is called")
        await stage.until_all([one], "pending")
        providers = {"backup": _provider()}
        if gone == "another kind":
            providers |= {"main": ChannelProvider(provider="smtp")}
        changed = stage.opened("sms", Channel(providers=providers))
        stage.pipeline.adopt(stage.config, {"sms": changed})
        await _reopen(stage, [one])
        await stage.until_all([one], "held")
    assert (len(main.given), backup.given) == (1, [])
    assert MAIN in (await stage.row(one))["error"]
    await stage.sound()


async def test_an_unknown_attempt_is_held_where_the_only_provider_is_replaced(troubled: Troubled) -> None:
    stage = Stage(troubled, replace(CONFIG, retry=AGAIN))
    stage.sms.idempotency_key_seconds = float("inf")
    stage.pipeline.adopt(stage.config, stage.terms)
    stage.sms.answer = _always(Unknown("no answer"))
    stage.terms["sms"].retry = Retry(base_seconds=60.0)
    async with stage.playing():
        (one,) = await stage.write(1)
        await until(lambda: len(stage.sms.given) == 1, "it is called")
        await stage.until_all([one], "pending")
        stage.scripts["other"] = Script()
        stage.scripts["other"].idempotency_key_seconds = float("inf")
        stage.scripts["sms"], before = stage.scripts["other"], stage.scripts["sms"]
        replaced = stage.opened("sms", Channel(provider="resend"))
        stage.pipeline.adopt(stage.config, {"sms": replaced})
        await _reopen(stage, [one])
        await stage.until_all([one], "held")
    assert (len(before.given), stage.scripts["other"].given) == (1, [])


@pytest.mark.parametrize("overflow", [False, True])
async def test_what_a_provider_throttles_goes_elsewhere_only_by_choice(troubled: Troubled, overflow: bool) -> None:
    stage = _several(troubled, overflow=overflow)
    stage.scripts["main"].answer = _first_then_accepted(Throttled(0.2))
    async with stage.playing():
        ids = await stage.write(10)
        await stage.until_all(ids, "sent")
    assert bool(stage.scripts["backup"].given) is overflow
    assert {(await stage.row(one))["attempt"] for one in ids} == {1}
    await stage.sound()


@pytest.mark.parametrize("overflow", [False, True])
async def test_what_is_over_a_providers_rate_goes_elsewhere_only_by_choice(troubled: Troubled, overflow: bool) -> None:
    stage = _several(troubled, main={"rate_per_second": 20.0, "rate_burst": 1.0}, overflow=overflow)
    async with stage.playing():
        ids = await stage.write(8)
        await stage.until_all(ids, "sent")
        await stage.until_empty()
    assert bool(stage.scripts["backup"].given) is overflow
    await stage.sound()


@pytest.mark.parametrize("name", ["main", "capture"])
async def test_a_paused_provider_gets_nothing(troubled: Troubled, name: str) -> None:
    """By its own name the others have its deliveries; by its kind all of a kind stand still."""
    stage = _several(troubled)
    await pauses.pause(stage.database, "provider", name, "ann", "dear")
    await stage.controls.run_once()
    async with stage.playing():
        ids = await stage.write(10)
        if name == "capture":
            assert stage.pipeline.epoch.is_stopped(next(iter(stage.pipeline.lanes)))
            await pauses.resume(stage.database, "provider", name, "ann")
            await stage.controls.run_once()
            stage.woken.set()
        await stage.until_all(ids, "sent")
    assert sorted(stage.scripts["backup" if name == "main" else "main"].ids()) == ids


async def test_weights_share_deliveries_out_by_their_ids(troubled: Troubled) -> None:
    stage = _several(troubled, main={"weight": 3.0}, backup={"weight": 1.0})
    for script in stage.scripts.values():
        script.answer = _first_then_accepted(RetryAfter("later"))
    stage.terms["sms"].several[0].breaker.tune(1_000, 30.0)
    stage.terms["sms"].several[1].breaker.tune(1_000, 30.0)
    async with stage.playing():
        ids = await stage.write(200)
        await stage.until_all(ids, "sent")
    main, backup = (set(script.ids()) for script in stage.scripts.values())
    assert len(main) + len(backup) == 200, "each goes where it was on each attempt"
    assert 40 <= len(backup) <= 60
    await stage.sound()


async def test_one_mark_is_for_all_providers_that_are_connected(troubled: Troubled) -> None:
    stage = _several(troubled, main={"weight": 1.0}, backup={"weight": 1.0})
    async with stage.playing():
        ids = await stage.write(40)
        await stage.until_all(ids, "sent")
        await stage.until_empty()
        marks = sample_value(stage.metrics.registry, "dispatcher_mark_deliveries_count")
    main, backup = (script.ids() for script in stage.scripts.values())
    assert sorted([*main, *backup]) == ids
    assert min(len(main), len(backup)) >= 15
    assert marks == 1
    await stage.sound()


async def test_a_provider_that_is_paused_while_another_connects_is_not_called(troubled: Troubled) -> None:
    stage = _several(troubled, main={"weight": 1.0}, backup={"weight": 1.0})
    await pauses.pause(stage.database, "provider", "main", "ann", "dear")
    paused = await store_pauses.current(stage.database)
    connect = stage.scripts["backup"].prepare

    async def pausing(count: int) -> None:
        # The first provider has its connection already, and waits for this one.
        stage.controls.pauses = paused
        await connect(count)

    stage.scripts["backup"].prepare = pausing  # type: ignore[method-assign]  # the test's own channel
    async with stage.playing():
        ids = await stage.write(40)
        await stage.until_all(ids, "sent")
    assert stage.scripts["main"].given == []
    assert sorted(stage.scripts["backup"].ids()) == ids


async def test_a_provider_that_hangs_while_it_connects_delays_no_other(troubled: Troubled) -> None:
    stage = _several(troubled, main={"weight": 1.0}, backup={"weight": 1.0})
    stage.scripts["main"].ready.clear()
    async with stage.playing():
        ids = await stage.write(40)
        await until(lambda: len(stage.scripts["backup"].given) >= 15, "the other has its part")
        for _ in range(3):
            # Small marks wait for the one before them, and not for a connection.
            before = len(stage.scripts["backup"].given)
            ids += await stage.write(4)
            await until(lambda: len(stage.scripts["backup"].given) > before, "the other has its part of these")  # noqa: B023 - waited for at once
        assert stage.scripts["main"].given == []
        stage.scripts["main"].ready.set()
        await stage.until_all(ids, "sent")
    await stage.sound()


async def test_a_batch_that_has_to_connect_first_keeps_no_later_mark_waiting(
    troubled: Troubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_terms, "CONNECT_SECONDS_MAX", 3_600.0)
    stage = _several(troubled, main={"weight": 1.0}, backup={"weight": 1.0})
    stage.scripts["main"].ready.clear()
    async with stage.playing():
        ids: list[int] = []
        for _ in range(8):
            # One by one, so that each batch has one provider, and hardly three in a row the same.
            ids += (alone := await stage.write(1))
            await _until_claimed(stage, alone)
        await until(lambda: len(stage.scripts["backup"].given) >= 3, "the other has its part")
        stage.scripts["main"].ready.set()
        await stage.until_all(ids, "sent")
    await stage.sound()


async def _until_claimed(stage: Stage, ids: list[int]) -> None:
    async def claimed() -> bool:
        return "pending" not in await stage.lives(ids)

    await until(claimed, "it is claimed")


async def test_the_others_get_the_part_of_a_provider_that_does_not_connect_in_time(
    troubled: Troubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_terms, "CONNECT_SECONDS_MAX", 0.1)
    stage = _several(troubled, main={"weight": 1.0}, backup={"weight": 1.0})
    stage.scripts["main"].ready.clear()
    async with stage.playing():
        ids = await stage.write(40)
        await stage.until_all(ids, "sent")
    assert sorted(stage.scripts["backup"].ids()) == ids
    await stage.sound()


async def test_a_reload_of_the_order_leaves_calls_under_way_alone(troubled: Troubled) -> None:
    stage = _several(troubled)
    main, backup = stage.scripts["main"], stage.scripts["backup"]
    main.holds = lambda _: True
    async with stage.playing():
        first = await stage.write(10)
        await until(lambda: len(main.given) == 10, "they are called")
        turned = dict(reversed(stage.config.channels["sms"].providers.items()))
        stage.pipeline.adopt(stage.config, {"sms": stage.opened("sms", Channel(providers=turned))})
        await until(lambda: not stage.pipeline.epoch.blocked, "nobody disagrees")
        then = await stage.write(10)
        await stage.until_all(then, "sent")
        main.gate.set()
        await stage.until_all(first, "sent")
    assert (sorted(main.ids()), sorted(backup.ids())) == (first, then)
    assert {(await stage.row(one))["provider"] for one in first} == {MAIN}
    await stage.sound()


@pytest.mark.parametrize(("keyed", "life"), [("main", "pending"), ("backup", "held")])
async def test_recovery_goes_by_the_promise_of_the_provider_that_was_marked(
    troubled: Troubled, keyed: str, life: str
) -> None:
    stage = _several(troubled)
    stage.scripts[keyed].idempotency_key_seconds = float("inf")
    stage.pipeline.adopt(stage.config, stage.terms)
    stage.scripts["main"].holds = lambda _: True
    async with stage.playing():
        (one,) = await stage.write(1)
        await until(lambda: stage.scripts["main"].given, "it is called")
        # Another replica takes us to be dead.
        await instances.fence(stage.database, stage.pipeline.epoch.number, 2_000)
        await instances.recover(stage.database, 100)
        assert await stage.lives([one]) == [life]
        assert (await stage.row(one))["provider"] == MAIN
        stage.pipeline.draining.set()
    await stage.sound()
