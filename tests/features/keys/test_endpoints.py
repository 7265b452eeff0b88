"""Keys at the door: only one that is good now opens anything, and its use is noted."""

import pytest

from tests.support.caller import WHY, Caller, make_key
from tests.support.program import Program
from tests.support.scene import Connection


def _secret(program: Program, *words: str) -> str:
    ended = program.run("keys", *words, *WHY)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.decode().strip()


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer x", "Basic eDp5", f"Bearer dsp_{'a' * 12}_{'b' * 43}", "Bearer dsp_\xe4"]
)
async def test_invalid_keys_open_nothing(admin: Caller, header: str | None) -> None:
    nobody = Caller(admin.program, None)
    answer = nobody.call("GET", "/deliveries", headers=[] if header is None else [("authorization", header)])
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json["type"] == "urn:dispatcher:problem:unauthenticated"


async def test_the_secret_of_another_key_does_not_fit_a_prefix(admin: Caller) -> None:
    assert admin.key is not None
    other = make_key(admin.program)
    mixed = admin.key[: admin.key.rindex("_")] + other[other.rindex("_") :]
    assert Caller(admin.program, mixed).get("/runs").status == 401
    assert Caller(admin.program, other).get("/runs").status == 200


async def test_a_key_that_is_revoked_opens_nothing_within_a_moment(serving: Program) -> None:
    caller = Caller(serving, _secret(serving, "create", "short", "--role", "systemAdmin"))
    assert caller.get("/runs").status == 200
    _secret(serving, "revoke", "short")
    await serving.until(lambda: caller.get("/runs").status == 401, "the key is not good any more")
    assert "is revoked" in caller.get("/runs").json["detail"]


async def test_a_key_expires(serving: Program, inside: Connection) -> None:
    later = ("--expires-at", "2039-01-01T00:00:00Z")
    caller = Caller(serving, _secret(serving, "create", "of-a-day", "--role", "systemAdmin", *later))
    assert caller.get("/runs").status == 200
    await inside.execute("UPDATE dispatcher.api_keys SET expires_at = now() WHERE name = 'of-a-day'")
    await serving.until(lambda: caller.get("/runs").status == 401, "the key is not good any more")
    assert "is expired" in caller.get("/runs").json["detail"]


async def test_both_secrets_are_good_while_a_key_is_rotated(serving: Program, inside: Connection) -> None:
    old = Caller(serving, _secret(serving, "create", "round", "--role", "systemAdmin"))
    new = Caller(serving, _secret(serving, "rotate", "round", "--overlap", "1h"))
    assert (old.get("/runs").status, new.get("/runs").status) == (200, 200)
    await inside.execute("UPDATE dispatcher.api_secrets SET ends_at = now() WHERE ends_at IS NOT NULL")
    await serving.until(lambda: old.get("/runs").status == 401, "the old secret is not good any more")
    assert new.get("/runs").status == 200


async def test_the_use_of_a_key_is_noted(serving: Program, inside: Connection) -> None:
    caller = Caller(serving, _secret(serving, "create", "used", "--role", "systemAdmin"))
    last = "SELECT last_used_at FROM dispatcher.api_keys WHERE name = 'used'"
    assert await inside.fetchval(last) is None
    for _ in range(3):
        caller.get("/runs")
    assert await inside.fetchval(last) is not None


async def test_the_actor_is_the_name_of_the_key(serving: Program, inside: Connection) -> None:
    caller = Caller(serving, _secret(serving, "create", "the-shop", "--role", "triggerOperator"))
    run = caller.post("/workflows/welcome/triggers", {}).json["execution_id"]
    assert caller.get(f"/runs/{run}").json["triggered_by"] == "key the-shop"
