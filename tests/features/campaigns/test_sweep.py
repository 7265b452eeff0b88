"""The sweep: it finds nothing to repair, unless somebody has falsified the counters."""

from dispatcher.engine.rules.life import Failed
from tests.features.campaigns.stage import SETTLE, SETTLE_NOW, Stage, wrong_books

FALSIFY = (
    "UPDATE dispatcher.job_queue SET sent = sent - 2, failed = failed + 1, skipped = skipped + 1 WHERE run_id = $1"
)


async def test_a_run_is_compared_once(campaigns: Stage) -> None:
    run_id = await campaigns.expanded(4, 2)
    await campaigns.send()
    await campaigns.close()
    assert await campaigns.sweep() == 0
    assert (await campaigns.run(run_id))["checked_at"] is not None
    assert await campaigns.value("SELECT dispatcher.check_campaign_counters()") is None


async def test_an_open_run_is_not_compared(campaigns: Stage) -> None:
    await campaigns.expanded(4)
    await campaigns.send(wanted=2)
    await campaigns.close()
    assert await campaigns.value("SELECT dispatcher.check_campaign_counters()") is None


async def test_a_counter_that_was_falsified_is_repaired(campaigns: Stage) -> None:
    run_id = await campaigns.expanded(10, 5)
    items = await campaigns.marked()
    await campaigns.end(items[:3], Failed("no such number"))
    await campaigns.end(items[3:])
    await campaigns.close()
    statuses = await campaigns.statuses(run_id)
    await campaigns.database.fetch(FALSIFY, run_id)
    # The run's own counters follow those of its jobs.
    change = "UPDATE dispatcher.campaign_runs SET sent = sent - 4, failed = failed + 2, skipped = skipped + 2"
    await campaigns.database.fetch(change)
    assert await campaigns.sweep() == 2
    await campaigns.close()
    run = await campaigns.run(run_id)
    assert (run["sent"], run["failed"], run["skipped"]) == (7, 3, 0)
    assert await campaigns.statuses(run_id) == statuses
    assert [found for found in await wrong_books(campaigns.database) if not found.startswith("reasons")] == []
    noted = "SELECT count(*) FROM dispatcher.campaign_audit_log WHERE run_id = $1 AND event = 'repair'"
    assert await campaigns.value(noted, run_id) == 2


async def test_what_was_deleted_of_an_old_run_is_not_repaired(campaigns: Stage) -> None:
    """A run stays open for as long as one is held, and what has ended may be deleted meanwhile."""
    run_id = await campaigns.expanded(4)
    await campaigns.send(wanted=3)
    (last,) = await campaigns.marked()
    await campaigns.die()
    await campaigns.close()
    await campaigns.database.fetch("DELETE FROM dispatcher.deliveries WHERE run_id = $1 AND id <> $2", run_id, last.id)
    await campaigns.database.fetch(SETTLE_NOW)
    await campaigns.database.fetch(SETTLE, [last.id], "sent")
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("completed", ["completed"])
    assert await campaigns.sweep() == 0
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("completed", ["completed"])
    assert (await campaigns.run(run_id))["sent"] == 4


RESTORED = """
CREATE TABLE public.deliveries AS SELECT * FROM dispatcher.deliveries;
CREATE TABLE public.states AS SELECT * FROM dispatcher.delivery_state;
SET session_replication_role = replica;
DELETE FROM dispatcher.delivery_state;
DELETE FROM dispatcher.deliveries;
SET session_replication_role = origin;
INSERT INTO dispatcher.deliveries SELECT * FROM public.deliveries;
INSERT INTO dispatcher.delivery_state SELECT * FROM public.states;
"""


async def test_what_a_restore_holds_is_counted(campaigns: Stage) -> None:
    run_id = await campaigns.expanded(5)
    await campaigns.send(wanted=2)
    await campaigns.close()
    async with campaigns.database.session() as session:
        await session.execute(RESTORED)
    await campaigns.close()
    run = await campaigns.run(run_id)
    assert (run["status"], run["sent"], run["held"]) == ("running", 2, 3)
    await campaigns.database.fetch(SETTLE, await campaigns.ids(run_id), "sent")
    await campaigns.sound()
    assert await campaigns.statuses(run_id) == ("completed", ["completed"])
