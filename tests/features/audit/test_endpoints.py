"""The audit over HTTP: everything that somebody does is in it, once, in its order, and for the right eyes."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.support.caller import Caller, delivery, make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.walking import walk

WHY = {"reason": "a reason"}
LATER = "2040-01-01T00:00:00Z"
SAID = {"channel": "sms", "locales": {"default": {"parts": {"body": "hello"}}}, "publish": True}
# Nothing of it is ordered while a test looks.
GRAPH = {
    "entryNodeId": "wait",
    "nodes": [
        {"id": "wait", "type": "delay", "duration": "1h"},
        {"id": "say", "type": "sms", "to": "+4917012345", "body": "x"},
    ],
    "edges": [{"from": "wait", "to": "say"}],
}


@pytest.fixture(scope="module")
def acme(serving: Program) -> Caller:
    """An administrator of a workspace of its own."""
    return Caller(serving, make_key(serving, "systemAdmin", "acme", "audited"))


def _do(caller: Caller, method: str, path: str, body: object = None) -> Any:
    answer = caller.call(method, path, body)
    assert answer.status in (200, 201), answer
    return answer.json


def _do_everything(caller: Caller) -> list[tuple[str, str, str, str | None]]:
    """Something of each kind: what of it has to be in the audit, the newest first."""
    _do(caller, "PUT", "/workflows/audited", {"name": "audited"} | GRAPH)
    _do(caller, "POST", "/workflows/audited/activate")
    _do(caller, "PUT", "/templates/audited", SAID)
    _do(caller, "PUT", "/schedules/audited", {"workflow": "audited", "cron": "0 8 31 1 *"})
    number = str(_do(caller, "POST", "/deliveries", delivery("audited", scheduled_for=LATER))["id"])
    _do(caller, "POST", f"/deliveries/{number}/cancel", WHY)
    pause = _do(caller, "POST", "/pauses", {"scope": "workspace"} | WHY)["id"]
    run = str(_do(caller, "POST", "/workflows/audited/triggers", {})["execution_id"])
    _do(caller, "POST", f"/runs/{run}/pause", {"reason": "why: so"})
    _do(caller, "POST", f"/runs/{run}/cancel", WHY)
    _do(caller, "POST", f"/pauses/{pause}/resume", {"reason": "it is over"})
    _do(caller, "POST", "/suppressions", {"suppressions": [{"address": "a@example.org"}]} | WHY)
    _do(caller, "POST", "/topics/unsubscribe", {"topic": "news", "addresses": ["a@example.org"]} | WHY)
    _do(caller, "POST", "/keys", {"name": "audited", "role": "workerService"} | WHY)
    return [
        ("key", "audited", "create", "a reason"),
        ("suppression", "a@example.org", "unsubscribe", "a reason"),
        ("suppression", "a@example.org", "suppress", "a reason"),
        ("pause", "workspace audited", "resume", "it is over"),
        ("run", run, "cancelled", "a reason"),
        ("run", run, "paused", "why: so"),
        ("pause", "workspace audited", "pause", "a reason"),
        ("delivery", number, "cancel", "a reason"),
        ("schedule", "audited", "put", None),
        ("template", "audited", "publish", None),
        ("template", "audited", "put", None),
        ("workflow", "audited", "activate", None),
        ("workflow", "audited", "put", None),
    ]


def _told(rows: list[dict[str, Any]]) -> list[tuple[str, str, str, str | None]]:
    return [(one["kind"], one["subject"], one["action"], one["reason"]) for one in rows]


async def test_each_action_is_in_the_audit_once_and_in_order(acme: Caller, inside: Connection) -> None:
    name = await inside.fetchval("SELECT name FROM dispatcher.api_keys WHERE workspace_id = 'audited'")
    done = _do_everything(acme)
    actor = f"/audit?actor=key%20{name}"
    rows = walk(acme, actor, 1)
    assert _told(rows) == done
    assert _told(walk(acme, actor, 5)) == _told(walk(acme, actor, 500)) == done
    assert {one["actor"] for one in rows} == {f"key {name}"}
    assert [one["at"] for one in rows] == sorted((one["at"] for one in rows), reverse=True)
    for kind in {one[0] for one in done}:
        assert _told(walk(acme, f"{actor}&kind={kind}")) == [one for one in done if one[0] == kind]
    middle = rows[5]["at"]
    newer = walk(acme, f"{actor}&since={middle.replace('+', '%2B')}")
    older = walk(acme, f"{actor}&until={middle.replace('+', '%2B')}")
    assert newer + older == rows
    beside = Caller(acme.program, make_key(acme.program, "systemAdmin", "acme", "beside"))
    assert {one["kind"] for one in walk(beside, actor)} == {"suppression"}
    foreign = Caller(acme.program, make_key(acme.program, "systemAdmin", "other"))
    assert walk(foreign, actor) == []


async def test_the_longest_actor_is_found(admin: Caller, inside: Connection) -> None:
    names = ["n" * 100, "t" * 100, "w" * 100]
    actor = "key {} of {}/{}".format(*names)
    await inside.execute("SELECT dispatcher.pause('template', 'x', 'default', 'default', $1, 'long')", actor)
    assert [one["actor"] for one in walk(admin, f"/audit?actor={quote(actor)}")] == [actor]


async def test_many_that_were_done_at_one_moment_are_all_there(admin: Caller) -> None:
    many = [{"address": f"many{number}@example.org"} for number in range(7)]
    _do(admin, "POST", "/suppressions", {"suppressions": many} | WHY)
    rows = walk(admin, "/audit?kind=suppression", 2)
    assert sorted(one["subject"] for one in rows if one["subject"].startswith("many")) == [
        one["address"] for one in many
    ]


async def test_simultaneous_actions_on_a_run_are_all_listed(admin: Caller, inside: Connection) -> None:
    run = _do(admin, "POST", "/workflows/welcome/triggers", {"input": {"email": "a@example.org"}})["execution_id"]
    # In one statement an application does as much as it likes, and all of it has that statement's time.
    await inside.execute(
        f"""DO $$ BEGIN
            FOR number IN 1..3 LOOP
                PERFORM dispatcher.pause_run({run}, number::text, 'default', 'default', 'hasty');
                PERFORM dispatcher.resume_run({run}, number::text, 'default', 'default', 'hasty');
            END LOOP;
        END $$"""
    )
    done = [("run", str(run), action, number) for number in "321" for action in ("resumed", "paused")]
    for limit in (1, 2, 4, 500):
        assert _told(walk(admin, "/audit?actor=hasty", limit)) == done


async def test_an_action_on_all_workspaces_is_in_the_audit_of_each(admin: Caller, acme: Caller) -> None:
    everywhere = {"scope": "channel", "name": "voice", "everywhere": True} | WHY
    pause = _do(admin, "POST", "/pauses", everywhere)["id"]
    _do(admin, "POST", f"/pauses/{pause}/resume", {"reason": "it is over"})
    for caller in (admin, acme):
        first, second, *_ = walk(caller, "/audit?kind=pause", 50)
        assert _told([first, second]) == [
            ("pause", "channel voice", "resume", "it is over"),
            ("pause", "channel voice", "pause", "a reason"),
        ]
        assert first["details"] == {"everywhere": True}


@pytest.mark.parametrize("query", ["kind=weather", "since=yesterday", "cursor=nonsense", "x=1"])
async def test_invalid_queries_are_refused(admin: Caller, query: str) -> None:
    assert list(admin.get(f"/audit?{query}").faults) == [f"query.{query.partition('=')[0]}"]
