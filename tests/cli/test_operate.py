"""Operating as whoever types it sees it: held deliveries, pauses, checks and quarantine, on real processes."""

import asyncio
import json
import os
import pty
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dispatcher.db.health import checks
from tests.conformance.outbox import QUICK
from tests.support.forks import ROOT
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.violations import VIOLATIONS
from tests.support.waits import until, until_blocked, until_heeded

Done = subprocess.CompletedProcess[bytes]
UNKNOWN = {"DISPATCHER_CHANNELS__SMS__FAULTS__UNKNOWN": "1"}


@pytest.fixture
async def second(url: str) -> AsyncIterator[Program]:
    """The program that is started after the first one has gone."""
    program = Program(url)
    try:
        yield program
    finally:
        program.end()


def rows(result: Done, code: int = 0) -> list[dict[str, Any]]:
    """Standard output as JSON lines, of a command that ended with this code."""
    assert result.returncode == code, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.splitlines()]


def text(result: Done, code: int = 0) -> str:
    """Standard output of a command that ended with this code."""
    assert result.returncode == code, result.stderr.decode()
    assert b"Traceback" not in result.stderr
    return result.stdout.decode()


def talk(result: Done, code: int) -> str:
    """Standard error of a command that ended with this code, and said nothing else."""
    assert text(result, code) == ""
    return result.stderr.decode()


