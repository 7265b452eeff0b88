"""OP-06: what ends deliveries and runs leaves a event for who wants to know it, and nothing where nobody does."""

import json
from collections.abc import Awaitable, Callable

import pytest

from dispatcher.base.workspace import Workspace
from dispatcher.engine.rules.life import Again, Failed, Held, Outcome, Skipped, Succeeded
from tests.features.webhooks import hooks
from tests.support import flows
from tests.support.scene import RESEND, Connection, Scene

ENDS: dict[str, tuple[Outcome, str]] = {
    "sent": (Succeeded("m-1"), "delivery.sent"),
    "failed": (Failed("no such number"), "delivery.failed"),
    "skipped": (Skipped("not needed"), "delivery.skipped"),
    "held": (Held("no answer"), "delivery.held"),
}


@pytest.mark.parametrize("how", ENDS)
async def test_the_end_or_hold_of_a_delivery_is_one_event_with_its_state(scene: Scene, how: str) -> None:
    outcome, event = ENDS[how]
    await hooks.make(scene.database)
    (item,) = await scene.marked()
    await scene.flush((item, outcome))
    await scene.flush((item, outcome))
    (row,) = await scene.database.fetch("SELECT type, subject, facts, workspace_id FROM dispatcher.webhook_events")
    assert (row["type"], row["subject"], row["workspace_id"]) == (event, item.id, "default")
    facts = json.loads(row["facts"])
    assert (facts["status"], facts["attempt"]) == ("queued" if how == "held" else how, 1)
    assert facts["provider_message_id"] == ("m-1" if how == "sent" else None)


@pytest.mark.parametrize("channel", ["voice", "social"])
async def test_called_and_posted_deliveries_are_sent_events(scene: Scene, channel: str) -> None:
    await hooks.make(scene.database, "delivery.sent")
    await scene.write(channel=channel)
    items = await scene.claim(channel=channel)
    await scene.mark(items)
    await scene.flush((items[0], Succeeded("c-1")))
    assert await hooks.events(scene.database) == [("delivery.sent", items[0].id)]


async def test_a_retried_attempt_is_not_an_end(scene: Scene) -> None:
    await hooks.make(scene.database)
    (item,) = await scene.marked()
    await scene.flush((item, Again(0.0, "busy")))
    assert await hooks.events(scene.database) == []


async def test_each_end_of_one_that_is_reopened_happens(scene: Scene) -> None:
    await hooks.make(scene.database)
    (item,) = await scene.marked()
    await scene.flush((item, Failed("gone")))
    await scene.value("SELECT dispatcher.reopen_delivery($1, 'ann', 'it is back')", item.id)
    (again,) = await scene.claim()
    await scene.mark([again])
    await scene.flush((again, Failed("gone")))
    assert await hooks.events(scene.database) == [("delivery.failed", item.id)] * 2


async def test_a_skip_that_may_have_gone_out_is_a_held_event(scene: Scene) -> None:
    await hooks.make(scene.database)
    (item,) = await scene.marked(resend=RESEND)
    await scene.flush((item, Again(0.0, "unknown: no answer", RESEND)))
    assert await scene.value("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", item.id) == "stopped"
    assert await hooks.events(scene.database) == [("delivery.held", item.id)]


OTHER_ENDS: dict[str, tuple[str, Callable[[Scene, int], Awaitable[object]]]] = {
    "cancelled": (
        "delivery.skipped",
        lambda scene, one: scene.value("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", one),
    ),
    "through the view": (
        "delivery.skipped",
        lambda scene, one: scene.database.fetch(
            "UPDATE dispatcher.channel_outbox SET status = 'skipped' WHERE id = $1", one
        ),
    ),
    "quarantined": (
        "delivery.held",
        lambda scene, _: scene.value("SELECT dispatcher.quarantine_deliveries('infinity', 'ann', 'restored')"),
    ),
}


@pytest.mark.parametrize("how", OTHER_ENDS)
async def test_every_end_of_a_delivery_is_an_event(scene: Scene, how: str) -> None:
    event, end = OTHER_ENDS[how]
    await hooks.make(scene.database)
    (one,) = await scene.write()
    await end(scene, one)
    assert await hooks.events(scene.database) == [(event, one)]


async def test_deliveries_held_by_recovery_are_events(scene: Scene) -> None:
    await hooks.make(scene.database)
    (item,) = await scene.marked()
    await scene.die()
    assert await hooks.events(scene.database) == [("delivery.held", item.id)]


async def test_queued_deliveries_of_an_ended_run_are_skipped_with_an_event(
    scene: Scene, connection: Connection
) -> None:
    """Its claim is recovered, which sets nothing but `ready`: the end of its run makes that a skip."""
    await hooks.make(scene.database, "delivery.*")
    await flows.put(connection)
    run = (await flows.trigger(connection))["execution_id"]
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (run_id, node, idempotency_key, channel, recipient, template)
           VALUES ($1, 'mail', 'of-it', 'sms', '+49170', '{"body": "x"}')""",
        run,
    )
    (item,) = await scene.claim()
    await connection.execute(
        "UPDATE dispatcher.runs SET status = 'cancelled', finished_at = now(), available_at = NULL WHERE id = $1", run
    )
    await scene.die()
    assert await scene.life(item.id) == "skipped"
    assert await hooks.events(scene.database) == [("delivery.skipped", item.id)]


async def test_a_delivery_inserted_as_failed_is_an_event(scene: Scene) -> None:
    await hooks.make(scene.database, "delivery.failed")
    written = await scene.database.fetch(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template_name)
           VALUES ('k', 'sms', '+49170', 'none') RETURNING id"""
    )
    assert await hooks.events(scene.database) == [("delivery.failed", written[0]["id"])]


