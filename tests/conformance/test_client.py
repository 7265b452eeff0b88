"""The clauses of the Python client, each against the real program."""

import asyncpg
import pytest

from dispatcher.client import Client, Message, NotFound, Refused, Run, WaitTimedOut
from tests.conformance.outbox import Outbox
from tests.conformance.runs import BRISK, Runs, sms, steps
from tests.support.caller import make_key
from tests.support.program import Program
from tests.support.scene import Connection

PAID = steps(sms(), {"type": "wait", "event": "paid"}, sms(body="{{ n2.amount }}"), name="paying")
STRICT = steps(sms(body="{{ name }}"), name="strict", required_fields=["order"])
MESSAGE = Message(key="order-17", channel="sms", to="+4917012345", body="Hello")


async def test_OP_03_the_client_does_the_same_over_http_and_inside_a_transaction(
    program: Program, connection: Connection, outbox: Outbox, url: str
) -> None:
    await program.start(**BRISK)
    await Runs(connection).put(STRICT)
    watcher = await asyncpg.connect(url)
    try:
        inside = Client.on(connection)
        async with Client(program.address, make_key(program)) as client:
            for caller in (client, inside):
                with pytest.raises(Refused, match="Missing required fields: order; Missing template variables: name"):
                    await caller.trigger("strict")
            transaction = connection.transaction()
            await transaction.start()
            await inside.send(MESSAGE)
            await transaction.rollback()
            with pytest.raises(NotFound):
                await client.delivery("order-17")
            async with connection.transaction():
                sent = await inside.send(MESSAGE)
                run = await inside.trigger("strict", {"order": 17, "name": "Ann"}, key="order-17")
                assert await watcher.fetchval("SELECT count(*) FROM dispatcher.runs") == 0
            again = await client.send(MESSAGE)
            assert (again.id, again.duplicate) == (sent.id, True)
            second = await client.trigger("strict", key="order-17")
            assert (second.id, second.duplicate) == (run.id, True)
            await outbox.until_life(sent.id, "sent")
            assert await client.delivery(sent.id) == await inside.delivery("order-17")
            assert await client.wait(run.id, timeout=30, poll=0.05) == await inside.status(run.id)
    finally:
        await watcher.close()


async def test_WF_22_a_client_waits_for_the_end_with_a_progress_callback(
    program: Program, connection: Connection
) -> None:
    await program.start(**BRISK)
    await Runs(connection).put(PAID)
    async with Client(program.address, make_key(program, "triggerOperator")) as client:
        for caller in (client, Client.on(connection)):
            told: list[Run] = []
            run = await caller.trigger("paying")
            with pytest.raises(WaitTimedOut, match=f"run {run.id} of paying is"):
                await caller.wait(run.id, timeout=0, poll=0.05)

            async def tell(state: Run) -> None:
                told.append(state)  # noqa: B023 - it is called before the next turn
                if state.status == "waiting":
                    await client.signal(state.id, "paid", {"amount": 12})

            ended = await caller.wait(run.id, on_progress=tell, timeout=30, poll=0.05)
            assert ended.status == told[-1].status == "completed"
            assert "waiting" in [state.status for state in told]
