"""Pause, resume, rate and replay of a run, step by step."""

import pytest

from dispatcher.engine.rules.life import Failed
from dispatcher.engine.store import pauses as engine_pauses
from dispatcher.features.pauses import store as pauses
from tests.features.campaigns.stage import CANCEL, PAUSE, RATE, REPLAY, RESUME, Stage

# Replay


async def test_a_replay_reopens_the_item_its_job_and_its_run(campaigns: Stage) -> None:
    run_id = await campaigns.expanded(4, 2)
    items = await campaigns.marked()
    await campaigns.end(items[:1], Failed("no such number"))
    await campaigns.end(items[1:])
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("partial", ["partial", "completed"])
    assert await campaigns.value(REPLAY, run_id) == 1
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("running", ["locked", "completed"])
    run = await campaigns.run(run_id)
    assert (run["failed"], run["sent"], run["finished_at"], run["jobs_partial"]) == (0, 3, None, 0)
    assert await campaigns.send() == 1
    await campaigns.close()
    assert await campaigns.statuses(run_id) == ("completed", ["completed", "completed"])
    assert await campaigns.transitions(run_id) == [
        (None, "queued"),
        ("queued", "running"),
        ("running", "partial"),
        ("partial", "running"),
        ("running", "completed"),
    ]
    audited = "SELECT event, reason FROM dispatcher.campaign_audit_log WHERE run_id = $1 AND event LIKE 're%'"
    rows = await campaigns.database.fetch(audited, run_id)
    assert sorted((row["event"], row["reason"]) for row in rows) == [("reopen", "once more"), ("replay", "once more")]
    await campaigns.sound()


async def test_a_replay_whose_item_fails_before_it_is_counted_stays_what_it_was(campaigns: Stage) -> None:
    run_id = await campaigns.expanded(2)
    await campaigns.send(Failed("no such number"))
    await campaigns.close()
    assert await campaigns.value(REPLAY, run_id) == 2
    await campaigns.send(Failed("no such number"))
    await campaigns.sound()
    assert await campaigns.statuses(run_id) == ("failed", ["failed"])


async def test_what_was_never_queued_is_not_replayed(campaigns: Stage) -> None:
    run_id = await campaigns.deployed(2)
    await campaigns.lock()
    await campaigns.database.fetch("UPDATE dispatcher.job_queue SET attempts = 3")
    await campaigns.die()
    await campaigns.take_back()
    await campaigns.close()
    assert await campaigns.value(REPLAY, run_id) == 0
    assert await campaigns.statuses(run_id) == ("failed", ["dead"])
    await campaigns.sound()


# Pause, resume and rate


async def test_a_pause_stops_expansion_and_a_resume_goes_on(campaigns: Stage) -> None:
    run_id = await campaigns.deployed(30, 10)
    assert await campaigns.expand_all(10) == 1
    assert await campaigns.value(PAUSE, run_id) == "done"
    assert await campaigns.value(PAUSE, run_id) == "same"
    assert await campaigns.lock() is None
    assert await campaigns.value(RESUME, run_id) == "done"
    assert await campaigns.value(RESUME, run_id) == "same"
    assert await campaigns.expand_all() == 2
    assert await campaigns.send() == 30
    await campaigns.sound()
    assert (await campaigns.run(run_id))["status"] == "completed"


@pytest.mark.parametrize("stop", [PAUSE, CANCEL])
async def test_what_is_claimed_of_a_run_that_is_stopped_is_not_marked(campaigns: Stage, stop: str) -> None:
    """What a mark asks before anything of the run is skipped."""
    run_id = await campaigns.expanded(3)
    await campaigns.expanded(2)
    before = await engine_pauses.current(campaigns.database)
    assert await campaigns.value(stop, run_id) == "done"
    after = await engine_pauses.current(campaigns.database)
    items = await campaigns.claim()
    assert [before.parks(item) for item in items] == [None] * 5
    assert [after.parks(item) is not None for item in items] == [True] * 3 + [False] * 2


async def test_only_its_own_door_ends_the_pause_of_a_run(campaigns: Stage) -> None:
    """Who ended the pause of a cancelled run by its number would send what is to be skipped."""
    run_id = await campaigns.expanded(3)
    await campaigns.database.fetch(CANCEL, run_id)
    pause = await campaigns.value("SELECT id FROM dispatcher.pauses WHERE ended_at IS NULL")
    assert not await pauses.resume(campaigns.database, pause, "ann", "x")
    assert await campaigns.value("SELECT ended_at IS NULL FROM dispatcher.pauses WHERE id = $1", pause)


SPREAD = """SELECT extract(epoch FROM max(run_at) - min(run_at))::float8,
                   extract(epoch FROM min(run_at) - now())::float8
              FROM dispatcher.delivery_state WHERE job_id IN (SELECT id FROM dispatcher.job_queue WHERE run_id = $1)"""


async def test_a_rate_spaces_what_is_written(campaigns: Stage) -> None:
    run_id = await campaigns.deployed(20, 10, rate=1.0)
    assert await campaigns.expand_all() == 2
    ((spread, _),) = await campaigns.database.fetch(SPREAD, run_id)
    assert spread == pytest.approx(19, abs=0.01)


async def test_a_resume_spaces_a_rated_run_anew(campaigns: Stage) -> None:
    run_id = await campaigns.expanded(20, rate=1.0)
    await campaigns.value(PAUSE, run_id)
    # An hour passes.
    await campaigns.database.fetch("UPDATE dispatcher.delivery_state SET run_at = run_at - interval '1 hour'")
    assert await campaigns.value(RESUME, run_id) == "done"
    ((spread, first),) = await campaigns.database.fetch(SPREAD, run_id)
    assert spread == pytest.approx(19, abs=0.01)
    assert -5 < first <= 0
    due = "SELECT count(*) FROM dispatcher.delivery_state WHERE run_at <= now() + interval '3.5 s'"
    assert await campaigns.value(due) < 10


async def test_a_rate_that_changes_acts_on_what_is_written_and_on_what_comes(campaigns: Stage) -> None:
    run_id = await campaigns.deployed(20, 10, rate=0.01)
    assert await campaigns.expand_all() == 1
    assert await campaigns.value(RATE, run_id, 1.0) == "done"
    assert await campaigns.value(RATE, run_id, 1.0) == "same"
    assert await campaigns.value("SELECT dispatcher.space_campaigns()") == 0
    await campaigns.space()
    ((spread, _),) = await campaigns.database.fetch(SPREAD, run_id)
    assert spread == pytest.approx(9, abs=0.01)
    assert await campaigns.expand_all() == 1
    ((spread, _),) = await campaigns.database.fetch(SPREAD, run_id)
    assert spread == pytest.approx(19, abs=5)
    assert await campaigns.value("SELECT dispatcher.set_campaign_rate($1, NULL)", run_id) == "done"
    await campaigns.space()
    ((spread, _),) = await campaigns.database.fetch(SPREAD, run_id)
    assert spread == 0
    assert await campaigns.send() == 20
    await campaigns.sound()
