"""Expansion: a job becomes all of its deliveries or none, counts its attempts, and stops no other job."""

import asyncio

import pytest

from dispatcher.db.database import Database
from tests.features.campaigns.stage import Stage
from tests.support.scene import Connection, Scene
from tests.support.waits import until_blocked

KEY = "dispatcher.campaign_key(r.id, c.id::text, r.template_version, r.scheduled_for)"
# A row of an application's that has the key of the first contact's delivery.
SQUAT = f"""
INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
SELECT {KEY}, 'sms', '+4917099999999', '{{"body": "x"}}'
  FROM dispatcher.campaign_runs r, LATERAL (SELECT min(id) AS id FROM dispatcher.contacts) AS c RETURNING id
"""
# What an application may have put on our table: it stops the deliveries of one contact.
POISON = """
CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {raises}; END $$;
CREATE TRIGGER no BEFORE INSERT ON dispatcher.deliveries FOR EACH ROW
    WHEN (NEW.contact_id = {contact}) EXECUTE FUNCTION public.no()
"""


async def test_a_job_has_all_of_its_deliveries_or_none(campaigns: Stage, database: Database) -> None:
    run_id = await campaigns.deployed(3)
    job_id = await campaigns.lock()
    assert job_id is not None
    async with database.transaction() as connection:
        assert await connection.fetchval("SELECT dispatcher.expand_job($1, $2)", job_id, campaigns.scene.epoch) == 3
        assert await campaigns.ids(run_id) == []
    assert await campaigns.items(run_id) == {"queued": 3}
    assert await campaigns.expand(job_id) is None
    assert len(await campaigns.ids(run_id)) == 3


async def test_an_epoch_that_was_fenced_expands_nothing(campaigns: Stage) -> None:
    run_id = await campaigns.deployed(3)
    job_id = await campaigns.lock()
    assert job_id is not None
    assert await campaigns.scene.fence()
    assert await campaigns.expand(job_id) is None
    assert await campaigns.lock() is None
    assert await campaigns.ids(run_id) == []


async def test_a_job_that_was_taken_back_is_not_expanded_by_its_first_owner(campaigns: Stage) -> None:
    run_id = await campaigns.deployed(3)
    job_id = await campaigns.lock()
    assert job_id is not None
    first = campaigns.scene
    assert await first.fence()
    campaigns.scene = await Scene.open(campaigns.database)
    assert await campaigns.take_back() == (1, 0)
    assert await campaigns.lock() == job_id
    assert await campaigns.value("SELECT dispatcher.expand_job($1, $2)", job_id, first.epoch) is None
    assert await campaigns.expand(job_id) == 3
    assert len(await campaigns.ids(run_id)) == 3
    assert [job["attempts"] for job in await campaigns.jobs(run_id)] == [2]


async def test_a_live_owners_job_is_not_taken_back(campaigns: Stage) -> None:
    await campaigns.deployed(3)
    assert await campaigns.lock() is not None
    assert await campaigns.take_back() == (0, 0)


async def test_a_job_is_dead_after_three_attempts(campaigns: Stage) -> None:
    run_id = await campaigns.deployed(3)
    became = []
    for _ in range(3):
        assert await campaigns.lock() is not None
        assert await campaigns.scene.fence()
        campaigns.scene = await Scene.open(campaigns.database)
        became.append(await campaigns.take_back())
    assert became == [(1, 0), (1, 0), (0, 1)]
    await campaigns.close()
    assert await campaigns.items(run_id) == {"failed: job dead: its worker died": 3}
    (job,) = await campaigns.jobs(run_id)
    assert (job["status"], job["attempts"], job["failed"], job["error"]) == ("dead", 3, 3, "its worker died")
    assert (await campaigns.run(run_id))["status"] == "failed"
    assert await campaigns.transitions(run_id, of_jobs=True) == [
        (None, "queued"),
        *[("queued", "locked"), ("locked", "queued")] * 2,
        ("queued", "locked"),
        ("locked", "dead"),
    ]
    await campaigns.sound()


