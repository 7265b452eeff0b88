"""WF-19: function calls as nodes of runs, to what their answers add, and whatever a function does instead."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.channels.shared.web.fake_server import (
    LOOPBACK,
    METADATA,
    Endless,
    FakeServer,
    Silent,
    dropped,
    json_of,
    says,
)
from tests.conformance.runs import Running, Runs, call, running, sms, steps
from tests.support.program import Program

# Which functions there are: `again` is idempotent, and `hasty` does not wait.
FUNCTIONS = {"bill": {}, "again": {"IDEMPOTENT": "true"}, "hasty": {"TIMEOUT_SECONDS": "0.3"}}
DONE = says(200, {"success": True, "data": {"invoice": 17, "to": {"name": "Ann"}}})


def at(fake: FakeServer) -> dict[str, str]:
    """All of them are at one server."""
    given = {"URL": fake.url, "TOKEN": "sesame-4711", "ALLOW_ADDRESSES": LOOPBACK}
    return {"DISPATCHER_CHANNELS__HTTP__PROVIDER": "functions"} | {
        f"DISPATCHER_FUNCTIONS__{name.upper()}__{key}": text
        for name, own in FUNCTIONS.items()
        for key, text in (given | own).items()
    }


@pytest.fixture(scope="module")
async def place(shared_url: str) -> AsyncIterator[tuple[Running, FakeServer]]:
    """A program and its functions."""
    async with FakeServer(DONE) as fake, running(shared_url, at(fake), FUNCTIONS) as here:
        yield here, fake


@pytest.fixture
def fake(place: tuple[Running, FakeServer]) -> FakeServer:
    """Its functions, with nothing asked of them yet."""
    fake = place[1]
    fake.requests.clear()
    fake.next.clear()
    fake.always = DONE
    return fake


async def test_WF_19_a_call_posts_action_and_payload_with_its_token_and_a_key_and_its_data_comes_into_vars(
    runs: Runs, fake: FakeServer
) -> None:
    second = call(payload={"of": "{{ bill.to.name }}", "step": "{{ step_0_result.invoice }}", "for": ["{{ who }}"]})
    run = await runs.start(steps({**call(), "id": "bill"}, second), who='A "quoted" one')
    await runs.until_status(run, "completed")
    first, then = fake.requests
    assert [(one.method, one.headers["authorization"]) for one in (first, then)] == [("POST", "Bearer sesame-4711")] * 2
    assert json_of(first) == {"action": "create", "payload": {"order": 7}}
    assert json_of(then) == {"action": "create", "payload": {"of": "Ann", "step": 17, "for": ['A "quoted" one']}}
    keys = {one.headers["idempotency-key"] for one in (first, then)}
    assert len(keys) == 2
    data = {"invoice": 17, "to": {"name": "Ann"}}
    assert await runs.vars(run) == dict.fromkeys(("bill", "step_0_result", "n2", "step_1_result"), data)


async def test_WF_19_in_the_list_form_data_is_merged_into_the_context_as_well(runs: Runs, fake: FakeServer) -> None:
    run = await runs.start(
        {
            "steps": [
                {"name": "bill", "function": "bill", "action": "create", "payload_template": {"order": "{{ order }}"}}
            ]
        },
        order=7,
    )
    await runs.until_status(run, "completed")
    data = {"invoice": 17, "to": {"name": "Ann"}}
    assert await runs.vars(run) == {**data, "bill": data, "step_0_result": data}
    assert json_of(fake.requests[0]) == {"action": "create", "payload": {"order": 7}}


PERMANENT = {
    "said": (says(200, {"success": False, "error": "full"}), "full"),
    "status": (says(422, {"error": "no such order"}), "422"),
    "page": (says(200, raw=b"<html>hello</html>"), "no JSON object"),
    "redirect": (says(302, {}, Location=METADATA), "redirect"),
}
PASSING = {
    "status": says(503, {"success": False}),
    "says so": says(200, {"success": False, "error": "busy", "retryable": True}),
}


@pytest.mark.parametrize("what", PERMANENT)
async def test_WF_19_a_failure_that_will_not_pass_fails_the_run_at_once(
    runs: Runs, fake: FakeServer, what: str
) -> None:
    answer, words = PERMANENT[what]
    fake.next.append(answer)
    run = await runs.start(steps(call(), sms()))
    row = await runs.until_status(run, "failed", "completed")
    assert (row["status"], row["error_node"]) == ("failed", "n1")
    assert words in row["error"]
    assert len(fake.requests) == 1


@pytest.mark.parametrize("what", PASSING)
async def test_WF_19_a_failure_that_may_pass_is_tried_again_with_its_key(
    runs: Runs, fake: FakeServer, what: str
) -> None:
    fake.next += [PASSING[what]] * 2
    run = await runs.start(steps(call()))
    await runs.until_status(run, "completed")
    assert len(fake.requests) == 3
    assert len({one.headers["idempotency-key"] for one in fake.requests}) == 1


async def test_WF_19_an_answer_without_an_end_is_cut_off_and_fails(runs: Runs, fake: FakeServer) -> None:
    endless = Endless()
    fake.next.append(endless)
    run = await runs.start(steps(call()))
    row = await runs.until_status(run, "failed", "completed")
    assert "more than 65536 bytes" in row["error"]
    await endless.stopped.wait()
    assert len(fake.requests) == 1


async def test_WF_19_a_time_out_of_an_idempotent_function_is_asked_for_again_with_its_key(
    runs: Runs, fake: FakeServer
) -> None:
    fake.next.append(dropped)
    run = await runs.start(steps(call("again")))
    await runs.until_status(run, "completed")
    assert len(fake.requests) == 2
    assert len({one.headers["idempotency-key"] for one in fake.requests}) == 1


@pytest.mark.parametrize(("as_what", "status"), [("--sent", "completed"), ("--failed", "failed")])
async def test_WF_19_a_time_out_of_another_is_held_and_its_run_stays_open_until_somebody_says_what_became_of_it(
    runs: Runs, program_here: Program, fake: FakeServer, as_what: str, status: str
) -> None:
    """Nothing for a minute, of a function that is not waited for as long."""
    silent = Silent()
    fake.next.append(silent)
    run = await runs.start(steps(call("hasty"), sms()))
    held = await runs.delivery(run, "n1", "held")
    silent.let_go.set()
    shown = program_here.run("runs", "show", str(run), "--json")
    found = json.loads(shown.stdout)
    assert (found["status"], found["held"]) == ("running", 1)
    said = program_here.run("held", "resolve", str(held), as_what, "--reason", "looked it up")
    assert said.returncode == 0, said.stderr
    await runs.until_status(run, status)
    assert len(fake.requests) == 1