async def put(connection: Connection, count: int = 1, channel: str = "sms", tenant: str = "default") -> list[int]:
    """Deliveries that are due."""
    found = await connection.fetch(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, tenant_id)
           SELECT gen_random_uuid(), $2, CASE $2 WHEN 'email' THEN 'ann@example.org' ELSE '+4917' END,
                  '{"body": "x"}', $3 FROM generate_series(1, $1::int) RETURNING id""",
        count,
        channel,
        tenant,
    )
    return [row["id"] for row in found]


async def put_held(connection: Connection, count: int = 1, channel: str = "sms", early_seconds: float = 0) -> list[int]:
    """Deliveries whose owner died during the call."""
    ids = await put(connection, count, channel)
    await connection.execute(
        """UPDATE dispatcher.delivery_state
              SET ready = false, marked = true, attempt = 1, token = 1, held = true, error = 'unknown: the owner died',
                  held_at = now(), settle_after = now() + make_interval(secs => $2)
            WHERE id = ANY ($1)""",
        ids,
        early_seconds,
    )
    return ids


async def lives(connection: Connection, ids: list[int]) -> list[str]:
    """Where they stand, in the order of the ids."""
    found = await connection.fetch("SELECT id, life FROM dispatcher.delivery_life WHERE id = ANY ($1)", ids)
    named = {row["id"]: row["life"] for row in found}
    return [named[one] for one in ids]


async def until_lives(connection: Connection, ids: list[int], life: str) -> None:
    """Wait until all of them stand there."""

    async def there() -> bool:
        return set(await lives(connection, ids)) == {life}

    await until(there, f"{ids} are {life}")


async def sent(connection: Connection, ids: list[int]) -> int:
    """How many of them have been sent."""
    return (await lives(connection, ids)).count("sent")


async def test_held_deliveries_are_listed_shown_and_settled_in_three_ways(
    program: Program, second: Program, connection: Connection
) -> None:
    ids = await put(connection, 3)
    program.environment.update(UNKNOWN)
    await program.start()
    await until_lives(connection, ids, "held")
    assert await program.stop() == 0

    listed = rows(program.run("held", "list", "--channel", "sms", "--json"))
    assert {row["id"] for row in listed} == set(ids)
    assert listed[0]["error"] == "unknown: the answer was lost on purpose"
    one, two, three = map(str, ids)
    (shown,) = rows(program.run("held", "show", one, "--json"))
    assert (shown["life"], shown["attempt"], shown["can_be_settled"]) == ("held", 1, True)
    assert shown["held_at"]
    assert len(shown["captured"]) == 1
    page = text(program.run("held", "show", one))
    for words in ("since", "the answer was lost on purpose", "can be settled", "captured"):
        assert words in page

    said = text(program.run("held", "resolve", one, "--sent", "--message-id", "m-1", "--reason", "seen"))
    assert said.strip() == f"delivery {one} is settled as sent"
    (answer,) = rows(program.run("held", "resolve", two, "--failed", "--reason", "gone", "--json"))
    failed = f"delivery {two} is settled as failed"
    assert answer == {"id": ids[1], "done": True, "answer": "settled", "message": failed}
    again = ("held", "resolve", three, "--requeue", "--reason", "not there", "--actor", "ann")
    assert "will be sent again" in text(program.run(*again))
    await second.start()
    await until_lives(connection, [ids[2]], "sent")
    assert await lives(connection, ids) == ["sent", "failed", "sent"]

    (after,) = rows(program.run("deliveries", "show", three, "--json"))
    (act,) = after["actions"]
    assert (act["actor"], act["action"], act["reason"]) == ("ann", "settle_requeue", "not there")
    assert "ann requeued it" in text(program.run(*again), 1)
    (report,) = rows(program.run("check", "--json"))
    assert report["holds"]


async def test_every_answer_to_a_resolution_is_a_sentence_and_one_refusal_is_exit_code_1(
    program: Program, connection: Connection
) -> None:
    (fine,), (early,) = await put_held(connection), await put_held(connection, early_seconds=3_600)
    (waiting,) = await put(connection)
    named = [str(one) for one in (fine, early, waiting, 404, fine)]
    resolve = ("held", "resolve", *named, "--sent", "--reason", "seen", "--actor", "ann")
    answers = rows(program.run(*resolve, "--json"), 1)
    assert [one["answer"] for one in answers] == ["settled", "early", "not held", "unknown"]
    assert [one["done"] for one in answers] == [True, False, False, False]
    lines = text(program.run(*resolve), 1).splitlines()
    assert f"delivery {fine} is sent already: ann settled it as sent at " in lines[0]
    assert lines[0].endswith("(seen)")
    assert f"delivery {early} cannot be settled before " in lines[1]
    assert lines[1].endswith("a call of its dead owner may still be going on")
    assert lines[2:] == [f"delivery {waiting} is not held, it is pending", "there is no delivery 404"]
    assert "until then a call of its dead owner may still be going on" in text(program.run("held", "show", str(early)))
    assert f"delivery {waiting} is not held, it is pending" in talk(program.run("held", "show", str(waiting)), 1)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.operator_actions") == 1


async def test_of_two_concurrent_settlements_one_wins_and_the_other_gets_the_state(
    program: Program, connection: Connection
) -> None:
    (contested,) = await put_held(connection)

    def resolve(as_what: str, actor: str) -> Done:
        return program.run("held", "resolve", str(contested), as_what, "--reason", "mine", "--actor", actor)

    async with connection.transaction():
        await connection.execute("SELECT FROM dispatcher.delivery_state WHERE id = $1 FOR UPDATE", contested)
        both = asyncio.gather(
            asyncio.to_thread(resolve, "--sent", "ann"), asyncio.to_thread(resolve, "--failed", "bob")
        )
        await until_blocked(connection, 2)
    ann, bob = await both
    winner, won, loser = ("ann", "sent", bob) if ann.returncode == 0 else ("bob", "failed", ann)
    assert {ann.returncode, bob.returncode} == {0, 1}
    assert f"is {won} already: {winner} settled it as {won} at " in text(loser, 1)
    assert await lives(connection, [contested]) == [won]
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.operator_actions") == 1


async def test_all_of_a_channel_are_counted_first_and_resolved_in_pages(
    program: Program, connection: Connection
) -> None:
    (early,) = await put_held(connection, early_seconds=3_600)
    await put_held(connection, 1_200)
    others = await put_held(connection, 2, "email")
    resolve = ("held", "resolve", "--all", "--channel", "sms", "--failed", "--reason", "all lost")
    assert "1,201 deliveries would be settled as failed" in talk(program.run(*resolve), 1)
    refused = program.run(*resolve, "--json")
    assert rows(refused, 1) == []
    assert json.loads(refused.stderr)["deliveries"] == 1_201
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.delivery_state WHERE held") == 1_203

    done = program.run(*resolve, "--yes", "--json")
    assert rows(done, 1) == [{"held": 1_201, "settled": 1_200, "not_settled": 1}]
    assert [json.loads(line)["id"] for line in done.stderr.splitlines()] == [early]
    assert await lives(connection, [early, *others]) == ["held"] * 3
    nobody_s = "held resolve --all --tenant nobody --sent --reason x --yes"
    assert text(program.run(*nobody_s.split())).strip() == "none is held"


@pytest.mark.parametrize(("answer", "code", "life"), [("n", 1, "held"), ("y", 0, "sent")])
async def test_at_a_terminal_it_asks_and_shows_how_far_it_is(
    program: Program, connection: Connection, answer: str, code: int, life: str
) -> None:
    ids = await put_held(connection, 3)
    ours, theirs = pty.openpty()
    command = program.command("held", "resolve", "--all", "--sent", "--reason", "x")
    terminal = program.environment_with({"TERM": "xterm"})
    os.write(ours, answer.encode() + b"\n")
    process = await asyncio.create_subprocess_exec(
        *command, env=terminal, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs, cwd=ROOT
    )
    ended = await process.wait()
    os.close(theirs)
    seen = os.read(ours, 65_536).decode()
    os.close(ours)
    assert ended == code, seen
    assert "3 deliveries would be settled as sent" in seen
    assert ("settling" in seen) is (answer == "y")
    assert await lives(connection, ids) == [life] * 3


async def test_a_paused_channel_waits_through_a_restart_and_goes_on_when_it_is_resumed(
    program: Program, second: Program, connection: Connection
) -> None:
    program.environment.update(QUICK | {"DISPATCHER_CHANNELS__SMS__RATE_PER_SECOND": "20"})
    backlog = await put(connection, 400)
    await program.start()
    await until(lambda: sent(connection, backlog), "the first are sent")
    pause = ("pause", "channel", "sms", "--reason", "the carrier is down", "--actor", "ann")
    assert text(program.run(*pause)).strip() == "channel sms is paused"
    await until_heeded(connection)
    until_paused = await sent(connection, backlog)
    assert 0 < until_paused < len(backlog)
    others = await put(connection, 3, "email")
    await until_lives(connection, others, "sent")
    await program.kill()
    await second.start()
    more = await put(connection, 3, "email")
    await until_lives(connection, more, "sent")
    assert await sent(connection, backlog) == until_paused
    assert "sending" not in await lives(connection, backlog)

    (paused,) = rows(program.run("pauses", "--json"))
    assert (paused["scope"], paused["name"]) == ("channel", "sms")
    assert (paused["actor"], paused["reason"]) == ("ann", "the carrier is down")
    (again,) = rows(program.run("pause", "channel", "sms", "--reason", "again", "--actor", "bob", "--json"))
    assert again == paused | {"already": True}
    assert "by ann: the carrier is down" in text(program.run(*pause))

    assert text(program.run("resume", "channel", "sms", "--reason", "over")).strip() == "channel sms goes on"
    await until_lives(connection, backlog, "sent")
    assert "channel sms is not paused; no channel is" in talk(
        program.run("resume", "channel", "sms", "--reason", "over"), 1
    )
    assert text(program.run("pauses")).strip() == "Nothing is paused."


async def test_only_deliveries_of_a_paused_tenant_are_parked(program: Program, connection: Connection) -> None:
    await program.start()
    (paused,) = rows(program.run("pause", "tenant", "acme", "--reason", "unpaid", "--json"))
    assert (paused["scope"], paused["name"], paused["already"]) == ("tenant", "acme", False)
    await until_heeded(connection)
    theirs, ours = await put(connection, 3, tenant="acme"), await put(connection, 3)
    await until_lives(connection, ours, "sent")
    await until_lives(connection, theirs, "parked")
    assert "paused: acme" in talk(program.run("resume", "tenant", "acne", "--reason", "over"), 1)
    (resumed,) = rows(program.run("resume", "tenant", "acme", "--reason", "over", "--json"))
    assert resumed == {
        "scope": "tenant",
        "name": "acme",
        "resumed": True,
        "tenant_id": None,
        "workspace_id": None,
    }
    await until_lives(connection, theirs, "sent")


async def test_a_workspace_is_paused_and_what_is_in_it_and_nothing_beside_it(
    program: Program, connection: Connection
) -> None:
    place = ("--tenant", "default", "--workspace", "default")
    assert program.run("pause", "channel", "voice", *place, "--reason", "no lines").returncode == 0
    said = ("pause", "workspace", "default", "--reason", "wrong prices", "--actor", "ann")
    assert text(program.run(*said)).strip() == "workspace default of default is paused"
    assert "by ann: wrong prices" in text(program.run(*said))
    listed = rows(program.run("pauses", "--json"))
    assert [(one["scope"], one["name"], one["tenant_id"], one["workspace_id"]) for one in listed] == [
        ("channel", "voice", "default", "default"),
        ("workspace", "default", "default", "default"),
    ]
    assert "default/default" in text(program.run("pauses"))
    assert "everywhere" in talk(program.run("pause", "provider", "capture", *place, "--reason", "x"), 2)
    assert "NAME is the workspace" in talk(
        program.run("pause", "workspace", "default", "--workspace", "x", "--reason", "x"), 2
    )
    assert "paused: voice of default/default" in talk(program.run("resume", "channel", "voice", "--reason", "over"), 1)
    (theirs,), (ours,) = await put(connection, 1, tenant="acme"), await put(connection, 1)
    await program.start()
    await until_lives(connection, [theirs], "sent")
    await until_lives(connection, [ours], "parked")
    assert (
        text(program.run("resume", "workspace", "default", "--reason", "over")).strip()
        == "workspace default of default goes on"
    )
    await until_lives(connection, [ours], "sent")
    assert (
        text(program.run("resume", "channel", "voice", *place, "--reason", "over")).strip()
        == "channel voice of default/default goes on"
    )


async def test_a_planted_violation_of_each_invariant_is_found_and_named(
    program: Program, connection: Connection
) -> None:
    planted = {name: 1_000 + number for number, name in enumerate(VIOLATIONS)}
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        for name, script in VIOLATIONS.items():
            await connection.execute(script.format(id=planted[name]))
    (report,) = rows(program.run("check", "--json"), 1)
    assert not report["holds"]
    assert report["limits"]
    found = {one["invariant"]: one["ids"] for one in report["invariants"]}
    assert {name: ids for name, ids in found.items() if planted[name] not in ids} == {}
    assert set(found) == set(planted) == set(checks.invariants())
    page = text(program.run("check"), 1)
    assert f"of {len(planted)} do not hold" in page
    assert "A held delivery says since when and why." in page
    assert str(planted["nothing_is_stuck"]) in page


async def test_a_sound_database_holds_and_the_limits_of_the_promise_are_said(program: Program) -> None:
    page = text(program.run("check"))
    assert page.count(" ok\n") + page.count(" ok ") == len(VIOLATIONS)
    assert f"All {len(VIOLATIONS)} hold." in page
    for words in ("asynchronous standby", "quarantine --before", "pooler", "Row-level security"):
        assert words in page


async def test_each_provider_is_asked_whether_a_call_could_begin(program: Program) -> None:
    at = "DISPATCHER_CHANNELS__SMS__PROVIDERS__"
    program.environment |= {
        f"{at}AWAY__PROVIDER": "ledger",
        f"{at}AWAY__OPTIONS__PORT": "1",
        f"{at}HERE__PROVIDER": "capture",
    }
    (report,) = rows(program.run("check", "--json"))
    (away,) = report["providers"]
    assert (away["channel"], away["provider"], away["ready"]) == ("sms", "away", False)
    assert "cannot be reached" in away["reason"]
    assert "cannot be reached" in text(program.run("check"))


async def test_a_quarantine_counts_before_it_holds(program: Program, connection: Connection) -> None:
    due = await put(connection, 3)
    (later,) = await put(connection)
    await connection.execute("UPDATE dispatcher.delivery_state SET run_at = '2040-01-01' WHERE id = $1", later)
    after = await connection.fetchval("SELECT now() + interval '1 second'")
    quarantine = ("quarantine", "--before", after.isoformat(), "--reason", "restored", "--actor", "ann")
    before = ("quarantine", "--before", "2020-01-01T00:00:00Z", "--reason", "restored", "--yes", "--json")
    assert rows(program.run(*before))[0]["held"] == 0
    assert "3 deliveries created before " in talk(program.run(*quarantine), 1)
    assert await lives(connection, due) == ["pending"] * 3

    done = program.run(*quarantine, "--yes")
    assert text(done).startswith("3 deliveries held")
    assert b"3 deliveries created before" in done.stderr
    assert await lives(connection, [*due, later]) == ["held"] * 3 + ["pending"]
    (shown, *_) = rows(program.run("held", "list", "--json"))
    assert shown["error"] == "quarantined: restored"
    assert "nothing that is due" in text(program.run(*quarantine, "--yes"))


REFUSALS = [
    ("held resolve 1 --reason x", 2, "exactly one"),
    ("held show 404", 1, "no delivery 404"),
    ("pause channel fax --reason x", 3, "unknown channel; there are chat, email"),
    ("pause provider pigeon --reason x", 3, "unknown provider; there are capture"),
    (f"pause tenant {'x' * 101} --reason x", 3, "$.name: "),
    ("pause tenant \udcff --reason x", 2, "not UTF-8"),
    ("quarantine --before yesterday --reason x", 2, "RFC 3339"),
]


async def test_impossible_commands_end_with_their_exit_code(program: Program) -> None:
    results = await asyncio.gather(*(asyncio.to_thread(program.run, *given.split()) for given, _, _ in REFUSALS))
    for result, (given, code, words) in zip(results, REFUSALS, strict=True):
        assert words in talk(result, code), given
