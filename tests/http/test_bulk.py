"""Sweeps over HTTP: they reach what their filter means, and nothing that comes to be there while they go on."""

from typing import Any

from dispatcher.http.bulk import PAGE
from tests.support.caller import Answer, Caller, delivery, make_key
from tests.support.scene import Connection

LATER = "2040-01-01T00:00:00Z"
FAIL = """UPDATE dispatcher.delivery_state SET status = 'failed', ready = false, error = 'busy',
                 finished_at = clock_timestamp() - $2 * interval '1 day' WHERE id = ANY ($1)"""
HOLD = """UPDATE dispatcher.delivery_state SET held = true, marked = true, ready = false, token = 1, error = 'x',
                 held_at = clock_timestamp(), settle_after = clock_timestamp() WHERE id = ANY ($1)"""


def _caller(admin: Caller, workspace: str) -> Caller:
    """Somebody in a workspace in which there is nothing else."""
    return Caller(admin.program, make_key(admin.program, workspace=workspace))


def _written(caller: Caller, number: int) -> list[int]:
    said = [delivery(f"swept-{one}", scheduled_for=LATER) for one in range(number)]
    return [one["id"] for one in caller.post("/deliveries/batch", {"deliveries": said}).json["deliveries"]]


def _dead(caller: Caller) -> set[int]:
    return {one["id"] for one in caller.get("/dead-letters/deliveries").json["dead_letters"]}


def _goes_on(caller: Caller, path: str, first: Answer, **said: Any) -> int:
    """How many more are reached from where the first request ended."""
    assert first.json["done"] == 1, first
    last = caller.post(path, {"reason": "x", "cursor": first.json["next_cursor"]} | said).json
    assert last["next_cursor"] is None
    return int(last["done"])


async def test_failures_during_a_discard_stay_listed(admin: Caller, inside: Connection) -> None:
    caller, path = _caller(admin, "fails"), "/dead-letters/deliveries/discard"
    later, *dead = _written(caller, 4)
    await inside.execute(FAIL, dead, 0)
    first = caller.post(path, {"reason": "x", "limit": 1})
    await inside.execute(FAIL, [later], 0)
    # Nor does it where whoever asks names a time that has to come yet.
    assert _goes_on(caller, path, first, until=LATER, limit=1_000) == 2
    assert _dead(caller) == {later}


async def test_more_than_a_page_is_reached_by_one_request_and_each_once(admin: Caller, inside: Connection) -> None:
    caller, path = _caller(admin, "pages"), "/dead-letters/deliveries/discard"
    dead = _written(caller, PAGE + 1)
    await inside.execute(FAIL, dead, 0)
    swept = caller.post(path, {"reason": "x", "limit": PAGE + 1}).json
    assert (swept["done"], swept["not_done"], swept["next_cursor"]) == (PAGE + 1, 0, None)


async def test_only_letters_of_a_time_are_replayed(admin: Caller, inside: Connection) -> None:
    caller, path = _caller(admin, "replays"), "/dead-letters/deliveries/replay"
    old, new = _written(caller, 2)
    await inside.execute(FAIL, [old], 3)
    await inside.execute(FAIL, [new], 0)
    between = await inside.fetchval("""SELECT to_char(now() - interval '1 day', 'YYYY-MM-DD"T"HH24:MI:SSOF":00"')""")
    assert caller.post(path, {"reason": "x", "until": between}).json["done"] == 1
    assert _dead(caller) == {new}
    assert caller.post(path, {"reason": "x", "since": between}).json["done"] == 1
    assert _dead(caller) == set()


async def test_deliveries_held_during_a_settlement_stay_held(admin: Caller, inside: Connection) -> None:
    caller, path = _caller(admin, "held"), "/held/resolve"
    later, *held = _written(caller, 4)
    await inside.execute(HOLD, held)
    first = caller.post(path, {"reason": "x", "settle_as": "failed", "limit": 1})
    await inside.execute(HOLD, [later])
    assert _goes_on(caller, path, first, settle_as="failed") == 2
    assert [one["id"] for one in caller.get("/held").json["held"]] == [later]


async def test_only_what_was_held_before_a_time_is_settled(admin: Caller, inside: Connection) -> None:
    caller = _caller(admin, "held-until")
    for one in _written(caller, 3):
        await inside.execute(HOLD, [one])
    *_, last = caller.get("/held").json["held"]
    said = {"reason": "x", "settle_as": "failed", "until": last["held_at"]}
    assert caller.post("/held/resolve", said).json["done"] == 2
    assert [one["id"] for one in caller.get("/held").json["held"]] == [last["id"]]


async def test_held_deliveries_are_counted_by_error(admin: Caller, inside: Connection) -> None:
    caller = _caller(admin, "held-groups")
    one, *others = _written(caller, 4)
    await inside.execute(HOLD, [one, *others])
    await inside.execute("UPDATE dispatcher.delivery_state SET error = 'no answer' WHERE id = ANY ($1)", others)
    found = caller.get("/held/groups").json
    assert [(group["error"], group["deliveries"]) for group in found["groups"]] == [("no answer", 3), ("x", 1)]
    assert (found["counted"], found["is_all"]) == (4, True)
    assert caller.post("/held/resolve", {"reason": "x", "settle_as": "failed", "error": "NO ANSWER"}).json["done"] == 3
    assert [one["error"] for one in caller.get("/held").json["held"]] == ["x"]


async def test_dead_deliveries_are_counted_by_error(admin: Caller, inside: Connection) -> None:
    caller = _caller(admin, "dead-groups")
    await inside.execute(FAIL, _written(caller, 3), 0)
    [group] = caller.get("/dead-letters/deliveries/groups").json["groups"]
    assert (group["letters"], group["kind"], group["name"]) == (3, "delivery", None)
    assert caller.get("/dead-letters/deliveries/groups?error=other").json["groups"] == []
