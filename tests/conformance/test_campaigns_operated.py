"""CA-07, CA-08, OB-04, OB-05 and OB-22 for campaigns: operated, observed, held, and duplicates."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.conformance.campaigns import Live, sending
from tests.features.campaigns.stage import CANCEL, PAUSE, RATE, REPLAY, RESUME, open_transaction
from tests.support.scene import Connection
from tests.support.waits import until

MARKED_MAX = 10
# So many go out at once, each for half a second.
SLOW = {
    "DISPATCHER_CHANNELS__SMS__FAULTS__LATENCY": "1",
    "DISPATCHER_CHANNELS__SMS__FAULTS__LATENCY_SECONDS": "0.5",
    "DISPATCHER_CHANNELS__SMS__MARKED_MAX": str(MARKED_MAX),
}
DEPLOY = "SELECT run_id FROM dispatcher.deploy_campaign($1)"
PUSH = "UPDATE dispatcher.contact_addresses SET kind = 'push' WHERE contact_id = ANY ($1)"


@pytest.fixture(scope="module")
async def campaigns(shared_url: str) -> AsyncIterator[Live]:
    """Campaigns on a program that all tests of the module share: SMS take half a second, voice calls do not."""
    async with sending(shared_url, **SLOW) as (_, live):
        yield live


@pytest.fixture
async def application(campaigns: Live) -> AsyncIterator[Connection]:
    """A session of an application's."""
    async with campaigns.database.session() as connection:
        yield connection


async def _quick(campaigns: Live, number: int, job_size: int = 0) -> int:
    """A run on a channel that takes no time."""
    template = await campaigns.template("quick", "voice")
    return await campaigns.deployed(number, job_size, channel="voice", template=template)


async def _quiet(campaigns: Live, run_id: int) -> None:
    """Wait until nothing of a run is on its way."""
    moving = """SELECT count(*) = 0 FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
                 WHERE d.run_id = $1 AND d.job_id IS NOT NULL AND s.status = 'queued'
                   AND (s.ready OR s.marked OR s.token IS NOT NULL)"""

    async def quiet() -> bool:
        return bool(await campaigns.value(moving, run_id))

    await until(quiet, "nothing is on its way")


async def _begun(campaigns: Live, run_id: int) -> int:
    """How many deliveries of a run have ever been marked."""
    query = """SELECT count(*) FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
                WHERE d.run_id = $1 AND d.job_id IS NOT NULL AND s.attempt > 0"""
    return int(await campaigns.value(query, run_id))


# CA-07


async def test_CA_07_pause_and_cancel_act_at_once_on_what_is_not_marked(campaigns: Live) -> None:
    """OB-05. What was marked goes on, and at most one more round of marks was under way."""
    run_id = await campaigns.deployed(60, 20)
    await campaigns.until_counted(run_id, sent=MARKED_MAX)
    at_pause = await _begun(campaigns, run_id)
    assert await campaigns.value(PAUSE, run_id) == "done"
    await _quiet(campaigns, run_id)
    begun = await _begun(campaigns, run_id)
    assert begun <= at_pause + 2 * MARKED_MAX
    # A paused run has no end and loses nothing.
    assert (await campaigns.run(run_id))["status"] == "running"
    assert sum((await campaigns.items(run_id)).values()) == 60
    assert await campaigns.value(RESUME, run_id) == "done"

    async def goes_on() -> bool:
        return await _begun(campaigns, run_id) > begun

    await until(goes_on, "it goes on")
    at_cancel = await _begun(campaigns, run_id)
    assert await campaigns.value(CANCEL, run_id) == "done"
    assert await campaigns.ended(run_id) == "partial"
    run = await campaigns.run(run_id)
    assert run["sent"] <= at_cancel + 2 * MARKED_MAX
    assert run["sent"] + run["cancelled"] == 60
    assert await campaigns.reasons(run_id) == {"cancelled: cancelled: its run was cancelled": run["cancelled"]}
    assert set((await campaigns.written_to(run_id)).values()) == {1}
    assert [(row["event"], row["actor"]) for row in await campaigns.event_rows(run_id) if row["event"] != "status"] == [
        (event, "postgres") for event in ("pause", "resume", "cancel")
    ]


async def test_CA_07_a_run_that_is_cancelled_before_anything_was_sent_has_failed(
    campaigns: Live, application: Connection
) -> None:
    name = await campaigns.campaign((await campaigns.people(5))[0])
    async with application.transaction():
        run_id = int(await application.fetchval(DEPLOY, name))
        assert await application.fetchval(CANCEL, run_id) == "done"
    assert await campaigns.ended(run_id) == "failed"
    assert await campaigns.items(run_id) == {"skipped: cancelled: its run was cancelled": 5}
    assert await campaigns.value(RESUME, run_id) == "failed"


