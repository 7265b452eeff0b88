"""Triggers that arrive at the same time: written together, and each answered for itself."""

from concurrent.futures import ThreadPoolExecutor

from tests.api.caller import Answer, Caller
from tests.store import flows
from tests.store.scene import Connection

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
    kept = await inside.fetch("SELECT id FROM dispatcher.runs WHERE workflow = 'asks'")
    assert {row["id"] for row in kept} == runs
    assert len(runs) == REQUESTS // 4
