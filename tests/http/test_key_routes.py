"""Keys over HTTP: made and rotated with a secret that is shown once, revoked, and for all workspaces by operators."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.caller import Answer, Caller, make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.walking import walk

WHY = {"reason": "the web shop"}
NEW = {"role": "triggerOperator"} | WHY


def create(caller: Caller, name: str, **fields: object) -> Answer:
    """Make a key."""
    return caller.post("/keys", NEW | {"name": name} | fields)


def keys(caller: Caller, query: str = "") -> dict[str, Any]:
    """The keys that a list shows, by name."""
    return {one["name"]: one for one in walk(caller, f"/keys{query}")}


async def test_a_key_is_made_used_rotated_and_revoked(admin: Caller, inside: Connection) -> None:
    made = create(admin, "shop/web", expires_at="2039-01-01T00:00:00Z")
    assert (made.status, made.json["role"]) == (201, "triggerOperator")
    caller = Caller(admin.program, made.json["key"])
    assert caller.get("/runs").status == 200
    row = keys(admin)["shop/web"]
    assert (row["state"], row["prefixes"], row["expires_at"]) == ("live", [made.json["prefix"]], "2039-01-01T00:00:00Z")
    assert create(admin, "shop/web").status == 409
    rotated = admin.post("/keys/shop%2Fweb/rotate", WHY | {"overlap_seconds": 3_600})
    newer = Caller(admin.program, rotated.json["key"])
    assert (caller.get("/runs").status, newer.get("/runs").status) == (200, 200)
    assert keys(admin)["shop/web"]["old_secret_until"] is not None
    assert admin.post("/keys/shop%2Fweb/revoke", WHY).json == {"name": "shop/web", "revoked": True}
    await admin.program.until(lambda: newer.get("/runs").status == 401, "it is not good any more")
    assert admin.post("/keys/shop%2Fweb/revoke", WHY).status == 404
    assert admin.post("/keys/shop%2Fweb/rotate", WHY).status == 404
    log = admin.get("/keys/shop%2Fweb/log").json["actions"]
    assert [one["action"] for one in log] == ["revoke", "rotate", "create"]
    assert (log[1]["prefix"], log[1]["reason"]) == (rotated.json["prefix"], "the web shop")
    assert log[0]["actor"].startswith("key systemAdmin.")
    await inside.execute("UPDATE dispatcher.api_keys SET expires_at = now() WHERE name = 'shop/web'")
    assert admin.get("/keys/nobody/log").status == 404


async def test_an_expired_key_has_no_other_secret(admin: Caller, inside: Connection) -> None:
    assert create(admin, "over").status == 201
    await inside.execute("UPDATE dispatcher.api_keys SET expires_at = now() WHERE name = 'over'")
    answer = admin.post("/keys/over/rotate", WHY)
    assert (answer.status, keys(admin)["over"]["state"]) == (409, "expired")


async def test_a_secret_is_shown_once_and_kept_nowhere(admin: Caller, inside: Connection) -> None:
    once = {"idempotency_key": "make-once"}
    body = NEW | {"name": "once"}
    made = admin.post("/keys", body, **once)
    again = admin.post("/keys", body, **once)
    assert (made.status, again.status) == (201, 409)
    assert "shown once" in again.json["detail"]
    assert admin.post("/keys", body | {"name": "other"}, **once).status == 422
    rotated = admin.post("/keys/once/rotate", WHY, idempotency_key="rotate-once")
    assert admin.post("/keys/once/rotate", WHY, idempotency_key="rotate-once").status == 409
    kept = b"".join(row[0] for row in await inside.fetch("SELECT answer FROM dispatcher.api_answers"))
    for secret in (made.json["key"], rotated.json["key"]):
        assert secret.rpartition("_")[2].encode() not in kept
    assert [one["action"] for one in admin.get("/keys/once/log").json["actions"]] == ["rotate", "create"]


async def test_a_key_may_revoke_itself(admin: Caller) -> None:
    made = create(admin, "leaving", role="systemAdmin").json
    caller = Caller(admin.program, made["key"])
    assert caller.post("/keys/leaving/revoke", WHY).status == 200
    await admin.program.until(lambda: caller.get("/keys").status == 401, "it is not good any more")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"role": "king"}, "$.role"),
        ({"name": "-x"}, "$.name"),
        ({"name": "x\n"}, "$.name"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "$.expires_at"),
        ({"reason": " "}, "$.reason"),
        ({"hash": "x"}, "$.hash"),
    ],
)
async def test_faults_of_a_new_key_are_named(admin: Caller, fields: dict[str, object], path: str) -> None:
    assert list(admin.post("/keys", NEW | {"name": "wrong"} | fields).faults) == [path]


async def test_keys_are_walked_page_by_page_with_all_that_have_had_a_name(admin: Caller) -> None:
    for _ in range(3):
        assert create(admin, "again").status == 201
        assert admin.post("/keys/again/revoke", WHY).status == 200
    rows = walk(admin, "/keys?revoked=true", 1)
    assert [one["state"] for one in rows if one["name"] == "again"] == ["revoked"] * 3
    assert len({one["id"] for one in rows}) == len(rows)
    assert "again" not in keys(admin)
    assert len(walk(admin, "/keys/again/log", 1)) == 6
    for cursor in ("nonsense", "a2V5cyBhZnRlciBbImEiLCJ4Il0"):
        assert list(admin.get(f"/keys?cursor={cursor}").faults) == ["query.cursor"]


async def test_keys_are_listed_by_their_role(admin: Caller) -> None:
    assert create(admin, "of-a-role", role="workerService").status == 201
    assert {one["role"] for one in keys(admin, "?role=workerService").values()} == {"workerService"}
    assert "of-a-role" in keys(admin, "?role=workerService")
    assert list(admin.get("/keys?role=king").faults) == ["query.role"]


async def test_only_operators_reach_beyond_their_workspace(admin: Caller) -> None:
    foreign = Caller(admin.program, make_key(admin.program, tenant="acme"))
    elsewhere = {"tenant_id": "acme", "workspace_id": "default"}
    made = create(admin, "for-acme", **elsewhere)
    assert (made.status, made.json["tenant_id"]) == (201, "acme")
    assert "for-acme" in keys(foreign)
    assert "for-acme" in keys(admin, "?tenant_id=acme")
    assert "for-acme" not in keys(admin)
    assert create(foreign, "own", **elsewhere).status == 201
    for answer in (
        create(foreign, "not-mine", tenant_id="default"),
        create(foreign, "not-mine", workspace_id="other"),
        foreign.get("/keys?tenant_id=default"),
        foreign.get("/keys/for-acme/log?workspace_id=other"),
        foreign.post("/keys/for-acme/rotate", WHY | {"tenant_id": "default"}),
        foreign.post("/keys/for-acme/revoke", WHY | {"tenant_id": "default"}),
    ):
        assert (answer.status, "api.operators" in answer.json["detail"]) == (403, True), answer
    assert admin.post("/keys/for-acme/revoke", WHY | {"tenant_id": "acme"}).status == 200


async def test_actions_of_operators_and_of_a_key_with_their_name_are_kept_apart(admin: Caller) -> None:
    elsewhere = {"tenant_id": "acme", "workspace_id": "default"}
    theirs = Caller(admin.program, create(admin, "namesake", role="systemAdmin", **elsewhere).json["key"])
    ours = Caller(admin.program, create(admin, "namesake", role="systemAdmin").json["key"])
    for caller, named in ((theirs, {}), (ours, elsewhere), (ours, {})):
        assert create(caller, "audited", **named).status in (201, 409)
        assert caller.post("/keys/audited/rotate", WHY | named).status == 200
        stopped = caller.post("/pauses", WHY | {"scope": "template", "name": "welcome"} | named).json["id"]
        assert caller.post("/keys/audited/revoke", WHY | named).status == 200
        assert caller.post(f"/pauses/{stopped}/resume", {"reason": "x"}).status == 200
    everywhere = ours.post("/pauses", WHY | {"scope": "tenant", "name": "acme"}).json["id"]
    assert ours.post(f"/pauses/{everywhere}/resume", {"reason": "x"}).status == 200
    own = ["create", "rotate", "pause", "revoke", "resume"]
    foreign = [*own, "pause", "resume"]
    for caller, actor, done in (
        (theirs, "key namesake", own),
        (theirs, "key namesake of default/default", foreign),
        (ours, "key namesake", own),
    ):
        rows = walk(caller, f"/audit?actor={quote(actor)}")
        assert [one["action"] for one in reversed(rows)] == done, actor


@pytest.mark.parametrize("own", [("default", "other"), ("acme", "default")])
async def test_a_workspace_sharing_half_the_operators_name_is_not_theirs(admin: Caller, own: tuple[str, str]) -> None:
    neighbour = Caller(admin.program, make_key(admin.program, "systemAdmin", *own))
    for tenant, workspace in (("default", "default"), ("acme", "other")):
        answer = create(neighbour, "not-mine", tenant_id=tenant, workspace_id=workspace)
        assert (answer.status, "api.operators" in answer.json["detail"]) == (403, True), answer
    paused = neighbour.post("/pauses", WHY | {"scope": "tenant", "name": "acme"})
    assert (paused.status, "api.operators" in paused.json["detail"]) == (403, True), paused


async def test_without_operators_keys_reach_only_their_workspace(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "dispatcher.toml"
    file.write_text('[api]\noperators = ""\n')
    await program.start("--config", str(file))
    admin = Caller(program, make_key(program))
    assert create(admin, "own").status == 201
    assert create(admin, "not-mine", tenant_id="acme").status == 403
