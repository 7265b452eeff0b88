"""Dead letters as whoever types it sees them: listed by filter and page, shown, replayed and discarded."""

import asyncio
import json
import signal
import subprocess
from asyncio.subprocess import PIPE
from typing import Any

from tests.support.flows import at_node, fail, ordered, plan, put, stand, status, trigger
from tests.support.forks import ROOT
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until_blocked

Done = subprocess.CompletedProcess[bytes]
WHY = ("--reason", "the provider is back", "--actor", "ann")


def rows(result: Done, code: int = 0) -> list[dict[str, Any]]:
    """Standard output as JSON lines, of a command that ended with this code."""
    assert result.returncode == code, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.splitlines()]


def text(result: Done, code: int = 0) -> str:
    """Standard output of a command that ended with this code."""
    assert result.returncode == code, result.stderr.decode()
    assert b"Traceback" not in result.stderr
    return result.stdout.decode()


def letters(result: Done) -> list[str]:
    """The names of what is listed."""
    return [row["letter"] for row in rows(result)]


async def dead_runs(connection: Connection, count: int, name: str = "welcome") -> list[int]:
    """Runs that have failed at their mail, with the one delivery of it."""
    await put(connection, plan(name=name))
    ids = []
    for _ in range(count):
        run = int((await trigger(connection, name=name))["execution_id"])
        await at_node(connection, run)
        await finish(connection, await ordered(connection, run))
        await fail(connection, run)
        ids.append(run)
    return ids


