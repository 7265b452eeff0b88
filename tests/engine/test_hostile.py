"""Foreign input (verdicts, channels, a fence, an absent Postgres) ends no epoch and loses no evidence."""

import asyncio
from collections.abc import Callable

import pytest

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Verdict
from dispatcher.engine.store import instances
from tests.engine.stage import Stage
from tests.support.waits import until

STRANGE: dict[str, Verdict] = {
    "a_nul_in_a_reason": Refused("recipient: \x00"),
    "a_nul_in_an_id": Accepted("m\x00"),
    "half_a_character_in_a_reason": RetryAfter("busy \ud800"),
    "half_a_character_in_an_id": Accepted("m \ud800"),
    "half_a_character_in_a_phase": Unknown("after \udfff"),
    "a_wait_of_ages": RetryAfter("busy", 1e300),
    "a_wait_for_ever": RetryAfter("busy", float("inf")),
    "a_pause_of_ages": Throttled(1e300),
    "a_pause_that_is_no_number": Throttled(float("nan")),
    "a_reason_of_megabytes": Refused("x" * 5_000_000),
}


def _strange_first(verdict: Verdict) -> Callable[[Envelope], Verdict]:
    strange: list[int] = []

    def answer(envelope: Envelope) -> Verdict:
        if not strange or envelope.delivery_id in strange:
            strange.append(envelope.delivery_id)
            return verdict
        return Accepted(f"p-{envelope.delivery_id}")

    return answer


def _may_mark(running: "asyncio.Task[None]") -> None:
    """Fail with what ended the epoch, where something has."""
    if running.done():
        pytest.fail(f"the epoch ended: {running.exception()!r}")


@pytest.mark.parametrize("verdict", STRANGE.values(), ids=STRANGE)
async def test_a_strange_verdict_harms_nothing_but_its_own_delivery(stage: Stage, verdict: Verdict) -> None:
    """What a provider says is foreign input: one that Postgres cannot store must not end the epoch for all others."""
    stage.sms.answer = _strange_first(verdict)
    async with stage.playing() as running:
        (strange,) = await stage.write()

        async def answered() -> bool:
            return running.done() or await stage.lives([strange]) != ["pending"] or stage.accounts() == (0, 0, 0, 0)

        await until(lambda: strange in stage.sms.ids(), "it was given to the provider")
        await until(answered, "its verdict was written")
        _may_mark(running)
        if isinstance(verdict, Throttled):
            return
        others = await stage.write(5)

        async def sent() -> bool:
            return running.done() or set(await stage.lives(others)) == {"sent"}

        await until(sent, "the others are sent")
        _may_mark(running)
    assert await stage.lives([strange]) in (["sent"], ["failed"], ["pending"], ["held"])


async def test_a_channel_that_cannot_even_prepare_ends_no_epoch(stage: Stage) -> None:
    async def prepare(count: int) -> None:
        raise ValueError("a bug of the channel")

    stage.sms.prepare = prepare  # type: ignore[method-assign]  # the provider is the test
    async with stage.playing() as running:
        (waiting,) = await stage.write()
        for _ in range(50):
            await asyncio.sleep(0)
        await until(lambda: running.done() or stage.database.count("flushes.others"), "it was put off")
        _may_mark(running)
        await stage.until_all([waiting], "pending")


async def test_a_fence_cuts_off_no_call_that_could_still_tell_how_it_ended(stage: Stage) -> None:
    """Others have taken over: what this epoch's calls bring is evidence, and resolves what they are held for."""
    stage.sms.holds = lambda _: True
    async with stage.playing() as running:
        (calling,) = await stage.write()
        await until(stage.sms.ids, "it was given to the provider")
        await instances.fence(stage.database, stage.pipeline.epoch.number, 2_000)
        await instances.recover(stage.database, 100)
        assert await stage.lives([calling]) == ["held"]
        beats = stage.database.count("instances.beat")
        await until(lambda: running.done() or stage.database.count("instances.beat") > beats, "it asks for its row")
        for _ in range(100):
            await asyncio.sleep(0)  # turns of the loop, for what follows from the answer
        stage.sms.gate.set()
        await asyncio.wait([running], timeout=20)
        running.exception()
    assert await stage.lives([calling]) == ["sent"]


async def test_a_drain_that_begins_before_the_epoch_could_join_ends_it(stage: Stage) -> None:
    """Postgres is away and somebody says stop: there is nothing to wait for."""
    stage.database.away = True
    running = asyncio.create_task(stage.pipeline.run())
    await until(lambda: stage.database.count("instances.join"), "it tries to join")
    stage.pipeline.draining.set()
    done, _ = await asyncio.wait([running], timeout=10)
    running.cancel()
    assert done
