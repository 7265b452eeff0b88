"""The claim: who may, what it takes, in which order, and what it leaves to others."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatcher.engine.rules.life import Again, Lane
from dispatcher.engine.store import claims
from dispatcher.features.deliveries.store import New, insert
from tests.support.scene import RESEND, Connection, Scene
from tests.support.waits import until_blocked


def _new(key: str, seconds_ago: float, **fields: Any) -> New:
    due = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    return New(
        idempotency_key=key,
        channel="sms",
        recipient="+4917012345",
        template='{"body": "x"}',
        scheduled_for=due,
        **fields,
    )


async def test_a_claim_takes_the_longest_due_first(scene: Scene) -> None:
    await insert(scene.database, [_new(f"k{age}", age) for age in (10, 50, 30, 20, 40)])
    assert {item.idempotency_key for item in await scene.claim(2)} == {"k50", "k40"}
    assert {item.idempotency_key for item in await scene.claim(2)} == {"k30", "k20"}


async def test_a_claim_hands_over_in_the_order_of_due_times(scene: Scene) -> None:
    await insert(scene.database, [_new(f"k{age}", age) for age in (10, 50, 30, 20, 40)])
    assert [item.idempotency_key for item in await scene.claim()] == ["k50", "k40", "k30", "k20", "k10"]


async def test_a_claim_takes_no_more_than_it_was_asked_for(scene: Scene) -> None:
    await scene.write(5)
    assert [len(await scene.claim(2)) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_claim_takes_nothing_of_another_lane_or_channel(scene: Scene) -> None:
    await scene.write(1, lane=Lane.BULK)
    await scene.write(1, channel="email")
    assert await scene.claim() == []
    assert len(await scene.claim(lane=Lane.BULK)) == 1
    assert len(await scene.claim(channel="email")) == 1


async def test_a_claim_takes_nothing_before_its_time(scene: Scene) -> None:
    await insert(scene.database, [_new("later", -3_600)])
    assert await scene.claim() == []
    found, _ = await claims.due(scene.database, [("sms", Lane.NORMAL)])
    assert [one.due for one in found] == [False]


async def test_two_claims_at_once_share_nothing(scene: Scene) -> None:
    ids = await scene.write(200)
    rival = await Scene.open(scene.database)
    taken = await asyncio.gather(*(one.claim(40) for one in (scene, rival) for _ in range(5)))
    got = [item.id for batch in taken for item in batch]
    assert len(got) == len(set(got))
    assert set(got) <= set(ids)


async def test_a_claim_skips_locked_rows(scene: Scene, connection: Connection) -> None:
    held, free = await scene.write(2)
    async with connection.transaction():
        await connection.execute("SELECT FROM dispatcher.delivery_state WHERE id = $1 FOR UPDATE", held)
        async with asyncio.timeout(10):
            assert [item.id for item in await scene.claim()] == [free]


async def test_a_fenced_instance_cannot_claim(scene: Scene) -> None:
    (waiting,) = await scene.write(1)
    assert await scene.fence()
    assert await scene.claim() == []
    assert await scene.life(waiting) == "pending"


async def test_a_claim_that_waited_for_its_own_fence_takes_nothing(scene: Scene, connection: Connection) -> None:
    """Else it would commit behind the back of the recovery that the fence makes way for."""
    (waiting,) = await scene.write(1)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("DELETE FROM dispatcher.instances WHERE epoch = $1", scene.epoch)
    claiming = asyncio.create_task(scene.claim())
    await until_blocked(connection)
    await transaction.commit()
    assert await claiming == []
    assert await scene.life(waiting) == "pending"


async def test_a_claim_is_noted_with_its_owner_and_its_ids(scene: Scene) -> None:
    ids = await scene.write(3)
    items = await scene.claim(resend=RESEND)
    (noted,) = await scene.database.fetch("SELECT * FROM dispatcher.claims")
    assert (noted["token"], noted["epoch"], noted["resend_by"]) == (items[0].token, scene.epoch, "at_least_once")
    assert sorted(noted["ids"]) == ids


async def test_a_claim_that_takes_nothing_notes_nothing(scene: Scene) -> None:
    await scene.claim()
    assert await scene.value("SELECT count(*) FROM dispatcher.claims") == 0


async def test_a_token_names_one_claim(scene: Scene) -> None:
    issued = {scene.tokens.issue() for _ in range(1_000)}
    assert len(issued) == 1_000
    assert {token >> scene.tokens.COUNTER_BITS for token in issued} == {scene.epoch}
    assert max(issued) < 1 << 63


async def test_a_claim_carries_what_was_written(scene: Scene) -> None:
    await insert(
        scene.database,
        [
            New(
                idempotency_key="whole",
                channel="sms",
                recipient="ann",
                template='{"body": "{{ x }}"}',
                variables='{"x": 1}',
                options='{"from": "us"}',
                tenant_id="t",
                workspace_id="w",
                max_attempts=3,
            )
        ],
    )
    (item,) = await scene.claim()
    assert (item.tenant_id, item.workspace_id, item.idempotency_key) == ("t", "w", "whole")
    assert (item.recipient, item.template, item.variables) == ("ann", '{"body": "{{ x }}"}', '{"x": 1}')
    assert (item.options, item.used, item.max_attempts, item.expired) == ('{"from": "us"}', 0, 3, False)


async def test_a_claim_names_expired_deliveries(scene: Scene) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    await insert(scene.database, [_new("past", 5, expires_at=past), _new("fresh", 5)])
    assert {item.idempotency_key: item.expired for item in await scene.claim()} == {"past": True, "fresh": False}


async def test_a_claim_counts_the_attempts_that_were_used(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Again(0.0, "busy")))
    await scene.due_now()
    (again,) = await scene.claim()
    assert again.used == 1


async def test_a_lost_claim_is_forgotten_and_can_be_claimed_again(scene: Scene) -> None:
    """The answer to a claim was lost: nothing of it is known to its owner, so nothing of it was marked."""
    (waiting,) = await scene.write(1)
    token = scene.tokens.issue()
    await scene.claim_as(token)
    assert await claims.older_than(scene.database, scene.epoch, 0.0) == [token]
    assert await claims.forget(scene.database, scene.epoch, token) == 1
    assert await scene.life(waiting) == "pending"
    assert (await scene.row(waiting))["attempt"] == 0
    assert await claims.older_than(scene.database, scene.epoch, 0.0) == []


async def test_marked_deliveries_are_never_claimed_again(scene: Scene) -> None:
    (item,) = await scene.marked()
    assert await claims.forget(scene.database, scene.epoch, item.token) == 0
    assert await scene.life(item.id) == "sending"


async def test_a_claim_of_another_epoch_is_not_ours_to_forget(scene: Scene) -> None:
    (waiting,) = await scene.write(1)
    rival = await Scene.open(scene.database)
    (item,) = await rival.claim()
    assert await claims.forget(scene.database, scene.epoch, item.token) == 0
    assert await scene.life(waiting) == "claimed"


async def test_spent_claims_go_and_others_stay(scene: Scene) -> None:
    await scene.write(1)
    (ended,) = await scene.claim()
    await scene.write(1)
    (open_,) = await scene.claim()
    await scene.value("SELECT dispatcher.cancel_delivery_by_id($1, 'me', 'done with it')", ended.id)
    await claims.drop_spent(scene.database, 100, 0.0)
    assert [found["token"] for found in await scene.database.fetch("SELECT token FROM dispatcher.claims")] == [
        open_.token
    ]


async def test_depth_is_counted_to_its_bound(scene: Scene) -> None:
    await scene.write(7)
    (found,) = await claims.depth(scene.database, [("sms", Lane.NORMAL)], 5)
    assert (found.deliveries, found.age_seconds >= 0) == (5, True)


@pytest.mark.parametrize(
    ("scheduled_for", "due"),
    [("-infinity", True), ("0044-03-15 BC", True), ("20000-01-01", False), ("infinity", False)],
)
async def test_a_lane_says_how_long_it_waits_whatever_its_times(scene: Scene, scheduled_for: str, due: bool) -> None:
    await scene.value(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
           VALUES ('k', 'sms', '+49', '{"body": "x"}', $1::text::timestamptz)""",
        scheduled_for,
    )
    lane = [("sms", Lane.NORMAL)]
    ((first,), _) = await claims.due(scene.database, lane)
    (all_,) = await claims.depth(scene.database, lane, 5)
    assert (first.due, first.wait_seconds < 0) == (due, due)
    assert (all_.deliveries, all_.age_seconds > 0, math.isfinite(all_.age_seconds)) == (1, due, True)


@pytest.mark.parametrize("scheduled_for", ["'-infinity'", "'0044-03-15 BC'", "now() - interval '1 day'", "now()"])
async def test_a_delivery_is_dated_alike_by_every_claim_whatever_its_times(
    scene: Scene, connection: Connection, scheduled_for: str
) -> None:
    (made,) = await connection.fetch(
        "INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)"
        f" VALUES ('k', 'sms', '+49', '{{\"body\": \"x\"}}', {scheduled_for}) RETURNING id, created_at"
    )
    (first,) = await scene.claim()
    assert first.id == made["id"]
    assert abs(first.dated - made["created_at"].timestamp()) <= 1
    await connection.execute("UPDATE dispatcher.delivery_state SET ready = true, token = NULL, recoveries = 2")
    (again,) = await scene.claim_recovered()
    assert again.dated == first.dated
