"""Events of campaigns: one for each job and run that ends, none for each delivery, and receipts one by one."""

from typing import Any

import pytest

from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Walk
from dispatcher.engine.rules.life import Failed, Held, Succeeded
from dispatcher.features.persons import erasure, rules
from dispatcher.features.webhooks.worker import Announcer
from tests.features.contacts.test_store import HERE
from tests.features.persons.test_erasure_campaigns import WHO
from tests.features.webhooks import hooks
from tests.support.deployed import Campaigns, close, expand, marked, sent
from tests.support.scene import Connection, Scene


@pytest.fixture
def campaigns(connection: Connection) -> Campaigns:
    """Campaigns of the default workspace."""
    return Campaigns(connection)


async def _told(scene: Scene) -> list[dict[str, Any]]:
    """Announce all; return what the messages say, the oldest first."""
    while await Announcer(scene.database, Walk(), Metrics()).run_once():
        pass
    return await hooks.messages(scene.database)


async def test_a_job_and_a_run_that_end_are_told_with_their_counters(scene: Scene, campaigns: Campaigns) -> None:
    await hooks.make(scene.database, "delivery.*", "campaign_job.*", "campaign_run.*")
    run = await campaigns.deployed()
    (job,) = await expand(scene)
    first, second, third = await marked(scene)
    await scene.flush((first, Failed("550")), (second, Failed("551")), (third, Held("no answer")))
    await close(scene)
    # What is held has not ended, and neither has its job.
    assert await _told(scene) == []
    await scene.database.fetch("UPDATE dispatcher.delivery_state SET settle_after = NULL WHERE held")
    await scene.value("SELECT dispatcher.settle_held($1, 'sent', 'ann', 'seen')", third.id)
    await close(scene)
    of_job, of_run = await _told(scene)
    counters = {"intended": 3, "sent": 1, "failed": 2, "skipped": 0, "cancelled": 0, "expired": 0, "held": 0}
    assert (of_job["type"], of_run["type"]) == ("campaign_job.partial", "campaign_run.partial")
    assert of_job["data"].items() >= (counters | {"id": job, "run_id": run, "campaign": "spring"}).items()
    assert of_run["data"].items() >= (counters | {"id": run, "campaign": "spring", "jobs": 1}).items()
    assert of_run["data"]["finished_at"] is not None


async def test_each_end_behind_a_replay_is_told(scene: Scene, campaigns: Campaigns) -> None:
    await hooks.make(scene.database, "campaign_run.*")
    run = await campaigns.deployed()
    await expand(scene)
    first, *others = await marked(scene)
    await scene.flush((first, Failed("550")), *[(item, Succeeded("m")) for item in others])
    await close(scene)
    assert await scene.value("SELECT replayed FROM dispatcher.replay_campaign_run($1, 0, 9)", run) == 1
    await close(scene)
    (again,) = await marked(scene)
    await scene.flush((again, Succeeded("m")))
    await close(scene)
    assert [one["type"] for one in await _told(scene)] == ["campaign_run.partial", "campaign_run.completed"]


async def test_a_test_announces_nothing(scene: Scene, campaigns: Campaigns) -> None:
    await hooks.make(scene.database, "delivery.*", "campaign_job.*", "campaign_run.*")
    await campaigns.make()
    await campaigns.test("+4917099999")
    await sent(scene)
    assert await _told(scene) == []


async def test_a_receipt_of_a_campaigns_delivery_is_told(scene: Scene, campaigns: Campaigns) -> None:
    await hooks.make(scene.database, "delivery.bounced")
    run = await campaigns.deployed(contacts=1)
    (job,) = await expand(scene)
    (item,) = await marked(scene)
    await hooks.record_receipt(scene, item.id, "bounced_hard")
    (told,) = await _told(scene)
    assert (told["type"], told["data"]["run_id"], told["data"]["job_id"]) == ("delivery.bounced", run, job)
    assert (told["data"]["campaign"], told["data"]["workflow"]) == ("spring", None)


async def test_an_erasure_leaves_events_of_jobs_alone(scene: Scene, campaigns: Campaigns) -> None:
    """The job has the number of a delivery that is erased."""
    await hooks.make(scene.database, "campaign_job.*")
    await campaigns.deployed()
    await sent(scene)
    before = await scene.database.fetch("SELECT facts FROM dispatcher.webhook_events")
    number = await erasure.request(scene.database, HERE, rules.person_of(WHO.addresses), "bob", "asked")
    looked = await erasure.advance(scene.database, number)
    assert looked is not None
    assert looked.finished
    assert await scene.database.fetch("SELECT facts FROM dispatcher.webhook_events") == before
    (told,) = await _told(scene)
    assert told["data"]["sent"] == 3
