"""OP-15: the traceparent of whoever writes a delivery, a trigger or an event is carried to the provider call."""

import json
from collections.abc import AsyncIterator

import pytest

from dispatcher.client import Client, Event, Message, Refused
from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, says
from tests.conformance.outbox import Outbox
from tests.conformance.runs import Running, call, running, sms, steps
from tests.support.caller import Caller, delivery, make_key
from tests.support.rules import put_rule, put_template

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
DONE = says(200, {"success": True})


def at(fake: FakeServer) -> dict[str, str]:
    sms, email = "DISPATCHER_CHANNELS__SMS__", "DISPATCHER_CHANNELS__EMAIL__"
    return {
        "DISPATCHER_CHANNELS__HTTP__PROVIDER": "functions",
        "DISPATCHER_FUNCTIONS__BILL__URL": fake.url,
        "DISPATCHER_FUNCTIONS__BILL__ALLOW_ADDRESSES": LOOPBACK,
        f"{sms}PROVIDER": "signed_webhook",
        f"{sms}OPTIONS__URL": fake.url,
        f"{sms}OPTIONS__SECRETS": SECRET,
        f"{sms}OPTIONS__ALLOW_ADDRESSES": LOOPBACK,
        f"{email}PROVIDER": "signed_webhook",
        f"{email}OPTIONS__URL": fake.url,
        f"{email}OPTIONS__SECRETS": SECRET,
        f"{email}OPTIONS__ALLOW_ADDRESSES": LOOPBACK,
    }


def trace(number: int) -> str:
    """A traceparent of its own."""
    return f"00-{number:032x}-{number:016x}-01"


@pytest.fixture(scope="module")
async def place(shared_url: str) -> AsyncIterator[tuple[Running, FakeServer]]:
    """A program that sends everything to one server."""
    async with FakeServer(DONE) as fake, running(shared_url, at(fake), {"bill"}) as here:
        await put_template(here.runs.connection, "quote/sent", "email")
        await put_rule(here.runs.connection)
        yield here, fake


@pytest.fixture
def here(place: tuple[Running, FakeServer]) -> Running:
    return place[0]


@pytest.fixture
def fake(place: tuple[Running, FakeServer]) -> FakeServer:
    """The server, with nothing asked of it yet."""
    place[1].requests.clear()
    return place[1]


def carried(fake: FakeServer) -> list[str | None]:
    return sorted((one.headers.get("traceparent") for one in fake.requests), key=str)


@pytest.fixture
def outbox(here: Running) -> Outbox:
    return here.runs.outbox


async def test_OP_15_over_http_the_header_of_the_request_comes_to_the_call(
    here: Running, fake: FakeServer, outbox: Outbox
) -> None:
    admin = Caller(here.program, make_key(here.program))
    made = [admin.post("/deliveries", delivery("http-1"), traceparent=trace(1)).json["id"]]
    batch = {"deliveries": [delivery("http-2")]}
    made.append(admin.post("/deliveries/batch", batch, traceparent=trace(2)).json["deliveries"][0]["id"])
    lines = {"lines": [json.dumps(delivery("http-3"))]}
    made.append(admin.post("/deliveries/lines", lines, traceparent=trace(3)).json["lines"][0]["id"])
    made.append(admin.post("/deliveries", delivery("http-4")).json["id"])
    for number in made:
        await outbox.until_life(number, "sent")
    assert carried(fake) == [trace(1), trace(2), trace(3), None]


async def test_OP_15_a_run_hands_its_trace_on_to_everything_that_it_sends(here: Running, fake: FakeServer) -> None:
    await here.runs.put(steps(call(), sms(), name="traced"))
    admin = Caller(here.program, make_key(here.program))
    asked = {"input": {"order": 7}}
    triggered = [
        admin.post("/workflows/traced/triggers", asked, traceparent=trace(4)),
        # With a key it is in no batch.
        admin.post("/workflows/traced/triggers", asked, traceparent=trace(5), idempotency_key="once"),
    ]
    older = {"action": "enqueue", "payload": {"workflow": "traced", "data": asked["input"]}}
    runs = [one.json["execution_id"] for one in triggered]
    runs.append(int(admin.post("/workflow-enqueue", older, traceparent=trace(6)).json["data"]["execution_id"]))
    for run in runs:
        await here.runs.until_status(run, "completed")
    assert carried(fake) == [trace(number) for number in (4, 4, 5, 5, 6, 6)]


