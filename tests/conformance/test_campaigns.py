"""CA-01 to CA-04 and CA-06: what a deployment makes, what a run and its jobs become, and what the trace shows."""

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from tests.conformance.campaigns import DIVIDED, Live, sending
from tests.features.campaigns.stage import PAUSE, RESUME, open_transaction
from tests.support.scene import Connection
from tests.support.waits import until

PUSH = "UPDATE dispatcher.contact_addresses SET kind = 'push' WHERE contact_id = ANY ($1)"
# The contract's own, word for word.
TRACE = """
SELECT 
  cr.id as run_id, cr.status as run_status,
  jq.id as job_id, jq.status as job_status, jq.attempts,
  co.id as outbox_id, co.status as outbox_status, co.provider_message_id
FROM campaign_runs cr
JOIN job_queue jq ON jq.run_id = cr.id
LEFT JOIN channel_outbox co ON co.run_id = cr.id
WHERE cr.campaign_id = 'CAMPAIGN_UUID'
ORDER BY cr.created_at DESC, jq.created_at, co.created_at;
"""  # noqa: W291 - as it is there


@pytest.fixture(scope="module")
async def campaigns(shared_url: str) -> AsyncIterator[Live]:
    """Campaigns on a program that all tests of the module share."""
    async with sending(shared_url) as (_, live):
        yield live


@pytest.fixture
async def application(campaigns: Live) -> AsyncIterator[Connection]:
    """A session of an application's."""
    async with campaigns.database.session() as connection:
        yield connection


# CA-01


async def test_CA_01_a_deployment_is_a_run_and_its_jobs_and_nothing_else(
    campaigns: Live, application: Connection
) -> None:
    status, ids = await campaigns.people(2500)
    name = await campaigns.campaign(status)
    transaction = application.transaction()
    await transaction.start()
    row = await application.fetchrow("SELECT * FROM dispatcher.deploy_campaign($1, actor => 'ann')", name)
    assert row is not None
    assert (row["status"], row["intended"], row["jobs"], row["duplicate"]) == ("queued", 2500, 3, False)
    run = await application.fetchrow("SELECT * FROM dispatcher.campaign_runs WHERE id = $1", row["run_id"])
    assert run is not None
    assert (run["status"], run["started_at"], run["expanded"], run["created_by"]) == ("queued", None, 0, "ann")
    jobs = await application.fetch("SELECT * FROM dispatcher.job_queue WHERE run_id = $1 ORDER BY id", row["run_id"])
    assert [(job["status"], job["attempts"], job["job_type"]) for job in jobs] == [("queued", 0, "sms_send_batch")] * 3
    assert [one for job in jobs for one in job["contact_ids"]] == ids
    counted = "SELECT count(*) FROM dispatcher.deliveries WHERE run_id = $1"
    assert await application.fetchval(counted, row["run_id"]) == 0
    # What is rolled back has never been.
    await transaction.rollback()
    gone = "SELECT count(*) FROM dispatcher.campaign_events WHERE run_id = $1"
    assert await application.fetchval(gone, row["run_id"]) == 0
    assert await application.fetchval("SELECT count(*) FROM dispatcher.job_queue WHERE run_id = $1", row["run_id"]) == 0


async def test_CA_01_deployment_and_what_belongs_to_it_are_one_transaction(
    campaigns: Live, application: Connection
) -> None:
    """Nothing is sent before the caller's own rows are there as well."""
    name = await campaigns.campaign((await campaigns.people(3))[0])
    async with application.transaction():
        run_id = await application.fetchval("SELECT run_id FROM dispatcher.deploy_campaign($1)", name)
        other = await campaigns.deployed(3)
        assert await campaigns.ended(other) == "completed"
        assert (
            await application.fetchval("SELECT status FROM dispatcher.campaign_runs WHERE id = $1", run_id) == "queued"
        )
    assert await campaigns.ended(run_id) == "completed"