async def dead_deliveries(
    connection: Connection, count: int, channel: str = "sms", error: str = "No Route"
) -> list[int]:
    """Deliveries of nobody's that have failed."""
    found = await connection.fetch(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
           SELECT gen_random_uuid(), $2, '+491701', '{"body": "x"}' FROM generate_series(1, $1::int) RETURNING id""",
        count,
        channel,
    )
    ids = [row["id"] for row in found]
    await finish(connection, ids, error)
    return ids


async def finish(connection: Connection, ids: list[int], error: str = "No Route") -> None:
    """Let them have failed after one attempt."""
    await connection.execute(
        """UPDATE dispatcher.delivery_state SET status = 'failed', ready = false, marked = true, attempt = 1, token = 1,
                  finished_at = now(), error = $2 WHERE id = ANY ($1)""",
        ids,
        error,
    )


async def test_WF_18_dead_letters_are_listed_by_filter_and_page(program: Program, connection: Connection) -> None:
    first, second = await dead_runs(connection, 2)
    (other,) = await dead_runs(connection, 1, "goodbye")
    sms = await dead_deliveries(connection, 2)
    (mail,) = await dead_deliveries(connection, 1, "email", "Mailbox full")
    runs = [f"run:{one}" for one in (other, second, first)]
    deliveries = [f"delivery:{one}" for one in (mail, *reversed(sms))]

    def listed(*words: str) -> list[str]:
        return letters(program.run("dead", "list", "--json", *words))

    assert listed() == runs + deliveries
    assert listed("--kind", "run") == runs
    assert listed("--workflow", "welcome") == runs[1:]
    assert listed("--channel", "email") == listed("--error", "mailbox FULL") == [f"delivery:{mail}"]
    assert listed("--since", "1h") == runs + deliveries
    assert listed("--until", "1h") == listed("--tenant", "nobody") == []
    # In pages, from one kind to the other.
    assert listed("--limit", "4") == [*runs, deliveries[0]]
    assert listed("--limit", "2", "--before", runs[1]) == [runs[2], deliveries[0]]
    assert listed("--before", deliveries[0]) == deliveries[1:]
    table = program.run("dead", "list", "--limit", "2")
    assert runs[0] in text(table)
    assert f"--before {runs[1]}" in table.stderr.decode()


async def test_WF_18_a_dead_letter_is_shown_as_what_it_is_and_nothing_else_is(
    program: Program, connection: Connection
) -> None:
    (run,) = await dead_runs(connection, 1)
    (delivery,) = await dead_deliveries(connection, 1)
    (shown,) = rows(program.run("dead", "show", f"run:{run}", "--json"))
    assert (shown["status"], shown["error"], len(shown["deliveries"])) == ("failed", "it said no", 1)
    (shown,) = rows(program.run("dead", "show", f"delivery:{delivery}", "--json"))
    assert (shown["id"], shown["error"]) == (delivery, "No Route")
    # That of a run is shown with its run.
    none = program.run("dead", "show", f"delivery:{delivery - 1}")
    assert none.returncode == 1
    assert f"delivery {delivery - 1} is no dead letter" in none.stderr.decode()


async def test_WF_18_named_ones_are_replayed_and_who_did_it_is_kept(program: Program, connection: Connection) -> None:
    (run,) = await dead_runs(connection, 1)
    (delivery,) = await dead_deliveries(connection, 1)
    names = (f"run:{run}", f"delivery:{delivery}", "run:404")
    told = rows(program.run("dead", "replay", *names, *WHY, "--json"), 1)
    assert [(one["kind"], one["id"], one["answer"]) for one in told] == [
        ("run", run, "replayed"),
        ("delivery", delivery, "reopened"),
        ("run", 404, "none"),
    ]
    assert await status(connection, run) == "running"
    kept = await connection.fetch("SELECT delivery_id, actor, reason FROM dispatcher.operator_actions ORDER BY id")
    assert {tuple(row)[1:] for row in kept} == {("ann", "the provider is back")}
    assert delivery in {row["delivery_id"] for row in kept}
    noted = await connection.fetchval("SELECT error FROM dispatcher.run_entries WHERE event = 'replayed'")
    assert noted == "ann: the provider is back"
    assert "is no dead letter" in text(program.run("dead", "replay", *names[:1], *WHY), 1)


async def test_WF_18_all_of_a_filter_are_counted_first_and_replayed_in_pages(
    program: Program, connection: Connection
) -> None:
    runs = await dead_runs(connection, 3)
    sms = await dead_deliveries(connection, 1_200)
    mails = await dead_deliveries(connection, 2, "email")
    replay = ("dead", "replay", "--all", *WHY)
    asked = program.run(*replay)
    assert text(asked, 1) == ""
    assert "1,205 dead letters would be replayed" in asked.stderr.decode()
    refused = program.run(*replay, "--channel", "sms", "--json")
    assert (refused.returncode, json.loads(refused.stderr)["dead_letters"]) == (1, 1_200)

    assert rows(program.run(*replay, "--channel", "sms", "--yes", "--json")) == [
        {"dead": 1_200, "replayed": 1_200, "not_replayed": 0}
    ]
    assert set(await stand(connection, sms)) == {"pending"}
    assert set(await stand(connection, mails)) == {"failed"}
    assert text(program.run(*replay, "--yes")).strip() == "5 dead letters replayed"
    assert {await status(connection, run) for run in runs} == {"running"}
    assert text(program.run(*replay, "--yes")).strip() == "there is no dead letter"


async def test_WF_18_what_is_discarded_stays_failed_and_is_listed_no_more(
    program: Program, connection: Connection
) -> None:
    (run,) = await dead_runs(connection, 1)
    delivery, other = await dead_deliveries(connection, 2)
    assert (
        text(program.run("dead", "discard", "--all", "--kind", "run", *WHY, "--yes")).strip()
        == "1 dead letter discarded"
    )
    said = text(program.run("dead", "discard", f"delivery:{delivery}", *WHY))
    assert said.strip() == f"delivery {delivery} is discarded: it stays failed, and is no dead letter any more"
    assert await status(connection, run) == "failed"
    assert letters(program.run("dead", "list", "--json")) == [f"delivery:{other}"]
    (shown,) = rows(program.run("deliveries", "show", str(delivery), "--json"))
    assert [(one["actor"], one["action"], one["reason"]) for one in shown["actions"]] == [
        ("ann", "discard", "the provider is back")
    ]
    assert "was discarded before" in text(program.run("dead", "discard", f"delivery:{delivery}", *WHY), 1)


async def test_WF_18_who_interrupts_a_replay_is_told_how_far_it_came(program: Program, connection: Connection) -> None:
    ids = await dead_deliveries(connection, 700)
    async with connection.transaction():
        # The newest come first, 500 of them in a page: it waits in the second one.
        await connection.execute("SELECT FROM dispatcher.delivery_state WHERE id = $1 FOR UPDATE", ids[0])
        replaying = await asyncio.create_subprocess_exec(
            *program.command("dead", "replay", "--all", *WHY, "--yes", "--json"),
            env=program.environment_with({}),
            stdout=PIPE,
            stderr=PIPE,
            cwd=ROOT,
        )
        await until_blocked(connection, 1)
        replaying.send_signal(signal.SIGINT)
        said, talked = await replaying.communicate()
    assert replaying.returncode == 130
    assert said == b""
    assert json.loads(talked) == {"stopped": True, "replayed": 500, "not_replayed": 0}
    assert (await stand(connection, ids)).count("pending") == 500
