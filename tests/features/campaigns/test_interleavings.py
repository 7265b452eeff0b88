"""Interleavings: sessions that meet on one run, in the order that a test gives them."""

import asyncio

import pytest

from dispatcher.engine.rules.life import Claimed
from tests.features.campaigns.stage import (
    ACCEPTED,
    CANCEL,
    PAUSE,
    RATE,
    REPLAY,
    RESUME,
    SETTLE,
    SETTLE_NOW,
    Stage,
    open_transaction,
)
from tests.support.scene import RESEND, Connection
from tests.support.waits import until_blocked

# An application that keeps rows locked


@pytest.mark.parametrize("table", ["job_queue WHERE run_id", "campaign_runs WHERE id"])
async def test_rows_that_an_application_keeps_locked_stop_no_channel(
    campaigns: Stage, connection: Connection, table: str
) -> None:
    run_id = await campaigns.deployed(20, 10)
    assert await campaigns.expand_all(10) == 1
    other = await campaigns.deployed(10, 10)
    (single,) = await campaigns.scene.write(channel="sms")
    async with open_transaction(connection, f"SELECT FROM dispatcher.{table} = $1 FOR UPDATE", run_id):
        # Others are locked, expanded, sent and closed; of this one, what is written is sent.
        assert await campaigns.expand_all() == 1
        assert await campaigns.send() == 20
        await campaigns.scene.flush(*((item, ACCEPTED) for item in await _marked_single(campaigns)))
        assert (await campaigns.scene.row(single))["status"] == "sent"
        await campaigns.close()
        assert await campaigns.statuses(other) == ("completed", ["completed"])
        assert (await campaigns.run(run_id))["sent"] == 0
    await campaigns.expand_all()
    await campaigns.send()
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("completed", ["completed", "completed"])
    await campaigns.sound()


async def _marked_single(campaigns: Stage) -> list[Claimed]:
    items = await campaigns.scene.claim()
    await campaigns.scene.mark(items)
    return items


@pytest.mark.parametrize("table", ["job_queue WHERE run_id", "campaign_runs WHERE id"])
async def test_a_job_that_is_locked_between_its_two_transactions_waits_alone(
    campaigns: Stage, connection: Connection, table: str
) -> None:
    run_id = await campaigns.deployed(10)
    job_id = await campaigns.lock()
    assert job_id is not None
    other = await campaigns.deployed(10)
    async with open_transaction(connection, f"SELECT FROM dispatcher.{table} = $1 FOR UPDATE", run_id):
        assert await campaigns.expand(job_id) is None
        assert await campaigns.expand_all() == 1
        assert len(await campaigns.ids(other)) == 10
    assert await campaigns.lock() == job_id
    assert await campaigns.expand(job_id) == 10
    assert [job["attempts"] for job in await campaigns.jobs(run_id)] == [1]


async def test_many_results_of_a_run_that_is_locked_keep_no_other_from_closing(
    campaigns: Stage, connection: Connection
) -> None:
    """A page of the closer is 200 jobs."""
    run_id = await campaigns.expanded(210, 1)
    other = await campaigns.expanded(5)
    assert await campaigns.send() == 215
    async with open_transaction(connection, "SELECT FROM dispatcher.campaign_runs WHERE id = $1 FOR UPDATE", run_id):
        await campaigns.close()
        assert await campaigns.statuses(other) == ("completed", ["completed"])
    async with open_transaction(
        connection, "SELECT FROM dispatcher.job_queue WHERE run_id = $1 AND id < $2 FOR UPDATE", run_id, 2**40
    ):
        assert await campaigns.value("SELECT dispatcher.close_jobs(200)") == 0
    await campaigns.sound()
    assert (await campaigns.run(run_id))["status"] == "completed"


async def test_a_dead_workers_job_of_a_locked_run_is_given_up_later(campaigns: Stage, connection: Connection) -> None:
    run_id = await campaigns.deployed(3)
    assert await campaigns.lock() is not None
    await campaigns.database.fetch("UPDATE dispatcher.job_queue SET attempts = 3")
    await campaigns.die()
    async with open_transaction(connection, "SELECT FROM dispatcher.campaign_runs WHERE id = $1 FOR UPDATE", run_id):
        assert await campaigns.take_back() == (0, 0)
        assert await campaigns.ids(run_id) == []
    assert await campaigns.take_back() == (0, 1)
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("failed", ["dead"])


# Closing


