"""WF-19 and DL-04: calls of functions that were under way when their program was killed, whichever way they came in."""

import json

from dispatcher.client import Client, Message
from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, Silent, says
from tests.conformance.outbox import Outbox
from tests.conformance.runs import BRISK, Runs, call, steps
from tests.support.caller import make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until

BODY = '{"action": "create", "payload": {"order": 7}}'
TEMPLATE = json.dumps({"body": BODY})
FUNCTIONS = ("again", "once")
DONE = says(200, {"success": True})
ENQUEUE = "SELECT dispatcher.enqueue_delivery('http', $1, $2, $3::jsonb)"


def at(fake: FakeServer, idempotent: str) -> dict[str, str]:
    """Both functions are at one server; `idempotent` is which of them is so."""
    found = BRISK | {
        "DISPATCHER_CHANNELS__HTTP__PROVIDER": "functions",
        # What a dead owner has begun can be settled once no call of its can be under way any more.
        "DISPATCHER_CHANNELS__HTTP__CALL_SECONDS_MAX": "30",
    }
    for name in FUNCTIONS:
        settings = {"URL": fake.url, "ALLOW_ADDRESSES": LOOPBACK, "IDEMPOTENT": str(name == idempotent).lower()}
        found |= {f"DISPATCHER_FUNCTIONS__{name.upper()}__{key}": text for key, text in settings.items()}
    return found


async def put_every_way(program: Program, connection: Connection, name: str) -> int:
    """One call of a function by each way in; answers the run that makes one of them."""
    for relation in ("deliveries", "channel_outbox"):
        await connection.execute(
            f"""INSERT INTO dispatcher.{relation} (idempotency_key, channel, recipient, template)
                VALUES ($1, 'http', $2, $3)""",
            f"{name}-{relation}",
            name,
            TEMPLATE,
        )
    await connection.copy_records_to_table(
        "deliveries",
        schema_name="dispatcher",
        records=[(f"{name}-copied", "http", name, TEMPLATE)],
        columns=("idempotency_key", "channel", "recipient", "template"),
    )
    await connection.execute(ENQUEUE, name, f"{name}-enqueued", TEMPLATE)
    message = Message(key=f"{name}-client", channel="http", to=name, body=BODY)
    await Client.on(connection).send(message)
    async with Client(program.address, make_key(program)) as client:
        await client.send(Message(key=f"{name}-http", channel="http", to=name, body=BODY))
    sent = program.run("send", "--channel", "http", "--to", name, "--key", f"{name}-cli", "--body", BODY)
    assert sent.returncode == 0, sent.stderr
    return await Runs(connection, FUNCTIONS).start(steps(call(name)))


WAYS = 8


async def test_WF_19_calls_that_a_kill_cuts_off_are_made_again_where_their_function_was_idempotent_at_their_mark(
    program: Program, second: Program, connection: Connection, outbox: Outbox
) -> None:
    """Who recovers them has another opinion, which counts for what it marks itself."""

    async def settled() -> bool:
        return await outbox.count("sent") + await outbox.count("held") == WAYS * len(FUNCTIONS)

    async with FakeServer(Silent()) as fake:
        await program.start(**at(fake, idempotent="again"))
        again, once = [await put_every_way(program, connection, name) for name in FUNCTIONS]
        await until(lambda: len(fake.requests) == WAYS * len(FUNCTIONS), "all are called")
        await program.kill()
        fake.always = DONE
        await second.start(**at(fake, idempotent="once"))
        await until(settled, "none is under way any more")
        await Runs(connection).until_status(again, "completed")
    lives = "SELECT recipient, life, attempt FROM dispatcher.visible_delivery_life GROUP BY 1, 2, 3 ORDER BY 1"
    assert [tuple(row) for row in await connection.fetch(lives)] == [("again", "sent", 2), ("once", "held", 1)]
    asked = sorted((one.headers["idempotency-key"], one.body) for one in fake.requests)
    keys = [key for key, _ in asked]
    assert sorted(keys.count(key) for key in set(keys)) == [1] * WAYS + [2] * WAYS
    assert len(set(asked)) == len(set(keys))
    assert (await Runs(connection).row(once))["status"] == "running"
    resent = await connection.fetch("SELECT DISTINCT outcome, resent_by FROM dispatcher.delivery_attempts")
    assert [tuple(row) for row in resent] == [("unknown", "key")]
