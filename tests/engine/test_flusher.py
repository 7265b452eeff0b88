"""The flusher: what is written once stays written, what is known is never dropped, and the accounts come out even."""

import asyncio
from collections.abc import Sequence

import pytest

from channels.contract import Accepted, Refused
from dispatcher.config.settings import Flush
from dispatcher.engine.rules.life import Back, Claimed, Failed, Held, Lane, Lost, Outcome, Resend, Skipped, Succeeded
from dispatcher.engine.store import claims, instances, marks
from tests.engine.stage import Stage
from tests.engine.troubled import Troubled
from tests.support.waits import until

HOLD = Resend()


async def taken(stage: Stage, number: int, mark: bool = True) -> list[Claimed]:
    """Deliveries claimed under one token, accounted for as the claimer does, and marked."""
    epoch = stage.pipeline.epoch
    await stage.write(number)
    token = epoch.tokens.issue()
    items = await claims.claim(
        stage.database, epoch.number, claims.Wanted("sms", Lane.NORMAL, number, token, HOLD, 60.0)
    )
    epoch.tokens.claimed(token, number)
    epoch.lanes["sms", Lane.NORMAL].outstanding += number
    if mark:
        await marks.mark(stage.database, epoch.number, items, epoch.clock.boottime, 60.0, "capture")
    return items


async def flush(stage: Stage, items: Sequence[Claimed], *outcomes: Outcome) -> None:
    """Hand in results and write them."""
    for item, outcome in zip(items, outcomes, strict=True):
        stage.pipeline.inbox.put(item, outcome)
    await stage.pipeline.flusher.run_once()


async def claims_noted(stage: Stage) -> int:
    return int(await stage.database.value("SELECT count(*) FROM dispatcher.claims"))


@pytest.fixture
async def joined(stage: Stage) -> Stage:
    """A stage whose epoch is durable."""
    await stage.join()
    return stage


async def test_the_accounts_are_even_after_every_kind_of_outcome(joined: Stage) -> None:
    items = await taken(joined, 6)
    await flush(
        joined,
        items,
        Succeeded("p"),
        Failed("no"),
        Skipped("late"),
        Back(0.0, "not called"),
        Held("unknown: x"),
        Lost(),
    )
    assert joined.accounts() == (0, 0, 0, 0)
    lives = await joined.lives([item.id for item in items])
    assert lives == ["sent", "failed", "skipped", "pending", "held", "sending"]


async def test_a_lost_answer_changes_nothing_the_second_time(joined: Stage) -> None:
    items = await taken(joined, 3)
    joined.database.lose_answers("flushes.accepted")
    joined.database.lose_answers("flushes.others")
    await flush(joined, items, Succeeded("p"), Back(0.0, "not called"), Held("unknown: x"))
    assert joined.database.count("flushes.accepted") == 2
    assert await joined.lives([item.id for item in items]) == ["sent", "pending", "held"]
    assert [(await joined.row(item.id))["attempt"] for item in items] == [1, 0, 1]
    assert joined.accounts() == (0, 0, 0, 0)
    await joined.sound()


async def test_a_batch_is_written_however_often_it_takes(joined: Stage) -> None:
    items = await taken(joined, 2)
    joined.database.lose_requests("flushes.accepted", 2)
    await flush(joined, items, Succeeded("p"), Succeeded("q"))
    assert await joined.lives([item.id for item in items]) == ["sent", "sent"]


async def test_a_claim_goes_with_its_last_result(joined: Stage) -> None:
    items = await taken(joined, 3)
    await flush(joined, items[:2], Succeeded("p"), Succeeded("q"))
    assert await claims_noted(joined) == 1
    await flush(joined, items[2:], Succeeded("r"))
    assert await claims_noted(joined) == 0


async def test_a_claim_in_which_something_is_held_stays(joined: Stage) -> None:
    items = await taken(joined, 2)
    await flush(joined, items, Held("unknown: x"), Succeeded("p"))
    assert await claims_noted(joined) == 1


async def test_a_claim_in_which_something_was_held_before_stays(joined: Stage) -> None:
    items = await taken(joined, 2)
    await flush(joined, items[:1], Held("unknown: x"))
    await flush(joined, items[1:], Succeeded("p"))
    assert await claims_noted(joined) == 1, "it says whose the held one was"


async def test_a_late_success_settles_what_recovery_has_held(joined: Stage) -> None:
    items = await taken(joined, 1)
    await instances.fence(joined.database, joined.pipeline.epoch.number, 1_000)
    await instances.recover(joined.database, 10)
    assert await joined.lives([items[0].id]) == ["held"]
    await flush(joined, items, Succeeded("p"))
    assert await joined.lives([items[0].id]) == ["sent"]
    await joined.sound()


async def test_it_ends_when_the_inbox_is_closed_and_everything_is_written(joined: Stage) -> None:
    items = await taken(joined, 2)
    running = asyncio.create_task(joined.pipeline.flusher.run())
    for item in items:
        joined.pipeline.inbox.put(item, Succeeded("p"))
    joined.pipeline.inbox.close()
    await asyncio.wait_for(running, 10)
    assert await joined.lives([item.id for item in items]) == ["sent", "sent"]


async def test_it_takes_no_more_than_a_batch(joined: Stage) -> None:
    joined.pipeline.flusher.settings = Flush(batch_max=2)
    items = await taken(joined, 3)
    await flush(joined, items, Succeeded("p"), Succeeded("q"), Succeeded("r"))
    assert len(joined.pipeline.inbox.waiting) == 1


async def test_while_postgres_is_away_nothing_is_marked_and_nothing_is_lost(troubled: Troubled) -> None:
    stage = Stage(troubled)
    stage.pipeline.inbox.high_water = 5
    async with stage.playing():
        trouble = troubled.hold_answers("flushes.accepted")
        first = await stage.write(5)
        await trouble.met.wait()
        await until(lambda: len(stage.sms.given) == 5, "all five were called")
        marks_before = troubled.count("marks.mark")
        second = await stage.write(20)
        await stage.until_all(second, "claimed")
        assert troubled.count("marks.mark") == marks_before
        trouble.gate.set()
        await stage.sent_once([*first, *second])
        await stage.until_empty()


@pytest.mark.parametrize(
    "verdict", [Accepted("p-\x00"), Refused("no \x00"), Accepted("p-\ud800"), Refused("no \udfff")]
)
async def test_an_unstorable_result_text_fails_its_delivery_alone(stage: Stage, verdict: Accepted | Refused) -> None:
    stage.sms.answer = lambda envelope: verdict if envelope.parts["body"] == "strange" else Accepted("p")
    ids = await stage.write(1, body="strange")
    others = await stage.write(3)
    async with stage.playing() as running:
        await stage.until_all(others, "sent")
        await stage.until_all(ids, "sent" if isinstance(verdict, Accepted) else "failed")
        assert not running.done()


async def test_an_unstorable_template_fault_fails_its_delivery_alone(stage: Stage) -> None:
    bomb = '{% assign name = \\"%00\\" | url_decode %}{% include name %}'
    ids = await stage.write(1, body=bomb)
    others = await stage.write(3)
    async with stage.playing() as running:
        await until(lambda: running.done() or len(stage.sms.given) == 3, "the others were called")
        await stage.until_all(others, "sent")
        await stage.until_all(ids, "failed")
        assert not running.done()
