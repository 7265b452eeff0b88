"""Idempotency-Key: the same request is done once and answered alike, another one with its key is refused."""

import asyncio
from typing import Any

import pytest

from tests.support.caller import Answer, Caller, delivery, make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until

SIGNALS = "SELECT count(*) FROM dispatcher.signals WHERE run_id = $1"


async def _run(admin: Caller) -> int:
    return int(admin.post("/workflows/welcome/triggers", {}).json["execution_id"])


async def test_the_same_request_is_done_once(admin: Caller, inside: Connection) -> None:
    run = await _run(admin)
    told = [admin.post(f"/runs/{run}/signal", {"event": "paid"}, idempotency_key=f"paid-{run}") for _ in range(3)]
    assert {(one.status, one.body) for one in told} == {(200, told[0].body)}
    assert [one.headers.get("idempotency-replayed") for one in told] == [None, "true", "true"]
    assert await inside.fetchval(SIGNALS, run) == 1
    admin.post(f"/runs/{run}/signal", {"event": "paid"})
    assert await inside.fetchval(SIGNALS, run) == 2


async def test_another_request_with_the_same_key_is_refused(admin: Caller, inside: Connection) -> None:
    run = await _run(admin)
    once = {"idempotency_key": f"other-{run}"}
    assert admin.post(f"/runs/{run}/signal", {"event": "paid"}, **once).status == 200
    for path, body in ((f"/runs/{run}/signal", {"event": "late"}), (f"/runs/{run}/pause", {"reason": "x"})):
        answer = admin.post(path, body, **once)
        assert (answer.status, answer.json["type"]) == (422, "urn:dispatcher:problem:idempotency-key-reused")
    # The same words to another address are another request.
    assert admin.post(f"/runs/{run + 1}/signal", {"event": "paid"}, **once).status == 422
    assert await inside.fetchval(SIGNALS, run) == 1


async def test_many_at_once_are_done_once(admin: Caller, inside: Connection) -> None:
    run = await _run(admin)

    def one() -> Answer:
        return admin.post(f"/runs/{run}/signal", {"event": "paid"}, idempotency_key=f"many-{run}")

    told = await asyncio.gather(*(asyncio.to_thread(one) for _ in range(8)))
    assert {(one.status, one.body) for one in told} == {(200, told[0].body)}
    assert await inside.fetchval(SIGNALS, run) == 1


async def test_a_refused_trigger_may_be_repeated(admin: Caller, inside: Connection) -> None:
    once = {"idempotency_key": "again"}
    assert admin.post("/deliveries", delivery("again", template_name="nowhere") | {"body": None}, **once).status == 400
    assert admin.post("/deliveries", delivery("again"), **once).status == 201
    assert await inside.fetchval("SELECT count(*) FROM dispatcher.api_answers WHERE key = 'again'") == 1


async def test_a_key_is_of_one_workspace(admin: Caller) -> None:
    other = Caller(admin.program, make_key(admin.program, tenant="acme"))
    answers = [caller.post("/deliveries", delivery("mine"), idempotency_key="mine") for caller in (admin, other)]
    assert [one.status for one in answers] == [201, 201]
    assert answers[0].json["id"] != answers[1].json["id"]


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
async def test_an_invalid_key_is_refused(admin: Caller, key: str) -> None:
    answer = admin.post("/runs/1/pause", {"reason": "x"}, idempotency_key=key)
    assert list(answer.faults) == ["header.Idempotency-Key"]


async def test_many_deliveries_are_written_or_none(admin: Caller, inside: Connection) -> None:
    def many(*found: dict[str, Any]) -> Answer:
        return admin.post("/deliveries/batch", {"deliveries": list(found)})

    async def count() -> int:
        return int(await inside.fetchval("SELECT count(*) FROM dispatcher.deliveries"))

    before = await count()
    faulty = many(delivery("b1"), delivery("b2", chanel="x", lane="fast"), delivery("b3", tenant_id="acme"))
    assert set(faulty.faults) == {
        "$.deliveries[1].chanel",
        "$.deliveries[1].lane",
        "$.deliveries[2].tenant_id",
    }
    unknown = many(
        delivery("b1"), {"idempotency_key": "b2", "channel": "sms", "to": "+4917012345", "template_name": "nowhere"}
    )
    assert list(unknown.faults) == ["$.deliveries[1].template_name"]
    assert await count() == before
    sound = many(delivery("b1"), delivery("b2"), delivery("b1"))
    assert [one["duplicate"] for one in sound.json["deliveries"]] == [False, False, True]
    assert sound.json["deliveries"][0]["id"] == sound.json["deliveries"][2]["id"]
    assert await count() == before + 2
    wrongs: list[object] = [
        {},
        {"deliveries": []},
        {"deliveries": 3},
        {"deliveries": [1]},
        [1],
        {"deliveries": [], "x": 1},
        3,
    ]
    for wrong in wrongs:
        assert admin.post("/deliveries/batch", wrong).status == 400


async def test_old_answers_are_forgotten(program: Program, connection: Connection) -> None:
    await program.start(DISPATCHER_JANITOR__INTERVAL_SECONDS="0.1")
    caller = Caller(program, make_key(program))
    caller.post("/deliveries", delivery("old"), idempotency_key="old")
    caller.post("/deliveries", delivery("new"), idempotency_key="new")
    await connection.execute(
        "UPDATE dispatcher.api_answers SET created_at = now() - interval '25 hours' WHERE key = 'old'"
    )

    async def kept() -> bool:
        return bool(await connection.fetchval("SELECT count(*) = 1 AND min(key) = 'new' FROM dispatcher.api_answers"))

    await until(kept, "what is a day old is forgotten")
