"""Schedules over HTTP: saved, seen, switched and deleted, with tags and with every fault."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support import flows
from tests.support.caller import Answer, Caller
from tests.support.scene import Connection
from tests.support.walking import walk

YEARLY = {"workflow": "welcome", "cron": "0 8 31 1 *", "time_zone": "Europe/Berlin", "input": {"shop": 17}}


def put(admin: Caller, name: str, tag: str | None = None, **fields: object) -> Answer:
    """Save one."""
    return admin.call("PUT", f"/schedules/{name}", YEARLY | fields, [] if tag is None else [("if-match", tag)])


async def test_a_schedule_is_saved_seen_switched_and_deleted(admin: Caller, inside: Connection) -> None:
    made = put(admin, "a%2Fb")
    assert (made.status, made.headers["etag"]) == (201, '"1"')
    assert (made.json["name"], made.json["answer"], made.json["active"]) == ("a/b", "created", True)
    assert (made.json["input"], made.json["would_be_refused"]) == ({"shop": 17}, None)
    assert (put(admin, "a%2Fb").status, put(admin, "a%2Fb").json["answer"]) == (200, "same")
    assert put(admin, "a%2Fb", cron="0 9 * * *").headers["etag"] == '"2"'
    shown = admin.get("/schedules/a%2Fb")
    assert (shown.json["version"], shown.json["cron"], shown.headers["etag"]) == (2, "0 9 * * *", '"2"')
    assert [one["action"] for one in shown.json["actions"]] == ["put", "put"]
    assert shown.json["actions"][0]["actor"].startswith("key systemAdmin.")
    for verb, answers in (("deactivate", ["done", "same"]), ("activate", ["done", "same"])):
        body = {"skip_missed": True} if verb == "activate" else None
        assert [admin.call("POST", f"/schedules/a%2Fb/{verb}", body).json["answer"] for _ in answers] == answers
    assert admin.call("DELETE", "/schedules/a%2Fb").json == {"name": "a/b", "answer": "deleted"}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/ticks"), ("POST", "/deactivate")):
        assert admin.call(method, f"/schedules/a%2Fb{path}").status == 404


async def test_a_schedule_that_rests_makes_up_for_its_latest_tick_or_skips_it(
    admin: Caller, inside: Connection
) -> None:
    for name, skip_missed in (("missed", False), ("skipped", True)):
        assert put(admin, name, input={"of": name}).status == 201
        assert admin.call("POST", f"/schedules/{name}/deactivate").status == 200
        await inside.execute("UPDATE dispatcher.schedules SET next_at = now() - interval '1 day' WHERE name = $1", name)
        assert admin.post(f"/schedules/{name}/activate", {"skip_missed": skip_missed}).status == 200
    assert datetime.fromisoformat(admin.get("/schedules/skipped").json["next_at"]) > datetime.now(UTC)

    def ticked() -> bool:
        return admin.get("/schedules/missed").json["last_run"] is not None

    await admin.program.until(ticked, "the tick that was missed has a run")
    assert admin.get("/schedules/skipped").json["last_run"] is None
    run = admin.get(f"/runs/{admin.get('/schedules/missed').json['last_run']}").json
    assert run["input"]["of"] == "missed"


async def test_an_unread_version_is_not_overwritten(admin: Caller, inside: Connection) -> None:
    assert put(admin, "tag", '"1"').status == 404
    assert put(admin, "tag").status == 201
    assert put(admin, "tag", '"1"', cron="1 * * * *").headers["etag"] == '"2"'
    assert put(admin, "tag", '"1"', cron="2 * * * *").status == 412
    at_once = await asyncio.gather(
        *(asyncio.to_thread(put, admin, "tag", '"2"', cron=f"{10 + number} * * * *") for number in range(6))
    )
    assert sorted(one.status for one in at_once) == [200, *[412] * 5]
    deleted = [admin.call("DELETE", "/schedules/tag", headers=[("if-match", tag)]).status for tag in ('"2"', '"3"')]
    assert deleted == [412, 200]
    assert admin.call("DELETE", "/schedules/tag", headers=[("if-match", '"3"')]).status == 404


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"cron": "99 * * * *", "time_zone": "Nowhere/City"}, {"$.cron", "$.time_zone"}),
        ({"cron": "0 0 30 2 *"}, {"$.cron"}),
        ({"workflow": "nowhere"}, {"$.workflow"}),
        ({"input": [1], "every": 1}, {"$.input", "$.every"}),
    ],
)
async def test_every_fault_of_a_schedule_is_reported(
    admin: Caller, inside: Connection, fields: dict[str, Any], paths: set[str]
) -> None:
    answer = put(admin, "wrong", **fields)
    assert (answer.status, {path.partition("[")[0] for path in answer.faults}) == (400, paths)
    assert admin.get("/schedules/wrong").status == 404


async def test_the_next_ticks_are_in_local_time(admin: Caller, inside: Connection) -> None:
    assert put(admin, "clock").status == 201
    ticks = admin.get("/schedules/clock/ticks?count=2").json["ticks"]
    assert [one["local"][4:] for one in ticks] == ["-01-31T08:00:00+01:00"] * 2
    assert [one["tick"][4:] for one in ticks] == ["-01-31T07:00:00Z"] * 2


async def test_schedules_are_walked_page_by_page(admin: Caller, inside: Connection) -> None:
    for number in range(5):
        assert put(admin, f"page-{number}").status == 201
    names = [one["name"] for one in walk(admin, "/schedules")]
    assert [name for name in names if name.startswith("page-")] == [f"page-{number}" for number in range(5)]
    assert list(admin.get("/schedules?cursor=nonsense").faults) == ["query.cursor"]


async def test_schedules_are_listed_by_their_workflow_and_by_whether_they_tick(
    admin: Caller, inside: Connection
) -> None:
    await flows.put(inside, flows.plan(name="seldom"))
    for name in ("ticking", "resting"):
        assert put(admin, name, workflow="seldom").status == 201
    assert admin.call("POST", "/schedules/resting/deactivate").status == 200

    def listed(query: str) -> list[str]:
        return [one["name"] for one in walk(admin, f"/schedules?{query}")]

    assert listed("workflow=seldom") == ["resting", "ticking"]
    assert listed("workflow=seldom&active=true") == ["ticking"]
    assert "resting" in listed("active=false")
    assert "ticking" not in listed("active=false")