async def test_CA_07_a_run_begins_when_it_is_scheduled(campaigns: Live, application: Connection) -> None:
    name = await campaigns.campaign((await campaigns.people(2))[0])
    scheduled = "SELECT run_id FROM dispatcher.deploy_campaign($1, now() + interval '1.5 s')"
    run_id = int(await application.fetchval(scheduled, name))
    other = await _quick(campaigns, 2)
    assert await campaigns.ended(other) == "completed"
    assert await campaigns.ended(run_id) == "completed"
    early = """SELECT count(*) FROM dispatcher.captured_messages m JOIN dispatcher.deliveries d ON d.id = m.delivery_id
                 JOIN dispatcher.campaign_runs r ON r.id = d.run_id
                WHERE r.id = $1 AND m.captured_at < r.scheduled_for"""
    assert await campaigns.value(early, run_id) == 0
    run = await campaigns.run(run_id)
    assert run["started_at"] >= run["scheduled_for"]


async def test_CA_07_an_audience_is_frozen_at_deployment(campaigns: Live, application: Connection) -> None:
    status, ids = await campaigns.people(3)
    name = await campaigns.campaign(status)
    async with application.transaction():
        run_id = int(await application.fetchval(DEPLOY, name))
        await application.execute("UPDATE dispatcher.contacts SET status = 'left' WHERE id = $1", ids[0])
        await campaigns.people(2, status=f"{status}-late")
        await application.execute("UPDATE dispatcher.contacts SET status = $1 WHERE status = $1 || '-late'", status)
    assert await campaigns.ended(run_id) == "completed"
    written = "SELECT contact_id FROM dispatcher.deliveries WHERE run_id = $1 AND job_id IS NOT NULL ORDER BY 1"
    assert [row[0] for row in await campaigns.database.fetch(written, run_id)] == ids


async def test_CA_07_explicit_ids_and_filters_are_one_audience(campaigns: Live, application: Connection) -> None:
    status, ids = await campaigns.people(4)
    _, others = await campaigns.people(3)
    name = await campaigns.campaign(status)
    audience = f'{{"status": "{status}", "contacts": [{others[0]}, "{status}-1"], "exclude": [{ids[3]}]}}'
    await application.execute("UPDATE dispatcher.campaigns SET audience = $2::jsonb WHERE name = $1", name, audience)
    run_id = int(await application.fetchval(DEPLOY, name))
    assert sorted(one for job in await campaigns.jobs(run_id) for one in job["contact_ids"]) == [*ids[:3], others[0]]
    assert await campaigns.ended(run_id) == "completed"


async def test_CA_07_an_audience_of_nobody_is_refused(campaigns: Live, application: Connection) -> None:
    name = await campaigns.campaign("nobody-at-all")
    with pytest.raises(asyncpg.PostgresError, match="nobody is in it"):
        await application.fetchval(DEPLOY, name)
    assert await campaigns.value("SELECT count(*) FROM dispatcher.campaign_runs WHERE campaign = $1", name) == 0


async def test_CA_07_a_test_send_is_in_no_total(campaigns: Live, application: Connection) -> None:
    status, ids = await campaigns.people(2)
    template = await campaigns.template("quick", "voice")
    name = await campaigns.campaign(status, channel="voice", template=template)
    send = "SELECT dispatcher.test_campaign($1, '{+4917011111111,+4917022222222,+4917011111111}')"
    tested = int(await application.fetchval(send, name))
    assert await campaigns.ended(tested) == "completed"
    run = await campaigns.run(tested)
    assert (run["test"], run["sent"], run["intended"]) == (True, 2, 2)
    said = """SELECT m.recipient, m.parts ->> 'body' AS body FROM dispatcher.captured_messages m
                JOIN dispatcher.deliveries d ON d.id = m.delivery_id WHERE d.run_id = $1 AND d.job_id IS NOT NULL"""
    assert sorted(tuple(row) for row in await campaigns.database.fetch(said, tested)) == [
        ("+4917011111111", "Hello Ann 1"),
        ("+4917022222222", "Hello Ann 1"),
    ]
    # Whoever is tested first gets the message all the same, and nothing of the test is counted there.
    change = "UPDATE dispatcher.contact_addresses SET address = $2, written = $2 WHERE contact_id = $1"
    await application.execute(change, ids[0], "+4917011111111")
    run_id = int(await application.fetchval(DEPLOY, name))
    assert await campaigns.ended(run_id) == "completed"
    run = await campaigns.run(run_id)
    assert (run["test"], run["sent"], run["intended"]) == (False, 2, 2)


async def test_CA_07_a_rate_that_changes_acts_while_it_runs(campaigns: Live, application: Connection) -> None:
    template = await campaigns.template("quick", "voice")
    run_id = await campaigns.deployed(40, 40, channel="voice", template=template, rate=2.0)
    await campaigns.until_counted(run_id, sent=2)
    assert (await campaigns.run(run_id))["sent"] < 20
    assert await campaigns.value(RATE, run_id, 1000.0) == "done"
    assert await campaigns.ended(run_id) == "completed"
    rows = await campaigns.event_rows(run_id)
    assert [(row["status_before"], row["status"]) for row in rows if row["event"] == "rate"] == [("2", "1000")]


# CA-08


