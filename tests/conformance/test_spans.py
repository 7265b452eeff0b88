"""OP-15: with a collector configured, the steps of sampled deliveries are spans; without one there is nothing."""

import json
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, Silent, says
from tests.conformance.outbox import QUICK, Outbox
from tests.support.caller import Caller, delivery, make_key
from tests.support.collector import Collector, facts
from tests.support.program import Program

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
STEPS = ["claim", "render", "mark", "call", "flush"]
DONE = says(200, {"success": True})


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """The function that deliveries call."""
    async with FakeServer(DONE) as server:
        yield server


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with Collector() as one:
        yield one


def traced(fake: FakeServer, collector: Collector, ratio: float) -> dict[str, str]:
    """A dispatcher that calls a function, and exports its spans."""
    return QUICK | {
        "DISPATCHER_RETRY__BASE_SECONDS": "0.05",
        "DISPATCHER_CHANNELS__HTTP__PROVIDER": "functions",
        "DISPATCHER_FUNCTIONS__BILL__URL": fake.url,
        "DISPATCHER_FUNCTIONS__BILL__ALLOW_ADDRESSES": LOOPBACK,
        "DISPATCHER_TRACING__ENDPOINT": collector.url,
        "DISPATCHER_TRACING__SAMPLING_RATIO": str(ratio),
        "DISPATCHER_TRACING__SERVICE_NAME": "shop-dispatcher",
    }


def to_bill(key: str) -> dict[str, object]:
    return delivery(key, channel="http", recipient="bill", body=json.dumps({"order": 17}))


async def test_OP_15_a_request_is_followed_through_every_step_into_the_call_of_the_function(
    program: Program, outbox: Outbox, fake: FakeServer, collector: Collector
) -> None:
    await program.start(**traced(fake, collector, 0))
    admin = Caller(program, make_key(program))
    followed = admin.post("/deliveries", to_bill("one"), traceparent=SAMPLED).json["id"]
    others = [admin.post("/deliveries", to_bill("two"), traceparent=UNSAMPLED), admin.post("/deliveries", to_bill("3"))]
    for number in (followed, *(one.json["id"] for one in others)):
        await outbox.until_life(number, "sent")
    root, *steps = await collector.until_spans(len(STEPS) + 1)
    assert [root.name, *(one.name for one in steps)] == ["deliver", *STEPS]
    assert {one.trace_id.hex() for one in (root, *steps)} == {TRACE}
    assert (root.parent_span_id.hex(), {one.parent_span_id for one in steps}) == (SPAN, {root.span_id})
    assert len({one.span_id for one in (root, *steps)}) == len(steps) + 1
    # One after the other, and within the whole.
    assert all(before.end_time_unix_nano <= after.end_time_unix_nano for before, after in pairwise(steps))
    assert root.start_time_unix_nano == steps[0].start_time_unix_nano
    assert root.end_time_unix_nano == steps[-1].end_time_unix_nano
    # The function goes on with the span of its call; what is not sampled is carried on as it came.
    (call,) = (one for one in steps if one.name == "call")
    carried = sorted((one.headers.get("traceparent") for one in fake.requests), key=str)
    assert carried == sorted([f"00-{TRACE}-{call.span_id.hex()}-01", UNSAMPLED, None], key=str)
    assert facts(call) == {"dispatcher.provider": "functions", "dispatcher.verdict": "accepted"}
    assert facts(root)["dispatcher.delivery_id"] == followed
    assert facts(root)["dispatcher.outcome"] == "succeeded"
    (where,) = collector.requests[0].resource_spans
    named = {one.key: one.value.string_value for one in where.resource.attributes}
    assert named["service.name"] == "shop-dispatcher"
    # The collector has them before the program has its answer.
    await program.until(
        lambda: program.metric("dispatcher_spans_total", result="exported") == len(STEPS) + 1, "they are counted"
    )


async def test_OP_15_all_attempts_of_a_delivery_are_in_one_trace_and_nothing_personal_is(
    program: Program, outbox: Outbox, fake: FakeServer, collector: Collector
) -> None:
    fake.next.append(says(503, {"success": False, "error": "the cellar of Ann"}))
    await program.start(**traced(fake, collector, 1))
    said = {"channel": "http", "recipient": "bill", "template": json.dumps({"body": '{"to": "Ann"}'})}
    number = await outbox.put(**said, idempotency_key="Ann-17")
    await outbox.until_life(number, "sent")
    spans = await collector.until_spans(2 * (len(STEPS) + 1))
    assert len({one.trace_id for one in spans}) == 1
    roots = [one for one in spans if one.name == "deliver"]
    assert [(facts(one)["dispatcher.outcome"], one.parent_span_id) for one in roots] == [
        ("again", b""),
        ("succeeded", b""),
    ]
    calls = [one for one in spans if one.name == "call"]
    assert [one.headers["traceparent"].split("-")[2] for one in fake.requests] == [one.span_id.hex() for one in calls]
    assert [one.status.code for one in calls] == [2, 0]
    assert not any(b"Ann" in one.body or b"cellar" in one.body for one in collector.server.requests)


async def test_OP_15_a_collector_that_fails_or_hangs_stops_no_delivery(
    program: Program, outbox: Outbox, fake: FakeServer, collector: Collector
) -> None:
    collector.server.next.append(says(400, {}))
    hanging = collector.server.always = Silent()
    await program.start(**traced(fake, collector, 1))
    first = await outbox.put(channel="http", recipient="bill", template='{"body": "{}"}')
    await outbox.until_life(first, "sent")
    await program.until(
        lambda: program.metric("dispatcher_spans_total", result="failed") == 6, "the failure is counted"
    )
    assert program.events("tracing.failing")
    for _ in range(2):
        number = await outbox.put(channel="http", recipient="bill", template='{"body": "{}"}')
        await outbox.until_life(number, "sent")
    await hanging.begun.wait()
    await program.stop()
    hanging.let_go.set()
    assert program.events("process.stopped")
    assert not [one for one in program.lines() if one.get("level") == "error"]