async def test_two_last_jobs_that_close_at_once_end_the_run(campaigns: Stage, connection: Connection) -> None:
    run_id = await campaigns.expanded(2, 1)
    first, second = await campaigns.marked()
    await campaigns.end([first])
    async with open_transaction(connection, "SELECT dispatcher.close_jobs(200)"):
        await campaigns.end([second])
        # It must neither wait nor decide by what it cannot see.
        assert await campaigns.value("SELECT dispatcher.close_jobs(200)") == 0
    assert await campaigns.statuses(run_id) == ("running", ["completed", "locked"])
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("completed", ["completed", "completed"])
    await campaigns.sound()


async def test_closers_side_by_side_count_each_result_once(campaigns: Stage) -> None:
    run_id = await campaigns.expanded(60, 2)
    items = await campaigns.marked()

    async def close() -> None:
        for _ in range(20):
            await campaigns.value("SELECT dispatcher.close_jobs(5)")

    async def flush() -> None:
        for n in range(0, 60, 6):
            await campaigns.end(items[n : n + 6])

    await asyncio.gather(flush(), close(), close(), close())
    await campaigns.sound()
    assert (await campaigns.run(run_id))["sent"] == 60
    assert (await campaigns.run(run_id))["status"] == "completed"


async def test_a_closer_that_dies_leaves_its_results(campaigns: Stage, connection: Connection) -> None:
    run_id = await campaigns.expanded(3)
    await campaigns.send()
    transaction = connection.transaction()
    await transaction.start()
    assert await connection.fetchval("SELECT dispatcher.close_jobs(200)") == 1
    await campaigns.database.fetch("SELECT pg_terminate_backend($1, 5000)", connection.get_server_pid())
    assert (await campaigns.run(run_id))["sent"] == 0
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("completed", ["completed"])
    await campaigns.sound()


# Cancel


async def test_a_cancel_beside_a_flush_counts_each_delivery_once(campaigns: Stage, connection: Connection) -> None:
    """What is marked is the flush's, what is not is the cancel's, whoever commits first."""
    run_id = await campaigns.expanded(10)
    items = await campaigns.claim()
    await campaigns.scene.mark(items[:5])
    await campaigns.database.fetch(CANCEL, run_id)
    async with open_transaction(connection, "SELECT dispatcher.skip_cancelled(1000)"):
        await campaigns.end(items[:5])
        await campaigns.close()
    # Its claims are gone: what comes back of the others is nothing.
    fenced = await campaigns.scene.flush(*((item, ACCEPTED) for item in items[5:]))
    assert len(fenced) == 5
    await campaigns.close()
    assert await campaigns.items(run_id) == {"sent": 5, "skipped: cancelled: its run was cancelled": 5}
    assert await campaigns.statuses(run_id) == ("partial", ["partial"])
    await campaigns.sound()


async def test_a_cancel_waits_for_a_flush_of_the_same_rows_and_leaves_them(
    campaigns: Stage, connection: Connection
) -> None:
    run_id = await campaigns.expanded(4)
    items = await campaigns.claim()
    await campaigns.database.fetch(CANCEL, run_id)
    # A mark that began before the cancel was seen.
    mark = "UPDATE dispatcher.delivery_state SET marked = true, attempt = 1, key_used_at = now() WHERE id = ANY ($1)"
    async with open_transaction(connection, mark, [item.id for item in items[:2]]):
        skipping = asyncio.create_task(campaigns.skip_cancelled())
        await until_blocked(connection)
    assert await skipping == 2
    await campaigns.end(items[:2])
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("partial", ["partial"])
    assert (await campaigns.run(run_id))["sent"] == 2
    await campaigns.sound()


@pytest.mark.parametrize("order", [(CANCEL, PAUSE), (PAUSE, CANCEL)])
async def test_operators_wait_for_an_expansion_that_has_not_committed(
    campaigns: Stage, connection: Connection, order: tuple[str, str]
) -> None:
    run_id = await campaigns.deployed(20, 10)
    job_id = await campaigns.lock()
    asking = [campaigns.database.fetch(query, run_id) for query in order]
    async with open_transaction(connection, "SELECT dispatcher.expand_job($1, $2)", job_id, campaigns.scene.epoch):
        first = asyncio.create_task(asking[0])
        await until_blocked(connection)
    await first
    await asking[1]
    # What was written beside is stopped like the rest.
    assert await campaigns.skip_cancelled() == 10
    assert await campaigns.expand_all() == 1
    await campaigns.close()
    assert await campaigns.items(run_id) == {"skipped: cancelled: its run was cancelled": 20}
    assert await campaigns.statuses(run_id) == ("failed", ["failed", "failed"])
    assert await campaigns.value("SELECT count(*) FROM dispatcher.pauses WHERE ended_at IS NULL") == 0
    await campaigns.sound()


