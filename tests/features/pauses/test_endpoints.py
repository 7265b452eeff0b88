"""Pauses over HTTP: whose they are, who may stop what, and what a pause of nothing is told."""

from typing import Any

import pytest

from tests.support.caller import Answer, Caller, make_key
from tests.support.program import Program
from tests.support.walking import walk

WHY = {"reason": "wrong prices"}


@pytest.fixture(scope="module")
def acme(serving: Program) -> Caller:
    """An administrator of a workspace that is not the operators'."""
    return Caller(serving, make_key(serving, "systemAdmin", "acme", "shop"))


def pause(caller: Caller, scope: str, name: str | None = None, **fields: object) -> Answer:
    """Stop something."""
    return caller.post("/pauses", {"scope": scope} | ({} if name is None else {"name": name}) | WHY | fields)


def resume(caller: Caller, pause_id: int) -> Answer:
    """Let it go on."""
    return caller.post(f"/pauses/{pause_id}/resume", WHY)


async def test_a_workspace_pauses_what_is_its_own(admin: Caller, acme: Caller) -> None:
    made = [pause(acme, "workspace"), pause(acme, "channel", "sms"), pause(acme, "template", "welcome")]
    assert [one.status for one in made] == [201] * 3
    assert [(one.json["name"], one.json["tenant_id"], one.json["workspace_id"]) for one in made] == [
        ("shop", "acme", "shop"),
        ("sms", "acme", "shop"),
        ("welcome", "acme", "shop"),
    ]
    again = pause(acme, "channel", "sms", reason="another")
    assert (again.status, again.json) == (200, made[1].json | {"already": True})
    ids = [one.json["id"] for one in made]
    assert [one["id"] for one in walk(acme, "/pauses", 1)] == ids
    assert not {one["id"] for one in walk(admin, "/pauses")} & set(ids)
    beside = Caller(admin.program, make_key(admin.program, "systemAdmin", "acme", "other"))
    assert beside.get("/pauses").json["pauses"] == []
    assert resume(beside, ids[0]).status == beside.get(f"/pauses/{ids[0]}").status == 404
    assert pause(beside, "channel", "sms").status == 201
    for one in ids:
        assert acme.get(f"/pauses/{one}").json["id"] == one
        assert resume(acme, one).json["resumed"] is True
        assert resume(acme, one).status == 404
    assert acme.get("/pauses").json["pauses"] == []


async def test_operators_pause_what_is_everybodys_and_what_is_anybodys(admin: Caller, acme: Caller) -> None:
    stopped = {
        "channel": pause(admin, "channel", "voice", everywhere=True),
        "template": pause(admin, "template", "promotion", everywhere=True),
        "provider": pause(admin, "provider", "capture"),
        "tenant": pause(admin, "tenant", "acme"),
    }
    other = pause(admin, "tenant", "other")
    theirs = pause(admin, "workspace", tenant_id="acme", workspace_id="shop")
    assert {one.status for one in (*stopped.values(), other, theirs)} == {201}
    assert {one.json["tenant_id"] for one in stopped.values()} == {None}
    seen = {one["id"] for one in walk(acme, "/pauses")}
    assert seen == {one.json["id"] for one in (*stopped.values(), theirs)}
    assert acme.get(f"/pauses/{other.json['id']}").status == 404
    assert {one["id"] for one in walk(admin, "/pauses?tenant_id=acme&workspace_id=shop")} == seen
    for one in stopped.values():
        refused = resume(acme, one.json["id"])
        assert (refused.status, "api.operators" in refused.json["detail"]) == (403, True)
    assert resume(acme, theirs.json["id"]).status == 200
    for one in (*stopped.values(), other):
        assert resume(admin, one.json["id"]).status == 200


@pytest.mark.parametrize(
    ("scope", "name", "fields"),
    [
        ("channel", "sms", {"everywhere": True}),
        ("template", "welcome", {"everywhere": True}),
        ("provider", "capture", {}),
        ("tenant", "acme", {}),
        ("channel", "sms", {"workspace_id": "other"}),
        ("workspace", None, {"tenant_id": "default"}),
    ],
)
async def test_keys_without_operator_rights_reach_only_their_workspace(
    acme: Caller, scope: str, name: str | None, fields: dict[str, Any]
) -> None:
    answer = pause(acme, scope, name, **fields)
    assert (answer.status, "api.operators" in answer.json["detail"]) == (403, True)
    assert acme.get("/pauses?tenant_id=default").status == 403


@pytest.mark.parametrize(
    ("scope", "name", "fields", "path"),
    [
        ("channel", "fax", {}, "$.name"),
        ("provider", "pigeon", {}, "$.name"),
        ("channel", None, {}, "$.name"),
        ("template", "  ", {}, "$.name"),
        ("workspace", "other", {}, "$.name"),
        ("workspace", None, {"everywhere": True}, "$.everywhere"),
        ("tenant", "acme", {"tenant_id": "acme"}, "$"),
        ("run", "1", {}, "$.scope"),
        ("channel", "sms", {"reason": " "}, "$.reason"),
    ],
)
async def test_a_pause_of_nothing_is_refused(
    admin: Caller, scope: str, name: str | None, fields: dict[str, Any], path: str
) -> None:
    assert list(pause(admin, scope, name, **fields).faults) == [path]


async def test_a_run_that_is_paused_is_seen_and_goes_on_as_a_run(admin: Caller, inside: object) -> None:
    run = admin.post("/workflows/welcome/triggers", {}).json["execution_id"]
    assert admin.post(f"/runs/{run}/pause", WHY).status == 200
    assert pause(admin, "template", "beside").status == 201
    (seen,) = walk(admin, "/pauses?scope=run")
    assert (seen["name"], seen["tenant_id"]) == (str(run), "default")
    refused = resume(admin, seen["id"])
    assert (refused.status, "resume the run" in refused.json["detail"]) == (409, True)
    assert admin.post(f"/runs/{run}/resume", WHY).status == 200
    assert admin.get(f"/pauses/{seen['id']}").status == 404