@pytest.mark.parametrize(
    ("channel", "job_type", "status"),
    [
        ("email", "email_send_batch", None),
        ("sms", "sms_send_batch", "sent"),
        ("voice", "voice_call_batch", "called"),
        ("social", "social_post_batch", None),
    ],
)
async def test_CA_01_the_type_of_a_job_is_that_of_the_contract(
    campaigns: Live, channel: str, job_type: str, status: str | None
) -> None:
    template = await campaigns.template(f"type-{channel}", channel)
    run_id = await campaigns.deployed(2, channel=channel, template=template)
    assert await campaigns.ended(run_id) == "completed"
    assert [job["job_type"] for job in await campaigns.jobs(run_id)] == [job_type]
    if status is not None:
        assert await campaigns.items(run_id) == {status: 2}


# CA-02


async def test_CA_02_a_run_is_queued_then_running_then_completed(campaigns: Live) -> None:
    run_id = await campaigns.deployed(6, 2)
    assert await campaigns.ended(run_id) == "completed"
    assert await campaigns.transitions(run_id) == [(None, "queued"), ("queued", "running"), ("running", "completed")]
    moves = await campaigns.transitions(run_id, of_jobs=True)
    # The jobs that the test has put in the place of the one that was deployed begin without a line of their own.
    assert sorted(moves[1:], key=str) == [("locked", "completed")] * 3 + [("queued", "locked")] * 3
    run = await campaigns.run(run_id)
    assert run["created_at"] <= run["started_at"] <= run["finished_at"]
    assert (run["jobs"], run["jobs_completed"]) == (3, 3)


async def test_CA_02_a_run_of_which_all_jobs_fail_has_failed(campaigns: Live) -> None:
    template = await campaigns.template("refused", "whatsapp")
    run_id = await campaigns.deployed(4, 2, channel="whatsapp", template=template)
    assert await campaigns.ended(run_id) == "failed"
    assert await campaigns.statuses(run_id) == ("failed", ["failed", "failed"])


async def test_CA_02_a_run_of_which_some_jobs_fail_is_partial(campaigns: Live) -> None:
    template = await campaigns.template("divided", body=DIVIDED)
    status, ids = await campaigns.people(6)
    await campaigns.attributes(ids[:2], '{"n": 0}')
    await campaigns.attributes(ids[2:], '{"n": 5}')
    run_id = await campaigns.deploy(status, 2, template=template)
    assert await campaigns.ended(run_id) == "partial"
    assert await campaigns.statuses(run_id) == ("partial", ["failed", "completed", "completed"])
    assert (await campaigns.run(run_id))["sent"] == 4


async def test_CA_02_nobody_but_the_dispatcher_can_write_another_status(
    campaigns: Live, application: Connection
) -> None:
    run_id = await campaigns.deployed(1)
    await campaigns.ended(run_id)
    for table, column in (("campaign_runs", "id"), ("job_queue", "run_id")):
        with pytest.raises(Exception, match="status_known"):
            await application.execute(
                f"UPDATE dispatcher.{table} SET status = 'lost' WHERE {column} = $1",
                run_id,
            )


# CA-03


async def test_CA_03_good_reasons_to_skip_complete_a_job(campaigns: Live, application: Connection) -> None:
    status, ids = await campaigns.people(7)
    query = "SELECT contact_id, address FROM dispatcher.contact_addresses WHERE contact_id = ANY ($1)"
    address = {row["contact_id"]: row["address"] for row in await application.fetch(query, ids)}
    await application.execute(
        "INSERT INTO dispatcher.suppressions (kind, address, actor, reason) VALUES ('phone', $1, 'ann', 'asked')",
        address[ids[0]],
    )
    await application.execute(
        """INSERT INTO dispatcher.topic_preferences (kind, address, topic, subscribed, actor)
           VALUES ('phone', $1, 'news', false, 'bob')""",
        address[ids[1]],
    )
    await application.execute("DELETE FROM dispatcher.contact_addresses WHERE contact_id = $1", ids[2])
    run_id = await _deployed_meanwhile(campaigns, application, status, ids[3:5])
    assert await campaigns.ended(run_id) == "completed"
    assert await campaigns.statuses(run_id) == ("completed", ["completed"])
    items = await campaigns.items(run_id)
    assert items.pop("sent") == 2
    assert items.pop("skipped: contact is gone") == 1
    assert items.pop("skipped: no address") == 1
    assert sorted(reason.split(":")[1].strip() for reason in items) == ["duplicate", "suppressed", "unsubscribed"]
    run = await campaigns.run(run_id)
    assert (run["sent"], run["skipped"], run["failed"], run["intended"]) == (2, 5, 0, 7)
    assert sum((await campaigns.reasons(run_id)).values()) == 5
    assert set((await campaigns.written_to(run_id)).values()) == {1}