async def test_what_an_end_frees_was_no_attempt(campaigns: Stage) -> None:
    run_id = await campaigns.deployed(3)
    for _ in range(5):
        assert await campaigns.lock() is not None
        assert await campaigns.value("SELECT dispatcher.release_jobs($1)", campaigns.scene.epoch) == 1
    assert [(job["status"], job["attempts"], job["locked_by"]) for job in await campaigns.jobs(run_id)] == [
        ("queued", 0, None)
    ]


async def test_a_run_is_expanded_just_in_time(campaigns: Stage) -> None:
    run_id = await campaigns.deployed(50, 10)
    assert await campaigns.expand_all(15) == 2
    assert len(await campaigns.ids(run_id)) == 20
    assert await campaigns.send() == 20
    # Nothing is counted before the closer has looked.
    assert await campaigns.expand_all(15) == 0
    await campaigns.close()
    assert await campaigns.expand_all(15) == 2


async def test_held_ones_take_no_room(campaigns: Stage) -> None:
    await campaigns.deployed(30, 10)
    assert await campaigns.expand_all(10) == 1
    await campaigns.marked()
    await campaigns.die()
    await campaigns.close()
    assert await campaigns.expand_all(10) == 1


async def test_the_smallest_run_goes_first(campaigns: Stage) -> None:
    large = await campaigns.deployed(40, 10)
    assert await campaigns.expand_all(10) == 1
    small = await campaigns.deployed(10, 10)
    assert await campaigns.lock() == (await campaigns.jobs(small))[0]["id"]
    assert await campaigns.statuses(large) == ("running", ["locked", "queued", "queued", "queued"])


# Keys that somebody else has


@pytest.mark.parametrize("beside", [False, True])
async def test_a_key_that_somebody_else_has_is_skipped(
    campaigns: Stage, connection: Connection, *, beside: bool
) -> None:
    run_id = await campaigns.deployed(3)
    job_id = await campaigns.lock()
    assert job_id is not None
    transaction = connection.transaction()
    await transaction.start()
    taken = await connection.fetchval(SQUAT)
    if not beside:
        await transaction.commit()
    expanding = asyncio.create_task(campaigns.expand(job_id))
    if beside:
        await until_blocked(connection)
        await transaction.commit()
    assert await expanding == 3
    duplicate = f"skipped: duplicate: delivery {taken} has its key"
    assert await campaigns.items(run_id) == {"queued": 2, duplicate: 1}
    assert await campaigns.send() == 2
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("completed", ["completed"])
    assert (await campaigns.run(run_id))["skipped"] == 1
    await campaigns.sound()


# Poison


@pytest.mark.parametrize("raises", ["RAISE EXCEPTION 'no'", "RAISE division_by_zero"])
async def test_a_job_that_cannot_even_be_buried_is_put_off(campaigns: Stage, raises: str) -> None:
    status, ids = await campaigns.people(2)
    run_id = await campaigns.deploy(status)
    async with campaigns.database.session() as session:
        await session.execute(POISON.format(raises=raises, contact=ids[0]))
    fail = "SELECT dispatcher.fail_job($1, $2, 'poison', 0)"
    became = []
    for _ in range(4):
        await campaigns.database.fetch("UPDATE dispatcher.job_queue SET available_at = now()")
        job_id = await campaigns.lock()
        assert job_id is not None
        became.append(await campaigns.value(fail, job_id, campaigns.scene.epoch))
    assert became == ["queued", "queued", "queued", "queued"]
    (job,) = await campaigns.jobs(run_id)
    assert (job["status"], job["attempts"]) == ("queued", 4)
    assert "cannot be given up" in job["error"]
    # Once it can be, it is.
    async with campaigns.database.session() as session:
        await session.execute("DROP TRIGGER no ON dispatcher.deliveries")
    await campaigns.database.fetch("UPDATE dispatcher.job_queue SET available_at = now()")
    assert await campaigns.value(fail, await campaigns.lock(), campaigns.scene.epoch) == "dead"
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("failed", ["dead"])
    await campaigns.sound()
