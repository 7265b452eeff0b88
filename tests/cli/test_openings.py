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
    text(cli.run("resume", "channel", "push", "--reason", "over"))
    assert said[0] == "written 4, duplicates 0, refused 0"
    assert said[1].startswith("3 of them: waits: channel push is paused by ")
    assert len(said) == 2


async def test_show_has_the_last_failed_attempt_and_what_a_function_answered(
    program: Program, connection: Connection
) -> None:
    program.environment["DISPATCHER_CHANNELS__SMS__FAULTS__REFUSE"] = "1"
    await program.start()
    (refused,) = rows(program.run("send", "--channel", "sms", "--to", "+4917012345", "--body", "x", "--json"))
    await until_lives(connection, [refused["id"]], "failed")
    (shown,) = rows(program.run("deliveries", "show", str(refused["id"]), "--json"))
    (attempt,) = shown["attempts"]
    assert (attempt["attempt"], attempt["outcome"], attempt["reason"]) == (1, "failed", shown["error"])
    await connection.execute(
        """INSERT INTO dispatcher.delivery_answers (delivery_id, token, data)
           SELECT id, token, '{"ticket": 4711}' FROM dispatcher.delivery_state"""
    )
    (shown,) = rows(program.run("deliveries", "show", str(refused["id"]), "--json"))
    assert shown["data"] == {"ticket": 4711}
    said = text(program.run("deliveries", "show", str(refused["id"])))
    assert '{"ticket": 4711}' in said
    assert "\nattempts\n" in said
    # People read one word for where it stands; the contract's is in JSON.
    assert [line.split()[1] for line in said.splitlines() if line.startswith(("life", "status"))] == ["failed"]


async def test_a_delivery_without_a_variable_is_repaired_once(cli: Cli, inside: Connection) -> None:
    key = str(uuid4())
    words = (
        "send",
        "--channel",
        "sms",
        "--to",
        "+4917012345",
        "--body",
        "Hello {{ name }} of {{ town }}",
        "--var",
        "town=Ulm",
    )
    (origin,) = rows(cli.run(*words, "--key", key, "--json"))
    await until_lives(inside, [origin["id"]], "failed")
    retry = ("deliveries", "retry", str(origin["id"]), "--var", "name=Ann", "--reason", "it had no name")
    said = text(cli.run(*retry))
    (new,) = rows(cli.run("deliveries", "show", "--key", f"retry-of-{origin['id']}", "--json"))
    assert said.startswith(f"delivery {origin['id']} is written anew as delivery {new['id']}; ")
    await until_lives(inside, [new["id"]], "sent")
    (new,) = rows(cli.run("deliveries", "show", str(new["id"]), "--json"))
    assert [one["parts"] for one in new["captured"]] == [{"body": "Hello Ann of Ulm"}]
    assert new["retry_of"] == origin["id"]
    (shown,) = rows(cli.run("deliveries", "show", str(origin["id"]), "--json"))
    assert (shown["life"], shown["retried_by"]) == ("failed", new["id"])
    assert [(one["action"], one["reason"]) for one in shown["actions"]] == [("repair", "it had no name")]

    (again,) = rows(cli.run(*retry, "--json"))
    assert (again["done"], again["delivery_id"]) == (True, new["id"])
    (other,) = rows(cli.run(*retry, "--var", "name=Bob", "--json"), 1)
    assert (other["done"], other["answer"]) == (False, "other")
    assert f"delivery {new['id']}" in other["message"]
    # Neither goes out a second time.
    assert rows(cli.run(*retry[:3], "--reason", "again", "--json"), 1)[0]["answer"] == "repaired"
    (late,) = rows(cli.run("deliveries", "retry", str(new["id"]), *retry[3:], "--json"), 1)
    assert late["answer"] == "sent"
    assert await inside.fetchval("SELECT count(*) FROM dispatcher.deliveries WHERE retry_of = $1", origin["id"]) == 1


async def test_lists_show_what_was_said_and_not_its_template(cli: Cli, inside: Connection) -> None:
    to = f"{uuid4()}@example.org"
    words = ("--channel", "email", "--to", to, "--part", "subject=Order {{ id }}", "--part", "text=x", "--var", "id=17")
    (sent,) = rows(cli.run("send", *words, "--json"))
    (listed,) = [one for one in rows(cli.run("deliveries", "list", "--json")) if one["id"] == sent["id"]]
    assert listed["subject"] == "Order 17"
    for page in (cli.run("deliveries", "list"), cli.run("contacts", "timeline", to)):
        (line,) = [one for one in text(page).splitlines() if str(sent["id"]) in one.split()]
        assert "Order 17" in line