async def _deployed_meanwhile(campaigns: Live, application: Connection, status: str, others: list[int]) -> int:
    """A run of which one contact is deleted after its deployment, and of another somebody else has the key."""
    name = await campaigns.campaign(status, topic="news")
    async with application.transaction():
        run_id = await application.fetchval("SELECT run_id FROM dispatcher.deploy_campaign($1)", name)
        await application.execute("DELETE FROM dispatcher.contacts WHERE id = $1", others[0])
        await application.execute(
            """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
               SELECT dispatcher.campaign_key(r.id, $2::text, r.template_version, r.scheduled_for), 'sms', '+491',
                      '{"body": "mine"}' FROM dispatcher.campaign_runs r WHERE r.id = $1""",
            run_id,
            str(others[1]),
        )
    return int(run_id)


async def test_CA_03_a_job_is_partial_where_some_have_failed(campaigns: Live) -> None:
    template = await campaigns.template("some", body=DIVIDED)
    status, ids = await campaigns.people(4)
    await campaigns.attributes(ids[:1], '{"n": 0}')
    await campaigns.attributes(ids[1:], '{"n": 5}')
    run_id = await campaigns.deploy(status, template=template)
    assert await campaigns.ended(run_id) == "partial"
    assert await campaigns.statuses(run_id) == ("partial", ["partial"])
    (job,) = await campaigns.jobs(run_id)
    assert (job["sent"], job["failed"], job["finished_at"] is not None) == (3, 1, True)


async def test_CA_03_a_job_is_open_until_its_last_delivery_stands(campaigns: Live, application: Connection) -> None:
    """What waits for its time, a retry or a pause keeps it open."""
    status, _ = await campaigns.people(3)
    name = await campaigns.campaign(status)
    async with application.transaction():
        run_id = await application.fetchval("SELECT run_id FROM dispatcher.deploy_campaign($1)", name)
        await application.execute(PAUSE, run_id)
    other = await campaigns.deployed(3)
    assert await campaigns.ended(other) == "completed"
    assert (await campaigns.run(run_id))["finished_at"] is None
    await application.execute(RESUME, run_id)
    assert await campaigns.ended(run_id) == "completed"


# CA-04


async def test_CA_04_each_intended_item_has_one_terminal_row_by_a_key_that_can_be_computed(campaigns: Live) -> None:
    run_id = await campaigns.deployed(20, 5)
    await campaigns.ended(run_id)
    assert await campaigns.unsound(run_id) == []
    assert set((await campaigns.written_to(run_id)).values()) == {1}
    assert len(await campaigns.ids(run_id)) == 20
    # The contract's own: sha256(run_id | lead_id | asset_id | scheduled_for).
    matching = """SELECT count(*) FROM dispatcher.deliveries d JOIN dispatcher.campaign_runs r ON r.id = d.run_id
                   WHERE r.id = $1 AND d.idempotency_key = encode(sha256(convert_to(concat_ws('|', r.id, d.contact_id,
                         r.template_version, extract(epoch FROM r.scheduled_for)), 'UTF8')), 'hex')"""
    assert await campaigns.value(matching, run_id) == 20


async def test_CA_04_a_template_that_changes_after_deployment_changes_nothing(
    campaigns: Live, application: Connection
) -> None:
    template = await campaigns.template("changing", body="first")
    name = await campaigns.campaign((await campaigns.people(2))[0], template=template)
    async with application.transaction():
        run_id = await application.fetchval("SELECT run_id FROM dispatcher.deploy_campaign($1)", name)
        await campaigns.template("changing", body="second")
    await campaigns.ended(run_id)
    said = """SELECT DISTINCT m.parts ->> 'body' FROM dispatcher.captured_messages m
                JOIN dispatcher.deliveries d ON d.id = m.delivery_id WHERE d.run_id = $1 AND d.job_id IS NOT NULL"""
    assert [row[0] for row in await campaigns.database.fetch(said, run_id)] == ["first"]


