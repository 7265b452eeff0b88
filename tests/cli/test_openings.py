"""What `send`, `deliveries list` and `show` say of a delivery that was written: when it is due, and why it waits."""

import json
from uuid import uuid4

from tests.cli.test_operate import rows, text, until_lives
from tests.support.program import Program
from tests.support.remote_cli import Cli
from tests.support.scene import Connection

LATER = "2040-01-01T08:00:00Z"


async def test_send_says_what_will_happen(program: Program, connection: Connection) -> None:
    def send(*words: str) -> str:
        return text(program.run("send", "--body", "Hello", *words)).strip()

    alone = send("--channel", "sms", "--to", "+4917012345", "--key", "alone")
    number = await connection.fetchval("SELECT id FROM dispatcher.deliveries")
    assert alone == f"written: delivery {number} with the key alone; waits: no dispatcher is running"
    await program.start()
    await until_lives(connection, [number], "sent")
    again = send("--channel", "sms", "--to", "+4917012345", "--key", "alone")
    assert again == f"duplicate: delivery {number} with the key alone is sent, and nothing is sent again"
    assert send("--channel", "sms", "--to", "+4917012345").endswith("; due now")
    later = send("--channel", "sms", "--to", "+4917012345", "--at", LATER)
    assert later.endswith("; due at 2040-01-01 08:00:00 UTC")
    text(program.run("pause", "channel", "push", "--reason", "maintenance", "--actor", "ann"))
    paused = "channel push is paused by ann: maintenance"
    assert send("--channel", "push", "--to", "device-1").endswith(f"; waits: {paused}")
    text(program.run("suppressions", "add", "+4917099999", "--reason", "asked"))
    gone = send("--channel", "sms", "--to", "+4917099999", "--key", "gone")
    assert gone.endswith("; suppressed: operator: asked")
    number = await connection.fetchval("SELECT id FROM dispatcher.deliveries WHERE idempotency_key = 'gone'")
    await until_lives(connection, [number], "skipped")
    late = send("--channel", "sms", "--to", "+4917012345", "--expires-at", "2020-01-01T00:00:00Z")
    assert late.endswith("; expired")

    listed = text(program.run("deliveries", "list", "--channel", "push"))
    assert f"waits: {paused}" in listed
    (pushed,) = rows(program.run("deliveries", "list", "--channel", "push", "--json"))
    assert (pushed["waits"], pushed["life"]) == (paused, "pending")
    assert paused in text(program.run("deliveries", "show", str(pushed["id"])))


async def test_a_file_says_how_many_of_its_lines_wait_and_why(cli: Cli) -> None:
    channels = ["push", "push", "push", "sms"]
    lines = [{"idempotency_key": str(uuid4()), "channel": name, "to": "1", "body": "x"} for name in channels]
    given = b"\n".join(json.dumps(one).encode() for one in lines)
    text(cli.run("pause", "channel", "push", "--reason", "maintenance"))
    said = text(cli.run("send", "--file", "-", stdin=given)).splitlines()
    text(cli.run("resume", "channel", "push"))
    assert said[0] == "written 4, duplicates 0, refused 0"
    assert said[1].startswith("3 of them: waits: channel push is paused by ")
    assert len(said) == 2
