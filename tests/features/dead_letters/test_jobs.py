"""Jobs of campaigns as dead letters: one line for all that has failed, replayed and discarded as one."""

import pytest

from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Failed, Succeeded
from dispatcher.features.dead_letters import store
from dispatcher.features.dead_letters.models import DeadLetterFilter
from dispatcher.features.deliveries import rules
from dispatcher.features.deliveries import store as deliveries
from tests.support.deployed import Campaigns, close, expand, marked, run_row
from tests.support.scene import Connection, Scene

EVERYBODY = (None, None)


@pytest.fixture
def campaigns(connection: Connection) -> Campaigns:
    """Campaigns of the default workspace."""
    return Campaigns(connection)


@pytest.fixture
async def failed(scene: Scene, campaigns: Campaigns) -> tuple[int, int]:
    """A run and its only job, of which two deliveries have failed and one was sent."""
    run = await campaigns.deployed()
    (job,) = await expand(scene)
    first, second, third = await marked(scene)
    await scene.flush((first, Failed("550 gone")), (second, Failed("551 busy")), (third, Succeeded("m")))
    await close(scene)
    return run, job


async def _listed(scene: Scene, **fields: str) -> list[int]:
    meant = DeadLetterFilter(**fields)  # type: ignore[arg-type]  # texts all
    ids, _ = await store.page(scene.database, "job", EVERYBODY, meant, None, below=2**62, count=9)
    return ids


async def _acted(scene: Scene, verb: str, job: int) -> str | None:
    answers = await store.act(scene.database, verb, "job", [job], "the carrier is back", "bob")  # type: ignore[arg-type]  # a verb
    return answers.get(job)


async def test_a_job_with_failures_is_one_line(scene: Scene, failed: tuple[int, int]) -> None:
    run, job = failed
    assert await _listed(scene) == [job]
    assert await _listed(scene, name="spring", channel="sms", error="busy") == [job]
    for other in ({"name": "autumn"}, {"channel": "email"}, {"error": "nonsense"}):
        assert await _listed(scene, **other) == []
    (row,) = await store.rows(scene.database, "job", [job])
    assert (row["name"], row["channel"], row["retries"]) == ("spring", "sms", 0)
    assert row["error"] == f"2 of 3 deliveries of run {run} have failed"
    assert await scene.value("SELECT count(*) FROM dispatcher.dead_letters") == 1
    assert await scene.value("SELECT count(*) FROM dispatcher.dead_deliveries") == 0


async def test_a_replay_sends_what_has_failed_and_nothing_else(scene: Scene, failed: tuple[int, int]) -> None:
    run, job = failed
    assert await _acted(scene, "replay", job) == "replayed"
    await close(scene)
    assert (await run_row(scene, run))["status"] == "running"
    assert await _listed(scene) == []
    again = await marked(scene)
    assert len(again) == 2
    await scene.flush((again[0], Succeeded("m")), (again[1], Failed("550 gone")))
    await close(scene)
    (row,) = await store.rows(scene.database, "job", [job])
    assert (row["retries"], row["error"]) == (1, f"1 of 3 deliveries of run {run} have failed")
    noted = "SELECT actor, reason FROM dispatcher.campaign_events WHERE event = 'replay' AND job_id = $1"
    assert [tuple(one) for one in await scene.database.fetch(noted, job)] == [("bob", "the carrier is back")]


async def test_what_is_discarded_is_listed_again_when_more_has_failed(scene: Scene, failed: tuple[int, int]) -> None:
    run, job = failed
    assert await _acted(scene, "discard", job) == "discarded"
    assert await _acted(scene, "discard", job) == "same"
    assert (await _listed(scene), await _acted(scene, "replay", job)) == ([], None)
    assert await scene.value("SELECT replayed FROM dispatcher.replay_campaign_run($1, 0, 9)", run) == 2
    await close(scene)
    again = await marked(scene)
    await scene.flush(*((item, Failed("gone")) for item in again))
    await close(scene)
    assert await _listed(scene) == [job]


async def test_what_was_written_as_ended_is_not_sent_again_and_is_said(scene: Scene, campaigns: Campaigns) -> None:
    run = await campaigns.deployed()
    job = await scene.value("SELECT dispatcher.lock_job($1, 1000)", scene.epoch)
    await scene.value("SELECT dispatcher.bury_job($1, $2, 'poison')", job, scene.epoch)
    await close(scene)
    assert (await run_row(scene, run))["status"] == "failed"
    (row,) = await store.rows(scene.database, "job", [job])
    assert row["error"] == f"3 of 3 deliveries of run {run} have failed: poison"
    answer = await _acted(scene, "replay", job)
    assert answer == "never queued"
    done, words = rules.dead_letter_sentence("replay", "job", job, answer)
    assert (done, "there is nothing to send" in words) == (False, True)
    one = await scene.value("SELECT min(id) FROM dispatcher.deliveries")
    answer = await deliveries.reopen(scene.database, one, "bob", "x")
    done, words = rules.delivery_sentence("retry", one, answer)
    assert not done
    assert words == f"delivery {one} was written as ended by its campaign and never queued: there is nothing to send"


async def test_a_job_of_a_cancelled_run_is_not_replayed(scene: Scene, failed: tuple[int, int]) -> None:
    await scene.database.fetch("UPDATE dispatcher.campaign_runs SET cancelled_at = now()")
    assert await _acted(scene, "replay", failed[1]) == "cancelled"
    assert rules.dead_letter_sentence("replay", "job", failed[1], "cancelled")[0] is False


async def test_a_delivery_of_a_campaign_says_which(scene: Scene, failed: tuple[int, int]) -> None:
    run, job = failed
    one = await scene.value("SELECT min(id) FROM dispatcher.deliveries")
    shown = await scene.database.fetch(deliveries._SQL["show"], one)
    assert (shown[0]["run_id"], shown[0]["job_id"], shown[0]["campaign"]) == (run, job, "spring")
    (plain,) = await scene.write()
    shown = await scene.database.fetch(deliveries._SQL["show"], plain)
    assert (shown[0]["run_id"], shown[0]["job_id"], shown[0]["campaign"]) == (None, None, None)


async def test_deleted_deliveries_leave_the_counters_as_they_were(scene: Scene, failed: tuple[int, int]) -> None:
    """An application deletes old deliveries; the sweep would count none, and open the run again."""
    run, _ = failed
    await scene.database.fetch("DELETE FROM dispatcher.deliveries WHERE run_id = $1", run)
    await scene.database.fetch("UPDATE dispatcher.campaign_runs SET finished_at = finished_at - interval '1 minute'")
    assert await scene.value("SELECT dispatcher.check_campaign_counters()") == 0
    await close(scene)
    row = await run_row(scene, run)
    assert (row["status"], row["sent"], row["failed"]) == ("partial", 1, 2)
    assert await _acted(scene, "replay", failed[1]) == "none"
    assert [found for name in checks.invariants() if (found := await checks.check(scene.database, name))] == []
