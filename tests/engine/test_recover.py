"""Recovery: what becomes of a dead owner's claims, whoever it was and however often."""

import asyncio

import pytest

from dispatcher.engine.rules.life import POISON_STEPS, Again, Back, PoisonStep, Succeeded
from dispatcher.engine.store import claims, instances
from tests.support.scene import RESEND, Scene


async def test_unmarked_deliveries_are_ready_again_without_an_attempt(scene: Scene) -> None:
    ids = await scene.write(3)
    await scene.claim()
    assert await scene.die() == instances.Recovered(claims=1, requeued=3, retried=0, held=0, poisoned=0)
    assert await scene.lives(ids) == ["pending"] * 3
    assert (await scene.row(ids[0]))["attempt"] == 0


async def test_marked_deliveries_are_held(scene: Scene) -> None:
    (item,) = await scene.marked()
    assert await scene.die() == instances.Recovered(claims=1, requeued=0, retried=0, held=1, poisoned=0)
    assert await scene.life(item.id) == "held"
    assert (await scene.row(item.id))["error"].startswith("unknown:")


async def test_marked_deliveries_are_retried_where_the_claim_allows(scene: Scene) -> None:
    (item,) = await scene.marked(resend=RESEND)
    assert await scene.die() == instances.Recovered(claims=1, requeued=0, retried=1, held=0, poisoned=0)
    assert await scene.life(item.id) == "pending"
    (kept,) = await scene.database.fetch("SELECT * FROM dispatcher.delivery_attempts")
    assert (kept["attempt"], kept["outcome"], kept["token"]) == (1, "unknown", item.token)
    rival = await Scene.open(scene.database)
    (again,) = await rival.claim()
    assert (again.used, again.idempotency_key) == (1, item.idempotency_key)


async def test_a_last_attempt_without_an_answer_is_held_and_not_retried(scene: Scene) -> None:
    (item,) = await scene.marked(resend=RESEND, max_attempts=1)
    assert (await scene.die()).held == 1
    assert await scene.life(item.id) == "held"


async def test_ended_deliveries_are_not_recovered(scene: Scene) -> None:
    items = await scene.marked(2)
    await scene.flush((items[0], Succeeded("m-1")))
    assert (await scene.die()).held == 1
    assert await scene.lives([item.id for item in items]) == ["sent", "held"]


async def test_a_live_owners_claims_are_not_touched(scene: Scene) -> None:
    (item,) = await scene.marked()
    assert (await instances.recover(scene.database, 100)).claims == 0
    assert await scene.life(item.id) == "sending"


async def test_claims_of_every_missing_epoch_are_recovered_and_not_only_of_the_last_one(scene: Scene) -> None:
    """A claim that committed while its owner was being fenced is found by whoever recovers next."""
    first, second = await Scene.open(scene.database), await Scene.open(scene.database)
    ids = await scene.write(2)
    await first.claim(1)
    await second.claim(1)
    await first.fence()
    await second.fence()
    assert (await instances.recover(scene.database, 100)).requeued == 2
    assert await scene.lives(ids) == ["pending", "pending"]


async def test_recovery_is_done_once(scene: Scene) -> None:
    await scene.marked(3)
    await scene.die()
    assert await instances.recover(scene.database, 100) == instances.Recovered(0, 0, 0, 0, 0)


async def test_two_that_recover_at_once_share_the_work(scene: Scene) -> None:
    for _ in range(20):
        await scene.marked(2)
    await scene.fence()
    pages = await asyncio.gather(*(instances.recover(scene.database, 100) for _ in range(4)))
    await instances.recover(scene.database, 100)
    assert sum(page.held for page in pages) == 40


async def test_recovery_goes_in_pages(scene: Scene) -> None:
    for _ in range(5):
        await scene.write(1)
        await scene.claim(1)
    await scene.fence()
    assert [(await instances.recover(scene.database, 2)).claims for _ in range(4)] == [2, 2, 1, 0]


