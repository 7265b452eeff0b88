"""WF-07 over HTTP: a trigger takes another path there than in SQL, with others or in a transaction of its own."""

import asyncio
from typing import Any

import pytest

from tests.conformance.flows import Flows
from tests.conformance.test_triggers import GREETING
from tests.support.caller import Caller, make_key
from tests.support.waits import until_blocked


def _by_http(admin: Caller, workflow: str, key: str, name: str, *, in_header: bool) -> Any:
    """The answer to a trigger over HTTP: one with the key in its body is gathered with others, one with a header is
    not."""
    body = {"input": {"name": name}} | ({} if in_header else {"idempotency_key": key})
    headers = {"Idempotency_Key": key} if in_header else {}
    answer = admin.post(f"/workflows/{workflow}/triggers", body, **headers)
    assert answer.status in (200, 201), answer.body
    assert (answer.status == 200) == answer.json["duplicate"] or in_header
    return answer.json


@pytest.mark.parametrize("in_header", [False, True], ids=["body", "header"])
async def test_WF_07_over_http_a_duplicate_trigger_returns_the_first_run(flows: Flows, *, in_header: bool) -> None:
    """Whichever door was the first."""
    name = f"doors-{in_header}"
    await flows.put(GREETING | {"name": name})
    admin = Caller(flows.program, make_key(flows.program))
    begun = await flows.trigger(name, {"name": "Ann"}, idempotency_key="by-sql")
    again = await asyncio.to_thread(_by_http, admin, name, "by-sql", "Bob", in_header=in_header)
    assert (again["execution_id"], again["duplicate"]) == (begun, True)
    first = await asyncio.to_thread(_by_http, admin, name, "by-http", "Ann", in_header=in_header)
    assert first["duplicate"] is False
    later = await flows.answer(name, {"name": "Bob"}, idempotency_key="by-http")
    assert (later["execution_id"], later["duplicate"]) == (first["execution_id"], True)
    await flows.until_status(first["execution_id"], "completed")
    assert await flows.said(first["execution_id"]) == ["Hello Ann"]


async def test_WF_07_many_at_once_over_http_start_one_run(flows: Flows) -> None:
    """They wait for a transaction that has used the key and then takes it back, so that they meet: in one batch, in
    several, and beside others whose keys are free."""
    await flows.put(GREETING | {"name": "http-crowd"})
    admin = Caller(flows.program, make_key(flows.program))
    transaction = flows.connection.transaction()
    await transaction.start()
    given_back = await flows.trigger("http-crowd", {"name": "Ann"}, idempotency_key="k")
    keys = ["k"] * 20 + [f"other-{number}" for number in range(5)] * 2
    asked = [
        asyncio.create_task(asyncio.to_thread(_by_http, admin, "http-crowd", key, "Ann", in_header=False))
        for key in keys
    ]
    try:
        await until_blocked(flows.connection)
    finally:
        await transaction.rollback()
    answers = await asyncio.gather(*asked)
    found: dict[str, set[int]] = {}
    for key, answer in zip(keys, answers, strict=True):
        found.setdefault(key, set()).add(answer["execution_id"])
    assert {len(runs) for runs in found.values()} == {1}
    assert given_back not in found["k"]
    assert sum(not answer["duplicate"] for answer in answers) == len(found)
    assert await flows.connection.fetchval("SELECT count(*) FROM dispatcher.runs WHERE workflow = 'http-crowd'") == 6