async def test_CA_08_progress_can_be_read_at_any_time_from_one_row(campaigns: Live) -> None:
    run_id = await _quick(campaigns, 2000, 100)
    seen: list[int] = []

    async def over() -> bool:
        run = await campaigns.run(run_id)
        seen.append(run["sent"] + run["failed"] + run["skipped"])
        assert seen[-1] <= run["expanded"] <= run["intended"] == 2000
        return run["finished_at"] is not None

    await until(over, "it has ended")
    assert seen == sorted(seen)
    assert seen[-1] == 2000
    assert (await campaigns.run(run_id))["pace"] > 0
    assert await campaigns.unsound(run_id) == []


# OB-04


async def test_OB_04_a_duplicate_is_counted_as_skipped_for_its_job_and_says_who_has_the_key(
    campaigns: Live, application: Connection
) -> None:
    status, ids = await campaigns.people(3)
    template = await campaigns.template("quick", "voice")
    name = await campaigns.campaign(status, channel="voice", template=template)
    taken = """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
               SELECT dispatcher.campaign_key(r.id, $2::text, r.template_version, r.scheduled_for), 'voice', '+491',
                      '{"body": "mine"}' FROM dispatcher.campaign_runs r WHERE r.id = $1 RETURNING id"""
    async with application.transaction():
        run_id = int(await application.fetchval(DEPLOY, name))
        other = await application.fetchval(taken, run_id, str(ids[1]))
    assert await campaigns.ended(run_id) == "completed"
    (job,) = await campaigns.jobs(run_id)
    assert (job["sent"], job["skipped"], job["attempts"]) == (2, 1, 1)
    assert await campaigns.items(run_id) == {"called": 2, f"skipped: duplicate: delivery {other} has its key": 1}


async def test_OB_04_a_deployment_by_a_key_that_was_used_answers_the_run_that_has_it(
    campaigns: Live, application: Connection
) -> None:
    template = await campaigns.template("quick", "voice")
    name = await campaigns.campaign((await campaigns.people(2))[0], channel="voice", template=template)
    deploy = "SELECT run_id, duplicate FROM dispatcher.deploy_campaign($1, NULL, 'once')"
    first = await application.fetchrow(deploy, name)
    assert first is not None
    async with campaigns.database.session() as beside:
        second = await beside.fetchrow(deploy, name)
    assert (second["run_id"], first["duplicate"], second["duplicate"]) == (first["run_id"], False, True)
    assert await campaigns.ended(first["run_id"]) == "completed"
    assert len(await campaigns.jobs(first["run_id"])) == 1


# OB-22


async def test_OB_22_a_run_is_open_while_one_is_held_and_shows_how_many(campaigns: Live) -> None:
    template = await campaigns.template("unknown", "push")
    status, ids = await campaigns.people(3)
    await campaigns.database.fetch(PUSH, ids)
    run_id = await campaigns.deploy(status, channel="push", template=template)
    await campaigns.until_counted(run_id, held=3)
    (job,) = await campaigns.jobs(run_id)
    run = await campaigns.run(run_id)
    assert (run["status"], job["status"], job["held"], job["finished_at"]) == ("running", "locked", 3, None)
    settle = "SELECT dispatcher.settle_held($1, $2, 'ann', 'looked it up')"
    first, second, third = await campaigns.ids(run_id)
    assert await campaigns.value(settle, first, "sent") == "settled"
    await campaigns.until_counted(run_id, held=2, sent=1)
    assert (await campaigns.run(run_id))["status"] == "running"
    assert await campaigns.value(settle, second, "sent") == "settled"
    assert await campaigns.value(settle, third, "failed") == "settled"
    assert await campaigns.ended(run_id) == "partial"


# CA-03: replay


async def test_CA_03_a_replay_reopens_item_job_and_run_and_is_audited(campaigns: Live, application: Connection) -> None:
    template = await campaigns.template("mended", "voice", body="{{ 10 | divided_by: contact.attributes.n }}")
    status, ids = await campaigns.people(4)
    await campaigns.attributes(ids[:1], '{"n": 0}')
    await campaigns.attributes(ids[1:], '{"n": 5}')
    run_id = await campaigns.deploy(status, 2, channel="voice", template=template)
    assert await campaigns.ended(run_id) == "partial"
    async with open_transaction(application, REPLAY, run_id):
        pass
    await until(lambda: _ended_again(campaigns, run_id), "it has ended again")
    # What was written is sent as it was written: it fails again.
    assert await campaigns.ended(run_id) == "partial"
    assert await campaigns.statuses(run_id) == ("partial", ["partial", "completed"])
    written = await campaigns.written_to(run_id)
    assert sorted(written.values()) == [1, 1, 1]
    assert "replay" in {row["event"] for row in await campaigns.event_rows(run_id)}


async def _ended_again(campaigns: Live, run_id: int) -> bool:
    ends = """SELECT count(*) FROM dispatcher.operator_actions o JOIN dispatcher.deliveries d ON d.id = o.delivery_id
               WHERE d.run_id = $1"""
    left = "SELECT count(*) FROM dispatcher.job_results"
    return (
        await campaigns.value(ends, run_id) == 1
        and (await campaigns.items(run_id))["queued"] == 0
        and await campaigns.value(left) == 0
    )