# CA-06


async def test_CA_06_the_trace_of_the_contract_runs_as_it_is_written(campaigns: Live, application: Connection) -> None:
    name = await campaigns.campaign((await campaigns.people(4))[0])
    deploy = "SELECT run_id FROM dispatcher.deploy_campaign($1)"
    runs = [int(await application.fetchval(deploy, name)) for _ in range(2)]
    for run_id in runs:
        await campaigns.ended(run_id)
    campaign = await application.fetchval("SELECT id FROM dispatcher.campaigns WHERE name = $1", name)
    async with open_transaction(application, "SET LOCAL search_path = dispatcher"):
        rows = await application.fetch(TRACE.replace("CAMPAIGN_UUID", campaign))
    assert [row["run_id"] for row in rows] == [runs[1]] * 4 + [runs[0]] * 4
    assert {(row["run_status"], row["job_status"], row["attempts"], row["outbox_status"]) for row in rows} == {
        ("completed", "completed", 1, "sent")
    }
    assert all(row["provider_message_id"].startswith("capture-") for row in rows)
    assert len({row["outbox_id"] for row in rows}) == 8


async def test_CA_06_the_trace_by_jobs_shows_each_delivery_once(campaigns: Live) -> None:
    run_id = await campaigns.deployed(6, 2)
    await campaigns.ended(run_id)
    rows = await campaigns.database.fetch("SELECT * FROM dispatcher.campaign_trace WHERE run_id = $1", run_id)
    assert len(rows) == len({row["outbox_id"] for row in rows}) == 6
    jobs = {job["id"]: job["contact_ids"] for job in await campaigns.jobs(run_id)}
    assert all(row["contact_id"] in jobs[row["job_id"]] for row in rows)


async def test_CA_06_the_audit_log_has_every_transition_with_its_actor_and_its_time(campaigns: Live) -> None:
    run_id = await campaigns.deployed(2)
    assert await campaigns.value("SELECT dispatcher.pause_campaign_run($1, 'wait', p_actor => 'bob')", run_id) == "done"
    assert await campaigns.value("SELECT dispatcher.resume_campaign_run($1, p_actor => 'cat')", run_id) == "done"
    await campaigns.ended(run_id)
    rows = await campaigns.event_rows(run_id)
    assert all(first["at"] <= second["at"] for first, second in pairwise(rows))
    assert ("pause", "bob", "wait") in {(row["event"], row["actor"], row["reason"]) for row in rows}
    assert ("resume", "cat", "") in {(row["event"], row["actor"], row["reason"]) for row in rows}
    query = "SELECT * FROM dispatcher.campaign_audit_log WHERE run_id = $1 AND entity = 'delivery'"
    items = await campaigns.database.fetch(query, run_id)
    assert (
        sorted((row["status_before"] or "", row["status"]) for row in items)
        == [("", "queued")] * 2 + [("queued", "sent")] * 2
    )


async def test_CA_06_what_was_retried_is_in_the_log(campaigns: Live) -> None:
    template = await campaigns.template("held", "push")
    status, ids = await campaigns.people(2)
    await campaigns.database.fetch(
        "UPDATE dispatcher.contact_addresses SET kind = 'push' WHERE contact_id = ANY ($1)", ids
    )
    run_id = await campaigns.deploy(status, channel="push", template=template)
    await campaigns.until_counted(run_id, held=2)

    async def settled() -> bool:
        settle = "SELECT dispatcher.settle_held($1, 'failed', 'dan', 'looked it up')"
        return [await campaigns.value(settle, one) for one in await campaigns.ids(run_id)] == ["failed", "failed"]

    await until(settled, "they are settled")
    assert await campaigns.ended(run_id) == "failed"
    query = "SELECT * FROM dispatcher.campaign_audit_log WHERE run_id = $1 AND event = 'settle_failed'"
    assert {(row["actor"], row["reason"]) for row in await campaigns.database.fetch(query, run_id)} == {
        ("dan", "looked it up")
    }
