"""The announcer: each event becomes one delivery, whatever dies in between and however many announce."""

import json

import pytest

from dispatcher.base import fault_points
from dispatcher.base.fault_points import FaultPointError
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Walk
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Failed, Succeeded
from dispatcher.features.webhooks import store as webhooks
from dispatcher.features.webhooks import worker as announcer
from dispatcher.features.webhooks.worker import Announcer
from tests.features.runs.stage import Stage
from tests.features.webhooks import hooks
from tests.plans.walks import plan, send
from tests.support.scene import Scene


@pytest.fixture
async def scene(database: Database) -> Scene:
    """An epoch on the test's database, where somebody listens."""
    await hooks.make(database)
    return await Scene.open(database)


@pytest.fixture
def announces(database: Database) -> Announcer:
    """An announcer."""
    return Announcer(database, Walk(), Metrics())


async def test_a_delivery_is_told_with_what_it_was_and_how_it_stood(scene: Scene, announces: Announcer) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Succeeded("m-1")))
    assert await announces.run_once() == 1
    (said,) = await hooks.messages(scene.database)
    row = (await scene.database.fetch("SELECT * FROM dispatcher.deliveries WHERE id = $1", item.id))[0]
    assert (said["type"], said["to"]) == ("delivery.sent", "crm")
    data = said["data"]
    for name, value in {
        "id": item.id,
        "channel": "sms",
        "recipient": "+4917012345",
        "idempotency_key": row["idempotency_key"],
        "status": "sent",
        "attempt": 1,
        "provider_message_id": "m-1",
        "error": None,
        "run_id": None,
        "workflow": None,
    }.items():
        assert data[name] == value, name
    assert data["created_at"].endswith("Z")
    assert data["finished_at"] == said["timestamp"]
    assert "receipt" not in data
    assert "hello" not in json.dumps(said)
    assert await hooks.events(scene.database) == []


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ("-infinity", "0001-01-01T00:00:00Z"),
        ("0044-03-15 BC", "0001-01-01T00:00:00Z"),
        ("20000-01-01", "9999-12-31T23:59:59.999999Z"),
    ],
)
async def test_a_time_that_python_does_not_know_is_told_as_the_nearest(
    scene: Scene, announces: Announcer, kept: str, said: str
) -> None:
    asked = """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
               VALUES ('k', 'sms', '+4917012345', '{"body": "x"}', $1::text::timestamptz) RETURNING id"""
    number = await scene.value(asked, kept)
    await scene.value("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'too odd')", number)
    assert await announces.run_once() == 1
    (told,) = await hooks.messages(scene.database)
    assert told["data"]["scheduled_for"] == said


async def test_how_it_stood_is_told_and_not_how_it_stands(scene: Scene, announces: Announcer) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Failed("gone")))
    await scene.value("SELECT dispatcher.reopen_delivery($1, 'ann', 'again')", item.id)
    await announces.run_once()
    (said,) = await hooks.messages(scene.database)
    assert (said["data"]["status"], said["data"]["error"]) == ("failed", "gone")


async def test_a_receipt_is_told_with_what_its_provider_said(scene: Scene, announces: Announcer) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Succeeded("abc")))
    await hooks.record_receipt(scene, item.id, "bounced_hard")
    await announces.run_once()
    said = (await hooks.messages(scene.database))[1]
    assert said["type"] == "delivery.bounced"
    receipt = said["data"]["receipt"]
    assert (receipt["kind"], receipt["provider"], receipt["reason"]) == ("bounced_hard", "resend", "so it is")


async def test_a_run_is_told_and_its_deliveries_name_it(stage: Stage, announces: Announcer) -> None:
    await hooks.make(stage.database)
    await stage.put(plan({"mail": send(1, "{{ to }}")}))
    run = await stage.trigger(to="+49170")
    await stage.play()
    await announces.run_once()
    sent, completed = await hooks.messages(stage.database)
    assert (sent["data"]["run_id"], sent["data"]["workflow"], sent["data"]["node"]) == (run, "plan", "mail")
    assert completed["type"] == "run.completed"
    data = completed["data"]
    assert (data["id"], data["workflow"], data["version"], data["status"]) == (run, "plan", 1, "completed")
    assert data["started_at"] <= data["finished_at"]
    assert await stage.count("webhook_events") == 0


async def test_each_endpoint_is_told_each_event_once_by_however_many(scene: Scene, database: Database) -> None:
    await hooks.make(database, "delivery.*", name="other")
    items = await scene.marked(20)
    await scene.flush(*((item, Succeeded("m")) for item in items))
    for _ in range(2):
        assert await Announcer(database, Walk(), Metrics()).run_once() in (40, 0)
    rows = await database.fetch(
        "SELECT idempotency_key, recipient, max_attempts FROM dispatcher.deliveries WHERE channel = 'webhook'"
    )
    assert len({row["idempotency_key"] for row in rows}) == len(rows) == 40
    assert sorted(row["recipient"] for row in rows) == ["crm"] * 20 + ["other"] * 20
    assert {row["max_attempts"] for row in rows} == {30}


async def test_a_page_at_a_time(scene: Scene, announces: Announcer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcer, "PAGE", 3)
    items = await scene.marked(7)
    await scene.flush(*((item, Succeeded("m")) for item in items))
    assert [await announces.run_once() for _ in range(4)] == [3, 3, 1, 0]
    assert len(await hooks.messages(scene.database)) == 7


async def test_an_event_whose_worker_fails_before_commit_is_sent_once_by_the_next(
    scene: Scene, announces: Announcer
) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Succeeded("m")))
    fault_points.arm({"FAULT": "announce.before_commit:1:raise"})
    try:
        with pytest.raises(FaultPointError):
            await announces.run_once()
    finally:
        fault_points.arm({})
    assert await hooks.messages(scene.database) == []
    assert await hooks.events(scene.database) == [("delivery.sent", item.id)]
    await announces.run_once()
    assert len(await hooks.messages(scene.database)) == 1


@pytest.mark.parametrize("how", ["disabled", "deleted", "subject deleted"])
async def test_events_without_endpoint_or_subject_are_deleted(scene: Scene, announces: Announcer, how: str) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Succeeded("m")))
    match how:
        case "disabled":
            await hooks.enable(scene.database, False)
        case "deleted":
            await webhooks.delete(scene.database, hooks.HERE, "crm", *hooks.BY)
        case _:
            await scene.database.fetch("DELETE FROM dispatcher.deliveries WHERE id = $1", item.id)
    assert await announces.run_once() == 1
    assert await hooks.messages(scene.database) == []
    assert await hooks.events(scene.database) == []


async def test_the_content_of_a_delivery_is_not_rendered_as_a_template(scene: Scene, announces: Announcer) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Failed('{{ secret }} {% raw %} \u2603 \\ "quoted"')))
    await announces.run_once()
    (row,) = await scene.database.fetch("SELECT template FROM dispatcher.deliveries WHERE channel = 'webhook'")
    assert json.loads(row["template"]) == {"body": "{{ event }}"}
