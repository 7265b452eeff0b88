"""Campaign runs over HTTP: progress, pause, resume, cancel, rate, replay, jobs, trace, audit log and check."""

from typing import Any

from tests.features.campaigns.surface import deploy, ended, prepare, put, write_contacts, write_template
from tests.support.caller import Answer, Caller
from tests.support.explained import explained
from tests.support.scene import Connection
from tests.support.walking import walk

LATER = "2040-01-01T00:00:00Z"


def act(admin: Caller, run: int, verb: str, **fields: object) -> Answer:
    """Do something to a run."""
    return admin.post(f"/campaign-runs/{run}/{verb}", {"reason": "a test"} | fields)


async def test_a_run_shows_its_counters_and_reasons(admin: Caller) -> None:
    prepare(admin, "shown", 5, topic="news")
    write_contacts(admin, "shown", 2, key="shown-mail", addresses=[{"address": "shown@example.org"}])
    number = "+4917" + f"{sum(map(ord, 'shown')) * 1000:08d}"
    unsubscribed = {"addresses": [number], "topic": "news", "reason": "a test"}
    assert admin.post("/topics/unsubscribe", unsubscribed).status == 200
    run = await ended(admin, deploy(admin, "shown", idempotency_key="shown"))
    assert (run["status"], run["campaign"], run["test"], run["idempotency_key"]) == (
        "completed",
        "shown",
        False,
        "shown",
    )
    assert (run["intended"], run["sent"] + run["skipped"], run["waiting"], run["held"]) == (6, 6, 0, 0)
    assert run["reasons"] == [
        {"outcome": "skipped", "reason": "no address", "count": 1},
        {"outcome": "skipped", "reason": "unsubscribed: from news", "count": 1},
    ]
    assert (run["jobs"], run["jobs_completed"], run["seconds_left"], run["pace"]) == (1, 1, 0.0, 0.0)
    listed = walk(admin, "/campaign-runs?campaign=shown&status=completed&test=false")
    assert [one["id"] for one in listed] == [run["id"]]
    assert not walk(admin, "/campaign-runs?campaign=shown&test=true")
    assert admin.get("/campaign-runs/99999999").status == 404
    assert admin.get("/campaign-runs/nobody").status == 404


async def test_a_run_is_paused_resumed_and_cancelled(admin: Caller) -> None:
    prepare(admin, "acted")
    run = deploy(admin, "acted", scheduled_for=LATER)
    said = {"pause": "is paused", "resume": "goes on", "cancel": "is cancelled: what is not sent is skipped"}
    for verb, words in said.items():
        first, again = act(admin, run, verb), act(admin, run, verb)
        assert (first.status, first.json["message"], again.status) == (200, f"campaign run {run} {words}", 409)
    found = await ended(admin, run)
    assert (found["status"], found["cancelled"], found["cancelled_count"], found["sent"]) == ("failed", True, 3, 0)
    late = [act(admin, run, verb) for verb in ("pause", "resume", "cancel")]
    assert [(one.status, one.json["answer"]) for one in late] == [(409, "failed")] * 3
    assert late[1].json["detail"] == f"campaign run {run} has failed: too late"
    refused = act(admin, run, "replay")
    assert (refused.status, refused.json["answer"]) == (409, "cancelled")
    assert "was cancelled" in refused.json["detail"]
    assert act(admin, 99_999_999, "pause").status == 404


async def test_a_cancelled_run_is_not_resumed(admin: Caller, inside: Connection) -> None:
    prepare(admin, "stopped")
    run = deploy(admin, "stopped", scheduled_for=LATER)
    async with inside.transaction():
        # The closer skips what is locked: the run stays open.
        await inside.execute("SELECT FROM dispatcher.job_queue WHERE run_id = $1 FOR UPDATE", run)
        assert act(admin, run, "cancel").status == 200
        for verb in ("pause", "resume"):
            assert act(admin, run, verb).json["answer"] == "cancelled"
        assert admin.post(f"/campaign-runs/{run}/rate", {"rate": 5}).json["answer"] == "cancelled"
    await ended(admin, run)


async def test_the_rate_of_a_run_is_changed(admin: Caller) -> None:
    prepare(admin, "rated", 3, rate=0.01)
    run = deploy(admin, "rated")
    shown = admin.get(f"/campaign-runs/{run}").json
    assert (shown["rate"], shown["status"] in ("queued", "running")) == (0.01, True)
    assert admin.post(f"/campaign-runs/{run}/rate", {"rate": 0.01}).json["answer"] == "same"
    assert list(admin.post(f"/campaign-runs/{run}/rate", {"rate": 0}).faults) == ["$.rate"]
    assert admin.post(f"/campaign-runs/{run}/rate", {}).json["message"] == f"campaign run {run} has its new rate"
    assert (await ended(admin, run))["sent"] == 3
    (changed,) = [one for one in walk(admin, f"/campaign-runs/{run}/audit?entity=run") if one["event"] == "rate"]
    assert (changed["status_before"], changed["status"]) == ("0.01", None)


