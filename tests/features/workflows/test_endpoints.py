"""Workflows over HTTP: versions, tags that keep one from overwriting another, and who takes triggers."""

import asyncio
from typing import Any

from tests.support.caller import Answer, Caller
from tests.support.walking import walk

NODES = [{"id": "mail", "type": "sms", "to": "+4917012345", "body": "one"}]


def _graph(name: str, body: str = "one") -> dict[str, Any]:
    return {"name": name, "entryNodeId": "mail", "nodes": [NODES[0] | {"body": body}], "edges": []}


async def test_a_workflow_is_saved_activated_triggered_and_deleted(admin: Caller) -> None:
    first = admin.call("PUT", "/workflows/hello", _graph("hello"))
    assert (first.status, first.headers["etag"]) == (201, '"1"')
    assert first.json == {"name": "hello", "version": 1, "created": True, "active": False, "total_steps": 1}
    assert admin.call("PUT", "/workflows/hello", _graph("hello")).json["created"] is False
    assert admin.post("/workflows/hello/triggers", {}).status == 409
    assert admin.call("POST", "/workflows/hello/activate").json["answer"] == "done"
    assert admin.call("POST", "/workflows/hello/activate").json["answer"] == "same"
    shown = admin.get("/workflows/hello")
    assert (shown.json["definition"], shown.json["active"], shown.headers["etag"]) == (_graph("hello"), True, '"1"')
    assert shown.json["author"].startswith("key systemAdmin.")
    run = admin.post("/workflows/hello/triggers", {}).json["execution_id"]
    assert admin.call("DELETE", "/workflows/hello").status == 409
    assert admin.call("POST", "/workflows/hello/deactivate").json["answer"] == "done"

    def completed() -> bool:
        return bool(admin.get(f"/runs/{run}").json["status"] == "completed")

    await admin.program.until(completed, "the run has ended")
    assert admin.call("DELETE", "/workflows/hello").json["answer"] == "deleted"
    assert admin.get("/workflows/hello").status == 404


async def test_an_unread_version_is_not_overwritten(admin: Caller) -> None:
    def put(body: str, tag: str | None) -> Answer:
        return admin.call("PUT", "/workflows/tag", _graph("tag", body), [] if tag is None else [("if-match", tag)])

    assert put("one", '"1"').status == 404
    assert put("one", None).status == 201
    second = put("two", '"1"')
    assert (second.status, second.headers["etag"]) == (201, '"2"')
    late = put("three", '"1"')
    assert (late.status, late.json["type"]) == (412, "urn:dispatcher:problem:changed")
    at_once = await asyncio.gather(*(asyncio.to_thread(put, f"at once {number}", '"2"') for number in range(6)))
    assert sorted(one.status for one in at_once) == [201, *[412] * 5]
    assert admin.get("/workflows/tag").json["version"] == 3


async def test_an_unread_version_is_not_deleted(admin: Caller) -> None:
    def delete(tag: str) -> Answer:
        return admin.call("DELETE", "/workflows/unseen", headers=[("if-match", tag)])

    for body in ("one", "two"):
        assert admin.call("PUT", "/workflows/unseen", _graph("unseen", body)).status == 201
    late = delete('"1"')
    assert (late.status, late.json["type"]) == (412, "urn:dispatcher:problem:changed")
    assert delete('"2"').json["answer"] == "deleted"
    assert delete('"2"').status == 404


async def test_every_fault_of_a_definition_is_reported(admin: Caller) -> None:
    wrong = _graph("wrong") | {"edges": [{"from": "mail", "to": "nowhere"}], "entryNodeID": "x"}
    answer = admin.call("PUT", "/workflows/wrong", wrong)
    assert answer.status == 400
    assert len(answer.faults) >= 2
    other = admin.call("PUT", "/workflows/wrong", _graph("right"))
    assert list(other.faults) == ["$.name"]
    twice = admin.call("PUT", "/workflows/wrong", b'{"name": "wrong", "name": "wrong"}')
    assert list(twice.faults) == ["$.name"]
    assert admin.get("/workflows/wrong").status == 404


async def test_workflows_are_listed_by_name_page_by_page(admin: Caller) -> None:
    for number in range(5):
        assert admin.call("PUT", f"/workflows/page-{number}", _graph(f"page-{number}")).status == 201
    seen, cursor = [], ""
    while True:
        page = admin.get(f"/workflows?limit=2{cursor}").json
        seen += [one["name"] for one in page["workflows"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert [name for name in seen if name.startswith("page-")] == [f"page-{number}" for number in range(5)]
    assert seen == sorted(set(seen))
    assert list(admin.get("/workflows?cursor=nonsense").faults) == ["query.cursor"]


async def test_those_that_take_triggers_are_listed_apart(admin: Caller) -> None:
    for name in ("awake", "asleep"):
        assert admin.call("PUT", f"/workflows/{name}", _graph(name)).status == 201
    assert admin.call("POST", "/workflows/awake/activate").status == 200
    listed = {word: {one["name"] for one in walk(admin, f"/workflows?active={word}")} for word in ("true", "false")}
    assert ("awake" in listed["true"], "awake" in listed["false"]) == (True, False)
    assert ("asleep" in listed["true"], "asleep" in listed["false"]) == (False, True)


async def test_many_are_compared_and_saved_together_or_not_at_all(admin: Caller) -> None:
    admin.call("PUT", "/workflows/many-a", _graph("many-a"))
    several = [_graph("many-a", "two"), _graph("many-b"), _graph("many-c") | {"entryNodeId": "nowhere"}]
    one, two, three = admin.post("/workflow-comparison", {"workflows": several}).json["workflows"]
    assert (one["stored"], one["same"]) == ({"version": 1, "active": False, "definition": _graph("many-a")}, False)
    assert (two["name"], two["stored"], two["faults"]) == ("many-b", None, [])
    assert [fault["path"] for fault in three["faults"]] == ["$.entryNodeId"]
    refused = admin.post("/workflows", {"workflows": several})
    assert list(refused.faults) == ["$.workflows[2].entryNodeId"]
    twice = admin.post("/workflows", {"workflows": [several[1], several[1]]})
    assert list(twice.faults) == ["$.workflows[1].name"]
    assert admin.get("/workflows/many-b").status == 404

    saved = admin.post("/workflows", {"workflows": several[:2], "activate": True}).json["workflows"]
    assert [(row["name"], row["version"], row["active"]) for row in saved] == [("many-a", 2, True), ("many-b", 1, True)]
    first = admin.get("/workflows/many-a?version=1").json
    assert (first["version"], first["latest"], first["definition"]) == (1, 2, _graph("many-a"))
    assert [row["number"] for row in first["versions"]] == [2, 1]
    assert [row["action"] for row in first["actions"]][-1] == "put"
    assert (first["steps"][0]["node"], "mail" in first["graph"]) == ("mail", True)
    assert "newest is 2" in admin.get("/workflows/many-a?version=3").json["detail"]
    assert [row["name"] for row in admin.get("/workflows?after=many-a&limit=1").json["workflows"]] == ["many-b"]