async def test_nothing_of_the_channel_itself_is_told(scene: Scene) -> None:
    await hooks.make(scene.database)
    await scene.write(channel="webhook")
    (item,) = await scene.claim(channel="webhook")
    await scene.mark([item])
    await scene.flush((item, Failed("no")))
    assert await hooks.events(scene.database) == []


async def test_deliveries_written_before_their_endpoint_have_no_events(scene: Scene) -> None:
    items = await scene.marked(2)
    await hooks.make(scene.database)
    await scene.flush(*((item, Succeeded("m")) for item in items))
    assert await hooks.events(scene.database) == []
    row = await scene.row(items[0].id)
    assert row["announced"] is None


async def test_nothing_is_told_of_copies(scene: Scene) -> None:
    await hooks.make(scene.database)
    await scene.database.fetch(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, created_at)
           VALUES ('k', 'sms', '+49170', '{"body": "x"}', now() - interval '1 day')"""
    )
    assert await hooks.events(scene.database) == []
    settle = "SELECT dispatcher.settle_held(id, 'sent', 'ann', 'it was') FROM dispatcher.deliveries"
    assert await scene.value(settle) == "settled"
    assert await hooks.events(scene.database) == []


async def test_each_is_told_what_it_asked_for_and_a_foreign_workspace_nothing(scene: Scene) -> None:
    await hooks.make(scene.database, "delivery.failed", name="failures")
    await hooks.make(scene.database, "delivery.*", name="all")
    await hooks.make(scene.database, "run.*", name="runs")
    await hooks.make(scene.database, name="elsewhere", workspace=Workspace("default", "other"))
    await hooks.make(scene.database, name="elsewhere", workspace=Workspace("acme", "default"))
    sent, failed = await scene.marked(2)
    await scene.flush((sent, Succeeded("m")), (failed, Failed("no")))
    rows = await scene.database.fetch(
        """SELECT e.name, h.type, h.subject FROM dispatcher.webhook_events h
             JOIN dispatcher.webhook_endpoints e ON e.id = h.endpoint_id ORDER BY e.name, h.type"""
    )
    assert [tuple(row) for row in rows] == [
        ("all", "delivery.failed", failed.id),
        ("all", "delivery.sent", sent.id),
        ("failures", "delivery.failed", failed.id),
    ]


async def test_a_disabled_endpoint_gets_no_events(scene: Scene) -> None:
    await hooks.make(scene.database)
    first, second = await scene.marked(2)
    await hooks.enable(scene.database, False)
    await scene.flush((first, Succeeded("m")))
    await hooks.enable(scene.database, True)
    await scene.flush((second, Succeeded("m")))
    assert await hooks.events(scene.database) == [("delivery.sent", second.id)]


async def test_rolled_back_changes_give_no_event(scene: Scene, connection: Connection) -> None:
    await hooks.make(scene.database)
    (one,) = await scene.write()
    rolled_back = connection.transaction()
    await rolled_back.start()
    await connection.execute("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", one)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.webhook_events") == 1
    await rolled_back.rollback()
    assert await hooks.events(scene.database) == []


async def test_the_first_receipt_of_each_kind_is_told(scene: Scene) -> None:
    await hooks.make(scene.database)
    (item,) = await scene.marked()
    await scene.flush((item, Succeeded("abc")))
    for kind in ("delivered", "opened", "delivered", "bounced_soft", "bounced_hard", "complained", "sent"):
        await hooks.record_receipt(scene, item.id, kind)
    assert [event for event, _ in await hooks.events(scene.database)] == [
        "delivery.sent",
        "delivery.delivered",
        "delivery.opened",
        "delivery.bounced",
        "delivery.bounced",
        "delivery.complained",
    ]


async def test_receipts_of_deliveries_without_endpoint_are_no_events(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Succeeded("abc")))
    await hooks.make(scene.database)
    await hooks.record_receipt(scene, item.id, "delivered")
    assert await hooks.events(scene.database) == []


RUN_ENDS = {
    "cancelled": "SELECT dispatcher.cancel_run($1, 'no')",
    "failed": "SELECT dispatcher.bury_run($1, 'poison', 'poison')",
    "completed": """UPDATE dispatcher.runs SET status = 'completed', finished_at = now(), available_at = NULL
                     WHERE id = $1""",
}


@pytest.mark.parametrize("how", RUN_ENDS)
async def test_the_end_of_a_run_is_an_event(scene: Scene, connection: Connection, how: str) -> None:
    await flows.put(connection)
    run = (await flows.trigger(connection))["execution_id"]
    await hooks.make(scene.database, "run.*")
    await connection.execute("UPDATE dispatcher.runs SET status = 'running', started_at = now() WHERE id = $1", run)
    await connection.fetchval(RUN_ENDS[how], run)
    assert await hooks.events(scene.database) == [(f"run.{how}", run)]


async def test_a_run_that_is_replayed_ends_again(scene: Scene, connection: Connection) -> None:
    await flows.put(connection)
    run = (await flows.trigger(connection))["execution_id"]
    await hooks.make(scene.database, "run.*")
    await connection.fetchval(RUN_ENDS["failed"], run)
    await connection.fetchval("SELECT dispatcher.replay_run($1)", run)
    await connection.fetchval(RUN_ENDS["completed"], run)
    assert [event for event, _ in await hooks.events(scene.database)] == ["run.failed", "run.completed"]


async def test_without_endpoints_the_column_is_null_and_in_no_index(scene: Scene) -> None:
    (item,) = await scene.marked()
    assert (await scene.row(item.id))["announced"] is None
    indexed = """SELECT count(*) FROM pg_index i
                   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                  WHERE i.indrelid = 'dispatcher.delivery_state'::regclass AND a.attname = 'announced'"""
    assert await scene.value(indexed) == 0