async def test_OP_15_the_doors_in_sql_take_it_too(here: Running, fake: FakeServer, outbox: Outbox) -> None:
    connection = here.runs.connection
    await here.runs.put(steps(call(), name="traced_in_sql"))
    made = [
        await connection.fetchval(
            """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template, traceparent)
               VALUES ('sql-1', 'http', 'bill', '{"body": "{}"}', $1) RETURNING id""",
            trace(7),
        ),
        await connection.fetchval(
            """SELECT delivery_id FROM dispatcher.enqueue_delivery(
                   'http', 'bill', 'sql-2', '{"body": "{}"}', traceparent => $1)""",
            trace(8),
        ),
    ]
    run = await connection.fetchval(
        """SELECT execution_id FROM dispatcher.trigger_workflow('traced_in_sql', '{"order": 7}', traceparent => $1)""",
        trace(9),
    )
    rows = await connection.fetch(
        """SELECT unnest(delivery_ids) AS id FROM dispatcher.notify(
               'quote_sent', lead => '{"email": "ann@example.org"}', traceparent => $1)""",
        trace(10),
    )
    for number in (*made, *(row["id"] for row in rows)):
        await outbox.until_life(number, "sent")
    await here.runs.until_status(run, "completed")
    assert carried(fake) == [trace(number) for number in (7, 8, 9, 10)]


async def test_OP_15_both_clients_hand_it_on(here: Running, fake: FakeServer, outbox: Outbox) -> None:
    await here.runs.put(steps(call(), name="traced_by_client"))
    async with Client(here.program.address, make_key(here.program)) as client:
        for number, caller in ((20, client), (30, Client.on(here.runs.connection))):
            one, two = (
                Message(key=f"client-{number}-{place}", channel="sms", to="+4917012345", body="x") for place in (1, 2)
            )
            sent = [await caller.send(one, traceparent=trace(number))]
            sent += await caller.send([two], traceparent=trace(number + 1))
            run = await caller.trigger("traced_by_client", {"order": 7}, traceparent=trace(number + 2))
            event = Event(trigger="quote_sent", lead={"email": "ann@example.org"})
            told = await caller.notify(event, traceparent=trace(number + 3))
            ids = [each.id for each in sent]
            ids += [one for decision in told for one in decision.delivery_ids]
            for each in ids:
                await outbox.until_life(each, "sent")
            await here.runs.until_status(run.id, "completed")
            with pytest.raises(Refused, match="expected a W3C traceparent") as refused:
                await caller.send(one, traceparent="00-0")
            assert [fault.path for fault in refused.value.faults] == ["$.traceparent"]
    assert carried(fake) == [trace(number) for number in (20, 21, 22, 23, 30, 31, 32, 33)]


async def test_OP_15_a_malformed_one_is_refused_by_its_path(here: Running) -> None:
    admin = Caller(here.program, make_key(here.program))
    for path, body in (
        ("/deliveries", delivery("bad")),
        ("/deliveries/batch", {"deliveries": [delivery("bad")]}),
        ("/deliveries/lines", {"lines": ["{}"]}),
        ("/workflows/traced/triggers", {"input": {}}),
        ("/events", {"trigger": "quote_sent"}),
        ("/events/batch", {"events": [{"trigger": "quote_sent"}]}),
    ):
        answer = admin.post(path, body, traceparent=trace(0))
        assert (answer.status, list(answer.faults)) == (400, ["header.traceparent"]), path
    # Elsewhere it is nobody's business.
    assert admin.post("/pauses", {"scope": "nothing"}, traceparent="x").status == 400
    assert admin.get("/runs", traceparent="x").status == 200
