"""SE-01 to SE-09: sequences, driven through the program over HTTP and SQL."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.conformance.outbox import QUICK
from tests.support.caller import Answer, Caller, make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until

BRISK = QUICK | {"DISPATCHER_WALK__POLL_SECONDS": "0.1", "DISPATCHER_RETRY__BASE_SECONDS": "0.05"}
STEP = {"dayOffset": 0, "stepOrder": 1, "channel": "sms", "content": "Hello {{ contact.name }}", "name": "first"}
LATER = STEP | {"dayOffset": 3, "stepOrder": 2, "name": "second"}


class Drips:
    """Sequences, contacts and enrolments over HTTP; and what the database knows of them."""

    def __init__(self, program: Program, connection: Connection) -> None:
        self.program = program
        self.connection = connection
        self.api = Caller(program, make_key(program))

    def put(self, *steps: dict[str, Any], name: str = "drip", **settings: Any) -> Answer:
        """Save a draft."""
        return self.api.call("PUT", f"/sequences/{name}", {"steps": list(steps), **settings})

    def publish(self, *steps: dict[str, Any], name: str = "drip", **settings: Any) -> int:
        """Save a draft and publish it."""
        saved = self.put(*steps, name=name, **settings)
        assert saved.status in (200, 201), saved
        return int(self.api.call("POST", f"/sequences/{name}/publish").json["version"])

    def contact(self, key: str, **fields: Any) -> None:
        """A contact with a phone number."""
        number = "+49170" + "".join(str(ord(one) % 10) for one in key)
        said = {"name": key.title(), "addresses": [{"kind": "phone", "address": number}]} | fields
        assert self.api.call("PUT", f"/contacts/{key}", said).status in (200, 201)

    def enrol(self, key: str = "ann", name: str = "drip") -> Answer:
        """An enrolment."""
        return self.api.post(f"/sequences/{name}/enrolments", {"contactId": key})

    def enrolment(self, number: int) -> Any:
        """It, with its logs."""
        return self.api.get(f"/enrolments/{number}").json

    async def until(self, number: int, is_so: Callable[[Any], bool]) -> Any:
        """Wait until it stands so."""

        async def there() -> Any:
            found = self.enrolment(number)
            return found if is_so(found) else None

        try:
            return await until(there, f"enrolment {number} is there")
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.enrolment(number)}") from late

    async def logged(self, number: int, *statuses: str) -> Any:
        """Wait until its logs are these."""
        return await self.until(number, lambda found: [one["status"] for one in found["logs"]] == [*statuses])

    async def pass_days(self, number: int, days: float) -> None:
        """Let days go by for an enrolment that waits."""
        await self.connection.execute(
            """UPDATE dispatcher.runs SET anchor = anchor - $2::interval, created_at = created_at - $2::interval,
                      available_at = available_at - $2::interval,
                      state = jsonb_set(state, '{cursor}', (
                          SELECT jsonb_object_agg(key, jsonb_set(value, '{until}', to_jsonb(
                                     (value ->> 'until')::float8 - extract(epoch FROM $2::interval)::float8)))
                            FROM jsonb_each(state -> 'cursor')))
                WHERE id = $1""",
            number,
            timedelta(days=days),
        )


@pytest.fixture
async def drips(connection: Connection, program: Program) -> Drips:
    """Sequences on a program that runs."""
    await program.start(**BRISK)
    return Drips(program, connection)


async def test_SE_01_a_draft_is_changed_and_what_is_published_never(drips: Drips) -> None:
    saved = drips.put(STEP, LATER)
    assert (saved.status, saved.json["status"]) == (201, "draft")
    assert drips.publish(STEP, LATER) == 1
    assert drips.api.get("/sequences/drip").json["status"] == "active"
    frozen = "SELECT plan::text FROM dispatcher.plan_versions WHERE number = 1"
    before = await drips.connection.fetchval(frozen)
    added = drips.api.post("/sequences/drip/steps", STEP | {"stepOrder": 3, "name": "third", "dayOffset": 9})
    assert [one["name"] for one in added.json["steps"]] == ["first", "second", "third"]
    assert drips.api.get("/sequences/drip").json["isChanged"]
    assert await drips.connection.fetchval(frozen) == before
    assert drips.publish(STEP, LATER) == 2
    bad = drips.put(
        STEP | {"dayOffset": 0, "sendHour": 9, "channel": "smss"},
        STEP | {"name": "second", "content": "{{ order.id }}"},
        STEP | {"name": "third", "stepOrder": 2, "content": None},
        timeZone="Europe/Berlim",
        stopIf="contact.x ==",
    )
    assert bad.status == 400
    paths = {one["path"] for one in bad.json["faults"]}
    assert {"$.timeZone", "$.steps[1].stepOrder", "$.steps[2]"} <= paths
    for field, value in (("dayOffset", -1), ("sendHour", 24), ("stepOrder", -1)):
        refused = drips.put(STEP | {field: value})
        assert (refused.status, refused.json["faults"][0]["path"]) == (400, f"$.steps[0].{field}")


async def test_SE_01_publishing_while_somebody_edits_is_refused(drips: Drips) -> None:
    tag = drips.put(STEP).headers["etag"]
    assert drips.api.post("/sequences/drip/steps", LATER).status == 200
    stale = drips.api.call("PUT", "/sequences/drip", {"steps": [STEP]}, [("if-match", tag)])
    assert stale.status == 412


async def test_SE_02_only_an_active_sequence_takes_contacts(drips: Drips) -> None:
    drips.contact("ann")
    drips.put()
    assert drips.api.call("POST", "/sequences/drip/publish").status == 409
    drips.put(STEP)
    refused = drips.enrol()
    assert (refused.status, "draft" in refused.json["detail"]) == (409, True)
    drips.publish(STEP)
    assert drips.api.post("/sequences/drip/pause", {"reason": "x"}).status == 200
    refused = drips.enrol()
    assert (refused.status, "paused" in refused.json["detail"]) == (409, True)
    assert drips.api.post("/sequences/drip/resume", {"reason": "x"}).status == 200
    assert drips.enrol().status == 201


async def test_SE_03_a_batch_unites_filters_and_ids_and_takes_exclusions_out(drips: Drips) -> None:
    drips.publish(STEP | {"dayOffset": 1}, useContactTimeZone=True)
    for key in ("ann", "bob", "cid", "dan", "eve"):
        drips.contact(
            key, company="Lee" if key in ("ann", "bob", "cid") else None, tags=["vip"] if key != "cid" else []
        )
    await drips.connection.execute("UPDATE dispatcher.contacts SET time_zone = 'Mars/Base' WHERE key = 'ann'")
    drips.enrol("bob")
    asked = {"company": "Lee", "tag": "vip", "contactIds": ["dan", "eve", "dan", "nobody"], "exclude": ["eve"]}
    answer = drips.api.post("/sequences/drip/batch-enroll", asked).json
    assert (answer["success"], answer["data"]["enrolledCount"], answer["data"]["skippedCount"]) == (True, 2, 2)
    reasons = {one["reason"]: one for one in answer["data"]["reasons"]}
    assert reasons["already enrolled"]["count"] == 1
    assert reasons["there is no such contact"]["contacts"] == ["nobody"]
    assert reasons["unknown time zone: UTC is used"]["count"] == 1
    keys = await drips.connection.fetch(
        """SELECT c.key FROM dispatcher.sequence_enrollments e JOIN dispatcher.contacts c ON c.id = e.contact_id
            ORDER BY 1"""
    )
    assert [row["key"] for row in keys] == ["ann", "bob", "dan"]
    wrong = drips.api.post("/sequences/drip/batch-enroll", {"exclude": ["ann"]})
    assert wrong.status == 400


async def test_SE_04_ten_connections_at_once_make_one_enrolment(drips: Drips, url: str) -> None:
    drips.publish(STEP | {"dayOffset": 1})
    drips.contact("ann")
    several = [await asyncpg.connect(url) for _ in range(10)]
    try:
        rows = await asyncio.gather(*(one.fetchrow("SELECT * FROM dispatcher.enrol('drip', 'ann')") for one in several))
    finally:
        for one in several:
            await one.close()
    found = [dict(row) for row in rows if row is not None]
    assert len({row["enrollment_id"] for row in found}) == 1
    assert sorted(row["duplicate"] for row in found) == [False] + [True] * 9


async def test_SE_04_a_contact_of_another_tenant_is_not_found(drips: Drips) -> None:
    drips.publish(STEP)
    await drips.connection.execute("SELECT dispatcher.put_contact('acme', 'default', 'zoe', '{}', 'put', NULL, 'x')")
    number = await drips.connection.fetchval("SELECT id FROM dispatcher.contacts WHERE key = 'zoe'")
    assert drips.enrol("zoe").status == 404
    assert drips.api.post("/sequences/drip/enrolments", {"contactId": number}).status == 404
    batch = drips.api.post("/sequences/drip/batch-enroll", {"contactIds": [number]}).json["data"]
    assert (batch["enrolledCount"], batch["skippedCount"]) == (0, 1)


async def test_SE_05_a_step_is_due_on_its_day_at_its_hour_in_the_zone_used(drips: Drips) -> None:
    drips.publish(STEP | {"dayOffset": 3, "sendHour": 9}, timeZone="Asia/Tokyo", useContactTimeZone=True)
    drips.contact("ann")
    drips.contact("bob", time_zone="America/New_York")
    for key, zone in (("ann", "Asia/Tokyo"), ("bob", "America/New_York")):
        number = drips.enrol(key).json["id"]
        is_right = await drips.connection.fetchval(
            """SELECT available_at = ((anchor AT TIME ZONE $2)::date + 3 + time '09:00') AT TIME ZONE $2
                 FROM dispatcher.runs WHERE id = $1""",
            number,
            zone,
        )
        assert is_right


async def test_SE_05_a_time_that_has_passed_means_now(drips: Drips) -> None:
    drips.publish(STEP | {"sendHour": 0})
    drips.contact("ann")
    await drips.logged(drips.enrol().json["id"], "completed")


async def test_SE_06_a_log_is_written_before_the_send_and_says_what_became_of_it(drips: Drips) -> None:
    drips.publish(STEP, LATER | {"dayOffset": 0, "channel": "push"})
    drips.contact("ann")
    assert drips.api.post("/pauses", {"scope": "channel", "name": "sms", "reason": "x"}).status == 201
    number = drips.enrol().json["id"]
    pending = (await drips.logged(number, "pending"))["logs"][0]
    assert (pending["contentSnapshot"], pending["sentAt"]) == ("Hello {{ contact.name }}", None)
    (pause,) = drips.api.get("/pauses?scope=channel").json["pauses"]
    drips.api.post(f"/pauses/{pause['id']}/resume", {"reason": "x"})
    done = await drips.logged(number, "completed", "skipped")
    assert done["logs"][0]["sentAt"] is not None
    assert done["logs"][1]["error"] == "no address"
    assert (await drips.until(number, lambda found: found["status"] == "completed"))["nextStepAt"] is None


@pytest.mark.parametrize("on_failure", ["pause", "continue"])
async def test_SE_07_a_failed_step_pauses_the_enrolment_or_is_passed(
    connection: Connection, program: Program, on_failure: str
) -> None:
    await program.start(**BRISK, DISPATCHER_CHANNELS__SMS__FAULTS__REFUSE="1.0")
    drips = Drips(program, connection)
    drips.publish(STEP, STEP | {"stepOrder": 2, "name": "push", "channel": "push"}, onFailure=on_failure)
    drips.contact("ann", addresses=[{"kind": "phone", "address": "+4917012345"}, {"kind": "push", "address": "token"}])
    number = drips.enrol().json["id"]
    if on_failure == "continue":
        await drips.logged(number, "failed", "completed")
        return
    found = await drips.until(number, lambda found: found["status"] == "paused")
    assert [one["status"] for one in found["logs"]] == ["failed"]
    assert found["reason"]


async def test_SE_08_pause_resume_cancel_and_again(drips: Drips) -> None:
    drips.publish(STEP | {"dayOffset": 1})
    drips.contact("ann")
    number = drips.enrol().json["id"]
    why = {"reason": "he has called"}
    assert drips.api.post(f"/enrolments/{number}/pause", why).json["answer"] == "done"
    assert drips.enrolment(number)["status"] == "paused"
    assert drips.api.post(f"/enrolments/{number}/resume", why).json["answer"] == "done"
    assert drips.api.post("/sequences/drip/pause", why).json["answer"] == "done"
    assert drips.enrolment(number)["status"] == "paused"
    await drips.pass_days(number, 2)
    parked = "SELECT parked_by IS NOT NULL FROM dispatcher.runs WHERE id = $1"

    async def is_parked() -> bool:
        return bool(await drips.connection.fetchval(parked, number))

    await until(is_parked, "it is parked")
    assert drips.enrolment(number)["logs"] == []
    assert drips.api.post("/sequences/drip/resume", {"reason": "x"}).json["answer"] == "done"
    await drips.until(number, lambda found: found["status"] == "completed")
    again = drips.enrol()
    assert (again.status, again.json["duplicate"]) == (201, False)
    assert drips.api.post(f"/enrolments/{again.json['id']}/cancel", why).json["answer"] == "cancelled"
    assert drips.api.post(f"/enrolments/{again.json['id']}/resume", why).status == 409


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_SE_09_a_restart_loses_no_timer(drips: Drips, second: Program, how: str) -> None:
    drips.publish(STEP, LATER)
    drips.contact("ann")
    number = drips.enrol().json["id"]
    # The first step is through, and the walk waits for the next one.
    found = await drips.until(number, lambda one: one["currentStepIndex"] == 1 and one["nextStepAt"] is not None)
    await (drips.program.stop() if how == "stop" else drips.program.kill())
    await drips.pass_days(number, 4)
    await second.start(**BRISK)
    over = "SELECT status FROM dispatcher.runs WHERE id = $1"

    async def completed() -> bool:
        return str(await drips.connection.fetchval(over, number)) == "completed"

    await until(completed, "the enrolment is completed")
    sent = await drips.connection.fetch(
        "SELECT status FROM dispatcher.sequence_step_logs WHERE enrollment_id = $1", number
    )
    assert [row["status"] for row in sent] == ["completed", "completed"]
    assert found["currentStepIndex"] == 1


async def test_WF_16_a_wave_of_enrolments_does_not_delay_a_transactional_workflow(drips: Drips) -> None:
    """With thousands of enrolments due, a run that is triggered behind them is walked before most of them."""
    drips.publish(STEP)
    await drips.program.stop()
    await drips.connection.execute(
        """INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, status, updated_by, name)
           SELECT 'default', 'default', 'c' || n, 'active', 'test', 'C' FROM generate_series(1, 5000) AS n"""
    )
    await drips.connection.fetch("SELECT * FROM dispatcher.enrol_audience('drip', '{\"all\": true}')")
    definition = {
        "name": "urgent",
        "entryNodeId": "say",
        "nodes": [{"id": "say", "type": "sms", "to": "+4917099999", "body": "now", "lane": "transactional"}],
    }
    await drips.program.start(**BRISK | {"DISPATCHER_WALK__BATCH_MAX": "50"})
    assert drips.api.call("PUT", "/workflows/urgent", definition).status == 201
    drips.api.call("POST", "/workflows/urgent/activate")
    run = drips.api.post("/workflows/urgent/triggers", {}).json["execution_id"]
    ordered = "SELECT EXISTS (SELECT FROM dispatcher.deliveries WHERE run_id = $1)"

    async def there() -> bool:
        return bool(await drips.connection.fetchval(ordered, run))

    await until(there, "the run has ordered its message")
    left = "SELECT count(*) FROM dispatcher.runs WHERE contact_id IS NOT NULL AND started_at IS NULL"
    assert await drips.connection.fetchval(left) > 0
    lanes = await drips.connection.fetch("SELECT DISTINCT lane, contact_id IS NULL AS urgent FROM dispatcher.runs")
    assert {(row["lane"], row["urgent"]) for row in lanes} == {(0, True), (2, False)}