async def test_failed_deliveries_are_replayed_once_each(admin: Caller, inside: Connection) -> None:
    prepare(admin, "replayed", 5, "{{ contact.attributes.missing }}")
    run = await ended(admin, deploy(admin, "replayed"))
    assert (run["status"], run["failed"]) == ("failed", 5)
    first = act(admin, run["id"], "replay", limit=2)
    assert (first.json["replayed"], first.json["next_cursor"] is not None) == (2, True)
    rest = act(admin, run["id"], "replay", cursor=first.json["next_cursor"])
    assert rest.json == {"replayed": 3, "next_cursor": None}

    def at_rest() -> bool:
        """Counters follow the rows: until then the run may still be seen as it ended before."""
        again, checked = (admin.get(f"/campaign-runs/{run['id']}{what}").json for what in ("", "/check"))
        return (again["failed"], again["status"], checked["broken"]) == (5, "failed", [0, 0, 0])

    await admin.program.until(at_rest, "each has failed again")
    assert list(act(admin, run["id"], "replay", cursor="nonsense").faults) == ["$.cursor"]
    audited = walk(admin, f"/campaign-runs/{run['id']}/audit")
    assert [(one["event"], one["reason"]) for one in audited if one["event"] == "replay"] == [("replay", "a test")]


async def test_jobs_trace_and_audit_log_are_walked_page_by_page(admin: Caller, inside: Connection) -> None:
    write_template(admin, "walked", "Hi")
    await inside.execute(
        """WITH made AS (
               INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, status, updated_by, tags)
               SELECT 'default', 'default', 'walked-' || n, 'active', 'test', '{walked}'
                 FROM generate_series(1, 2100) AS n
               RETURNING id)
           INSERT INTO dispatcher.contact_addresses
                       (contact_id, position, tenant_id, workspace_id, kind, address, written)
           SELECT id, 1, 'default', 'default', 'phone', '+4918' || id, '+4918' || id FROM made WHERE id % 2 = 0"""
    )
    assert put(admin, "walked").status == 201
    run = (await ended(admin, deploy(admin, "walked")))["id"]
    jobs = walk(admin, f"/campaign-runs/{run}/jobs")
    assert [one["intended"] for one in jobs] == [1000, 1000, 100]
    assert {one["status"] for one in jobs} == {"completed"}
    assert not walk(admin, f"/campaign-runs/{run}/jobs?status=dead")
    traced = all_of(admin, f"/campaign-runs/{run}/trace", 500)
    assert len({one["outbox_id"] for one in traced}) == len(traced) == 2100
    assert [one["job_id"] for one in traced] == sorted(one["job_id"] for one in traced)
    skipped = all_of(admin, f"/campaign-runs/{run}/trace?status=skipped", 500)
    assert {one["error"] for one in skipped} == {"no address"}
    assert len({one["provider_message_id"] for one in traced} - {None}) == 2100 - len(skipped)
    audited = all_of(admin, f"/campaign-runs/{run}/audit", 499)
    expected = await inside.fetch("SELECT count(*) FROM dispatcher.campaign_audit_log WHERE run_id = $1", run)
    assert len(audited) == expected[0][0] == len({tuple(one.values()) for one in audited})
    entities = [one["entity"] for one in audited]
    assert entities == sorted(entities, key=lambda one: one == "delivery")
    assert len(all_of(admin, f"/campaign-runs/{run}/audit?entity=delivery", 500)) == entities.count("delivery")
    assert len(all_of(admin, f"/campaign-runs/{run}/audit?entity=job", 500)) == entities.count("job") == 9
    assert list(admin.get(f"/campaign-runs/{run}/audit?cursor=nonsense").faults) == ["query.cursor"]


def all_of(admin: Caller, path: str, limit: int) -> list[dict[str, Any]]:
    """All rows of a list, by pages of a size."""
    sign, found, cursor = "&" if "?" in path else "?", list[dict[str, Any]](), ""
    while True:
        page = admin.get(f"{path}{sign}limit={limit}{cursor}").json
        rows, more = page.values()
        assert len(rows) <= limit
        found += rows
        if more is None:
            return found
        cursor = f"&cursor={more}"


async def test_what_waits_for_its_time_is_traced_as_a_job(admin: Caller) -> None:
    prepare(admin, "later")
    run = deploy(admin, "later", scheduled_for=LATER)
    (row,) = walk(admin, f"/campaign-runs/{run}/trace")
    assert (row["job_status"], row["outbox_id"], row["recipient"]) == ("queued", None, None)
    found = admin.get(f"/campaign-runs/{run}/check").json
    assert (found["status"], found["items"], found["broken"]) == ("queued", 3, [1, 3, 0])
    assert {one["fault"] for one in found["breaches"]} == {"the run is queued", "has no row"}


async def test_progress_reads_the_run_and_its_reasons_alone(admin: Caller, inside: Connection) -> None:
    from dispatcher.features.campaigns.runs import store  # noqa: PLC0415 - its statement is what is looked at

    # As in the program's sessions: once its statistics are known, so small a table would be read whole.
    await inside.execute("SET enable_seqscan = off")
    plan = await explained(inside, (store._SQL["show"], (1,)))
    assert "campaign_runs_pkey" in plan
    for table in ("job_queue", "deliveries", "delivery_state", "job_results", "campaign_events"):
        assert table not in plan
