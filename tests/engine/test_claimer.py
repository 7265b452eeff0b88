"""The claimer: takes what there is room for, the smaller lane first, and sleeps only when there is nothing to do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from dispatcher.base.clock import Clock
from dispatcher.base.errors import Fenced
from dispatcher.base.values.addresses import Address
from dispatcher.config.settings import Channel, Claim
from dispatcher.engine.claimer import LOOK_SECONDS, claimers
from dispatcher.engine.rules.life import Claimed, Lane
from dispatcher.engine.rules.pauses import Pauses
from dispatcher.features.suppressions import store as suppressions
from dispatcher.features.suppressions.store import Entry
from tests.engine.stage import CONFIG, Stage, channel
from tests.engine.troubled import Troubled
from tests.support import pauses
from tests.support.metering import sample
from tests.support.waits import until

# Long enough for a second and a half of waiting, and short against the poll.
SOON_SECONDS = 4.0
PATIENT = Claim(poll_seconds=600.0, poll_jitter=0.0)


class Claims:
    """Both claimers on a stage, what they took, and a clock that stands still unless it is moved."""

    def __init__(self, stage: Stage, settings: Claim = PATIENT) -> None:
        self.now = 1_000.0
        self.taken: list[Claimed] = []
        self.lanes = stage.pipeline.lanes
        self.epoch = replace(stage.pipeline.epoch, clock=Clock(monotonic=lambda: self.now))
        self.urgent, self.others = claimers(self.epoch, settings, stage.woken, self.taken.extend)

    async def round(self, seconds_later: float = 1.0) -> float:
        """One round of each; the clock moves first. It returns the shorter of what they would sleep."""
        self.now += seconds_later
        return min(await self.urgent.run_once(), await self.others.run_once())

    async def rest(self) -> None:
        """Rounds until it would sleep until the next poll."""
        for _ in range(20):
            if await self.round() == PATIENT.poll_seconds:
                return
        raise AssertionError("it finds no rest")


@pytest.fixture
async def claims(stage: Stage) -> Claims:
    """A claimer whose epoch is durable."""
    await stage.join()
    return Claims(stage)


async def test_a_claim_takes_no_more_than_the_room(stage: Stage, claims: Claims) -> None:
    lane = claims.lanes["sms", Lane.NORMAL]
    lane.capacity = 7
    await stage.write(20)
    await claims.round()
    assert (len(claims.taken), lane.outstanding, lane.room()) == (7, 7, 0)
    await claims.round()
    assert len(claims.taken) == 7


async def test_a_claim_takes_no_more_than_a_batch(stage: Stage, claims: Claims) -> None:
    claims.others.settings = Claim(batch_max=5)
    await stage.write(12)
    await claims.round()
    assert len(claims.taken) == 5


async def test_a_claim_takes_no_more_than_the_bucket_can_use_soon(troubled: Troubled) -> None:
    stage = Stage(troubled, channel(rate_per_second=10.0, rate_burst=5.0))
    await stage.join()
    stage.pipeline.epoch.shares.see(stage.pipeline.epoch.clock.monotonic(), 1)
    claims = Claims(stage)
    await stage.write(100)
    await claims.round()
    assert 10 <= len(claims.taken) <= 15
    await claims.round()
    assert len(claims.taken) <= 15


async def test_without_a_share_of_a_limit_nothing_is_claimed(troubled: Troubled) -> None:
    stage = Stage(troubled, channel(rate_per_second=10.0))
    await stage.join()
    await stage.write(3)
    claims = Claims(stage)
    await claims.round()
    assert claims.taken == []


async def test_a_full_claim_is_followed_by_another_at_once(stage: Stage, claims: Claims) -> None:
    claims.others.settings = Claim(batch_max=10)
    await stage.write(25)
    for expected, is_more in ((10, True), (20, True), (25, False)):
        wait = await claims.round(seconds_later=LOOK_SECONDS / 100)
        assert (len(claims.taken), wait == 0.0) == (expected, is_more)


async def test_the_smaller_lane_is_claimed_first(stage: Stage, claims: Claims) -> None:
    for lane in reversed(Lane):
        await stage.write(2, lane=lane)
    await claims.round()
    assert [item.lane for item in claims.taken] == sorted(item.lane for item in claims.taken)
    assert len(claims.taken) == 6


@asynccontextmanager
async def _claiming_bulk(stage: Stage, claims: Claims) -> AsyncIterator[None]:
    """A claim of a bulk delivery that Postgres has not answered; at the end of the block it does."""
    claiming = stage.database.hold_answers("claims.claim")
    await stage.write(1, lane=Lane.BULK)
    async with asyncio.TaskGroup() as rounds:
        rounds.create_task(claims.others.run_once())
        await claiming.met.wait()
        yield
        claiming.gate.set()


async def test_a_transactional_delivery_does_not_wait_for_a_bulk_claim(stage: Stage, claims: Claims) -> None:
    async with _claiming_bulk(stage, claims):
        await stage.write(1, lane=Lane.TRANSACTIONAL)
        await claims.urgent.run_once()
        assert [item.lane for item in claims.taken] == [Lane.TRANSACTIONAL]
    assert [item.lane for item in claims.taken] == [Lane.TRANSACTIONAL, Lane.BULK]
    assert len({item.token for item in claims.taken}) == len(claims.epoch.tokens.open) == 2


async def test_a_claim_under_way_outlives_a_stop(stage: Stage, claims: Claims) -> None:
    async with _claiming_bulk(stage, claims):
        claims.others.stop()
    assert [item.lane for item in claims.taken] == [Lane.BULK]


async def test_a_named_lane_is_claimed_from_without_a_look(stage: Stage, claims: Claims) -> None:
    await claims.rest()
    await stage.write(1, lane=Lane.TRANSACTIONAL)
    stage.woken.name("sms")
    looks = stage.database.hold_answers("claims.due")
    async with asyncio.TaskGroup() as rounds:
        rounds.create_task(claims.urgent.run_once())
        await looks.met.wait()
        assert len(claims.taken) == 1
        looks.gate.set()


async def test_a_poll_finds_a_transactional_delivery_that_nobody_has_named(stage: Stage, claims: Claims) -> None:
    await claims.rest()
    await stage.write(1, lane=Lane.TRANSACTIONAL)
    stage.woken.urgent.clear()
    await claims.others.run_once()
    assert stage.woken.urgent.is_set()
    await claims.urgent.run_once()
    assert [item.lane for item in claims.taken] == [Lane.TRANSACTIONAL]


async def test_a_full_lane_keeps_no_other_from_being_claimed(stage: Stage, claims: Claims) -> None:
    claims.lanes["sms", Lane.TRANSACTIONAL].outstanding = claims.lanes["sms", Lane.TRANSACTIONAL].capacity
    await claims.round()
    await stage.write(3, lane=Lane.BULK)
    await claims.round()
    assert [item.lane for item in claims.taken] == [Lane.BULK] * 3


async def test_a_woken_claimer_claims_although_it_has_just_claimed(stage: Stage, claims: Claims) -> None:
    """A wake-up right after a look, while some lane is full: the insert behind it must not wait for the next poll."""
    claims.lanes["sms", Lane.BULK].outstanding = claims.lanes["sms", Lane.BULK].capacity
    await claims.rest()
    await stage.write(1)
    wait = await claims.round(seconds_later=LOOK_SECONDS / 2)
    assert claims.taken or wait <= LOOK_SECONDS, f"it goes to sleep for {wait} s with one due"


@pytest.mark.parametrize("lane", Lane)
async def test_it_sleeps_no_longer_than_until_the_next_is_due(stage: Stage, claims: Claims, lane: Lane) -> None:
    await claims.rest()
    await stage.write(1, lane=lane, scheduled_for=datetime.now(UTC) + timedelta(seconds=30))
    assert 20 < await claims.others.run_once() <= 30, "it polls for both"
    assert 20 < await claims.round() <= 30


async def test_a_paused_channel_is_not_claimed(stage: Stage, claims: Claims) -> None:
    stage.controls.pauses = Pauses(channels={"sms": 1})
    await stage.write(2)
    await claims.round()
    assert claims.taken == []
    stage.controls.pauses = Pauses()
    await claims.round()
    assert len(claims.taken) == 2


@pytest.mark.parametrize(
    ("lane", "wanted", "unmoved"),
    [(Lane.TRANSACTIONAL, "wants_urgent", "wants_notify"), (Lane.BULK, "wants_notify", "wants_urgent")],
)
async def test_inserts_notify_only_while_their_lanes_rest(
    stage: Stage, claims: Claims, lane: Lane, wanted: str, unmoved: str
) -> None:
    asked = f"SELECT ARRAY[{wanted}, {unmoved}] FROM dispatcher.instances"
    for claimer in (claims.urgent, claims.others):
        claimer.settings = replace(PATIENT, batch_max=1)
    await stage.write(4, lane=lane)
    for _ in range(4):
        await claims.round(seconds_later=0.2)
    assert await stage.database.value(asked) == [False, True]
    await claims.rest()
    assert await stage.database.value(asked) == [True, True]


async def test_a_lost_claim_uses_no_room(stage: Stage, claims: Claims) -> None:
    await stage.write(3)
    stage.database.lose_answers("claims.claim")
    with pytest.raises(ConnectionError):
        await claims.round()
    assert stage.accounts() == (0, 0, 0, 0)
    assert set(await stage.lives([1, 2, 3])) == {"claimed"}


async def test_a_token_is_never_issued_again(stage: Stage, claims: Claims) -> None:
    claims.epoch.tokens._count = (1 << claims.epoch.tokens.COUNTER_BITS) - 1
    await stage.write(1)
    with pytest.raises(Fenced):
        await claims.round()


async def test_a_recovered_delivery_takes_no_token_when_all_were_used(stage: Stage, claims: Claims) -> None:
    claims.epoch.tokens._count = (1 << claims.epoch.tokens.COUNTER_BITS) - 1
    await stage.write(1)
    await stage.database.fetch("UPDATE dispatcher.delivery_state SET recoveries = 2")
    with pytest.raises(Fenced):
        await claims.round()


async def test_those_whose_owners_died_often_are_claimed_alone(stage: Stage, claims: Claims) -> None:
    ids = await stage.write(6)
    for deaths, some in ((2, ids[:2]), (3, ids[2:4])):
        deaths_of = "UPDATE dispatcher.delivery_state SET recoveries = $1 WHERE id = ANY ($2)"
        await stage.database.fetch(deaths_of, deaths, some)
    await claims.round()
    assert sorted(item.id for item in claims.taken) == [ids[0], ids[1], ids[2], ids[4], ids[5]]
    apart = {item.id: item.token for item in claims.taken}
    assert apart[ids[0]] == apart[ids[1]] != apart[ids[2]] != apart[ids[4]]
    await claims.round()
    assert len(claims.taken) == 5, "the next one waits for the end of the first"
    claims.epoch.tokens.close([apart[ids[2]]])
    await claims.round()
    assert claims.taken[-1].id == ids[3]


async def test_one_of_several_that_are_claimed_alone_does_not_wait_for_the_poll(stage: Stage, claims: Claims) -> None:
    await claims.rest()
    ids = await stage.write(2)
    await stage.database.fetch("UPDATE dispatcher.delivery_state SET recoveries = 3")
    assert await claims.round(PATIENT.poll_seconds) == 0.0
    assert len(claims.taken) == 1
    assert await claims.round() < 1.0, "the first may have ended by then"
    claims.epoch.tokens.close([claims.taken[0].token])
    await claims.round()
    assert sorted(item.id for item in claims.taken) == ids


async def test_a_resumed_channel_does_not_wait_for_the_poll(troubled: Troubled) -> None:
    stage = Stage(troubled, replace(CONFIG, claim=PATIENT))
    await pauses.pause(troubled, "channel", "sms", "test", "test")
    await stage.controls.run_once()
    async with stage.playing():
        ids = await stage.write(1)
        await until(lambda: troubled.count("claims.due") >= 4, "it has settled")
        await pauses.resume(troubled, "channel", "sms", "test")
        await stage.controls.run_once()
        await until(lambda: stage.sms.ids() == ids, "it goes out", SOON_SECONDS)


async def test_a_lane_that_waited_for_its_bucket_does_not_wait_for_the_poll(troubled: Troubled) -> None:
    config = replace(CONFIG, claim=PATIENT, channels={"sms": Channel(rate_per_second=100.0, rate_burst=10.0)})
    stage = Stage(troubled, config)
    stage.terms["sms"].rates.close(stage.pipeline.epoch.clock.monotonic(), 1.5)
    async with stage.playing():
        ids = await stage.write(1)
        await until(lambda: stage.sms.ids() == ids, "it goes out when the bucket opens", SOON_SECONDS)


async def test_a_fenced_instance_claims_nothing_although_its_row_exists(stage: Stage, claims: Claims) -> None:
    """As after a failover: the other server may have the row, and not what was marked under it."""
    (one,) = await stage.write(1)
    claims.epoch.fenced.set()
    with pytest.raises(Fenced):
        await claims.round()
    assert await stage.lives([one]) == ["pending"]


async def test_deliveries_suppressed_at_their_claim_are_settled_and_free_their_slots(stage: Stage) -> None:
    """It never reaches the renderer, and the claim's accounts are even afterwards."""
    gone = Entry(Address("phone", "+4917000000"), "complaint", "spam")
    await suppressions.add(stage.database, "default", "ann", [gone])
    barred = await stage.write(2, recipient="+49 170 00000")
    fine = await stage.write(2)
    async with stage.playing():
        await stage.until_all(fine, "sent")
        await stage.until_all(barred, "skipped")
        await stage.until_empty()
    assert sorted(stage.sms.ids()) == sorted(fine)
    assert (await stage.row(barred[0]))["error"] == "suppressed: complaint: spam"
    assert sample(stage.metrics.barred.labels("sms")) == 2
    await stage.sound()
