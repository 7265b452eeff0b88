"""Triggers that arrive at the same time: written in one batch, each with its own answer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from dispatcher.http.server.connection_shares import PATIENT_MAX
from tests.support import flows
from tests.support.caller import Answer, Caller, make_key
from tests.support.scene import Connection
from tests.support.waits import until_blocked

AT_ONCE = 24
REQUESTS = 120


async def test_many_at_once_are_each_answered_for_themselves(admin: Caller, inside: Connection) -> None:
    await flows.put(inside, flows.plan(name="asks", required=["name"]))

    def ask(number: int) -> Answer:
        body = {"input": {"name": "Ann"}, "idempotency_key": f"many-{number // 4}"}
        match number % 4:
            case 2:
                return admin.post("/workflows/asks/triggers", {"idempotency_key": f"bad-{number}"})
            case 3:
                return admin.post("/workflows/nothing/triggers", body)
            case _:
                return admin.post("/workflows/asks/triggers", body)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(ask, range(REQUESTS)))
    runs = set()
    for number in range(0, REQUESTS, 4):
        one, other, bad, nothing = answers[number : number + 4]
        assert sorted((one.status, other.status)) == [200, 201]
        assert one.json["execution_id"] == other.json["execution_id"]
        runs.add(one.json["execution_id"])
        assert (bad.status, bad.json["detail"]) == (400, "Missing required fields: name")
        assert nothing.status == 404
    stored = await inside.fetch("SELECT id FROM dispatcher.runs WHERE workflow = 'asks'")
    assert {row["id"] for row in stored} == runs
    assert len(runs) == REQUESTS // 4


async def test_a_trigger_that_waits_for_a_lock_does_not_delay_others(admin: Caller, inside: Connection) -> None:
    await flows.put(inside, flows.plan(name="held"))
    elsewhere = Caller(admin.program, make_key(admin.program, tenant="elsewhere"))

    def ask(caller: Caller, key: str) -> "asyncio.Task[Answer]":
        asked = asyncio.to_thread(caller.post, "/workflows/held/triggers", {"input": {}, "idempotency_key": key})
        return asyncio.create_task(asked)

    keys = [f"held-{number}" for number in range(3)]
    transaction = inside.transaction()
    await transaction.start()
    for key in keys:
        await inside.execute("SELECT dispatcher.trigger_workflow('held', '{}', $1)", key)
    waiting = []
    for place, key in enumerate(keys, 1):
        waiting.append(ask(admin, key))
        await until_blocked(inside, min(place, PATIENT_MAX))
    assert (await ask(elsewhere, "free")).status == 404
    assert (await ask(admin, "free")).status == 201
    assert [one.result() for one in waiting if one.done()] == []
    await transaction.rollback()
    assert [answer.status for answer in await asyncio.gather(*waiting)] == [201] * len(keys)