async def test_a_cancelled_run_is_not_resumed(campaigns: Stage) -> None:
    run_id = await campaigns.expanded(3)
    await campaigns.database.fetch(PAUSE, run_id)
    assert await campaigns.value(CANCEL, run_id) == "done"
    assert await campaigns.value(CANCEL, run_id) == "same"
    assert await campaigns.value(RESUME, run_id) == "cancelled"
    assert await campaigns.value(PAUSE, run_id) == "cancelled"
    assert await campaigns.value(RATE, run_id, 5.0) == "cancelled"
    assert await campaigns.value("SELECT count(*) FROM dispatcher.pauses WHERE ended_at IS NULL") == 1
    await campaigns.skip_cancelled()
    await campaigns.close()
    assert await campaigns.value(RESUME, run_id) == "failed"
    assert await campaigns.value(CANCEL, run_id) == "failed"
    assert await campaigns.value(REPLAY, run_id) == 0


async def test_a_cancel_of_which_nothing_was_left_changes_no_end(campaigns: Stage) -> None:
    run_id = await campaigns.expanded(3)
    items = await campaigns.marked()
    assert await campaigns.value(CANCEL, run_id) == "done"
    await campaigns.end(items)
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("completed", ["completed"])


async def test_one_delivery_that_somebody_cancels_does_not_cancel_its_run(campaigns: Stage) -> None:
    status, _ = await campaigns.people(2)
    run_id = await campaigns.deploy(status, 1)
    # One is no longer there, which is a good reason; the other one is cancelled by itself.
    await campaigns.database.fetch("DELETE FROM dispatcher.contacts WHERE key = $1", f"{status}-1")
    await campaigns.expand_all()
    for item in await campaigns.claim():
        await campaigns.database.fetch("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'not him')", item.id)
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("partial", ["completed", "failed"])
    await campaigns.sound()


async def test_what_may_have_gone_out_is_not_skipped_by_a_cancel(campaigns: Stage) -> None:
    run_id = await campaigns.expanded(3)
    await campaigns.marked(resend=RESEND)
    await campaigns.die()
    await campaigns.database.fetch(CANCEL, run_id)
    await campaigns.skip_cancelled()
    await campaigns.close()
    run = await campaigns.run(run_id)
    assert (run["status"], run["held"], run["cancelled"]) == ("running", 3, 0)
    await campaigns.database.fetch(SETTLE_NOW)
    await campaigns.database.fetch(SETTLE, await campaigns.ids(run_id), "sent")
    await campaigns.close()
    assert (await campaigns.run(run_id))["status"] == "completed"
    await campaigns.sound()


# Held ones


async def test_settling_a_page_beside_a_flush_counts_each_once(campaigns: Stage, connection: Connection) -> None:
    run_id = await campaigns.expanded(10)
    held = await campaigns.marked(5)
    await campaigns.die()
    rest = await campaigns.marked()
    await campaigns.close()
    assert (await campaigns.run(run_id))["held"] == 5
    await campaigns.database.fetch(SETTLE_NOW)
    ids = [item.id for item in held]
    async with open_transaction(connection, SETTLE, ids[::-1], "failed"):
        await campaigns.end(rest)
        await campaigns.close()
    await campaigns.close()
    run = await campaigns.run(run_id)
    assert (run["sent"], run["failed"], run["held"], run["status"]) == (5, 5, 0, "partial")
    await campaigns.sound()


async def test_a_late_result_beside_a_settling_decides_once(campaigns: Stage, connection: Connection) -> None:
    run_id = await campaigns.expanded(2)
    held = await campaigns.marked()
    late = campaigns.scene
    await campaigns.die()
    await campaigns.database.fetch(SETTLE_NOW)
    async with open_transaction(connection, SETTLE, [held[0].id], "failed"):
        keeping = asyncio.create_task(late.late(held[0], ACCEPTED))
        await until_blocked(connection)
    assert await keeping == "kept"
    assert await late.late(held[1], ACCEPTED) == "resolved"
    await campaigns.close()
    run = await campaigns.run(run_id)
    assert (run["sent"], run["failed"], run["held"], run["status"]) == (1, 1, 0, "partial")
    await campaigns.sound()