async def test_fencing_twice_is_done_once(scene: Scene) -> None:
    assert await scene.fence() is True
    assert await scene.fence() is False
    assert not await instances.beat(scene.database, scene.epoch, "")


async def test_a_heartbeat_moves_its_counter(scene: Scene) -> None:
    before = {one.epoch: one.beat for one in await instances.beats(scene.database)}
    assert await instances.beat(scene.database, scene.epoch, "")
    after = {one.epoch: one.beat for one in await instances.beats(scene.database)}
    assert after[scene.epoch] == before[scene.epoch] + 1


async def test_a_flush_that_recovery_overtook_is_fenced(scene: Scene) -> None:
    (item,) = await scene.marked(resend=RESEND)
    await scene.die()
    assert len(await scene.flush((item, Again(0.0, "busy")))) == 1
    assert (await scene.row(item.id))["attempt"] == 1


async def test_a_flush_that_overtook_recovery_counts(scene: Scene) -> None:
    """Fenced and not yet recovered: the result is known, so nothing needs to be held."""
    (item,) = await scene.marked()
    await scene.fence()
    assert await scene.flush((item, Succeeded("m-1"))) == []
    assert (await instances.recover(scene.database, 100)).held == 0
    assert await scene.life(item.id) == "sent"


async def _kill_alone(scene: Scene, times: int) -> int:
    """A delivery whose owners died so often."""
    (poison,) = await scene.write(1)
    for _ in range(times):
        owner = await Scene.open(scene.database)
        taken = [await owner.claim(1), *[await owner.claim_recovered(one) for one in POISON_STEPS]]
        assert [item.id for batch in taken for item in batch] == [poison]
        await owner.die()
    return poison


FEW, ALONE = POISON_STEPS


@pytest.mark.parametrize(("deaths", "step"), [(2, FEW), (3, ALONE), (5, ALONE)])
async def test_deliveries_recovered_twice_are_claimed_apart(scene: Scene, deaths: int, step: PoisonStep) -> None:
    recovered = await _kill_alone(scene, deaths)
    others = await scene.write(3)
    asked = [(channel, one) for channel in ("email", "sms") for one in POISON_STEPS]
    assert sorted(item.id for item in await scene.claim()) == others
    assert await claims.recovered_due(scene.database, asked) == [("sms", step)]
    assert [item.id for item in await scene.claim_recovered(step)] == [recovered]
    assert await claims.recovered_due(scene.database, asked) == []


async def test_a_claim_of_recovered_deliveries_is_bounded_by_its_step(scene: Scene) -> None:
    ids = await scene.write(FEW.count_max + 1)
    await scene.database.fetch("UPDATE dispatcher.delivery_state SET recoveries = 2")
    assert [item.id for item in await scene.claim_recovered(FEW)] == ids[:-1]
    await scene.database.fetch("UPDATE dispatcher.delivery_state SET recoveries = 3, ready = true, token = NULL")
    assert await scene.claim_recovered(FEW) == []
    taken = [[item.id for item in await scene.claim_recovered(ALONE)] for _ in ids]
    assert taken == [[one] for one in ids]


async def test_a_delivery_that_kills_its_owners_alone_fails_as_poison(scene: Scene) -> None:
    poison = await _kill_alone(scene, 6)
    row = await scene.row(poison)
    assert row["status"] == "failed"
    assert row["error"].startswith("poison")


async def test_a_fenced_instance_cannot_claim_what_was_recovered(scene: Scene) -> None:
    recovered = await _kill_alone(scene, 2)
    await scene.fence()
    assert await scene.claim_recovered() == []
    assert await scene.life(recovered) == "pending"


async def test_only_deaths_count_as_recoveries(scene: Scene) -> None:
    """Coming back by its owner's own word says nothing against a delivery."""
    (waiting,) = await scene.write(1)
    for _ in range(5):
        (item,) = await scene.claim()
        await scene.flush((item, Back(0.0, "draining")))
        await scene.due_now()
    assert (await scene.row(waiting))["recoveries"] == 0
