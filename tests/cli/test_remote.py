"""Failures between a command and a server: each is said in a sentence, and nothing is done twice."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from tests.cli.test_operate import put, put_held, rows, talk, text, until_lives
from tests.support.caller import make_key
from tests.support.program import Program
from tests.support.remote_cli import Done, RemoteCli, told

CHUNK_BYTES = 65_536
WHY = ("--reason", "to see")
NO_KEY = f"dsp_a1B2c3D4e5F6_{'x' * 43}"
SEND = ("send", "--channel", "sms", "--to", "1", "--body", "x", "--at", "2040-01-01T00:00:00Z")


def said(done: Done, code: int) -> dict[str, Any]:
    """The error of a command that did nothing, as JSON."""
    error: dict[str, Any] = json.loads(talk(done, code))
    return error


async def test_an_invalid_key_is_named(serving: Program, remote: RemoteCli) -> None:
    wrong = said(RemoteCli(serving, NO_KEY).run("runs", "list", "--json"), 1)
    assert (wrong["error"], wrong["message"]) == (
        "Unauthenticated",
        "the server does not take our key: this is no key of ours",
    )
    made = serving.run("keys", "create", "gone", "--role", "systemAdmin", *WHY)
    gone = RemoteCli(serving, made.stdout.decode().strip())
    text(serving.run("keys", "revoke", "gone", *WHY))
    await serving.until(lambda: "is revoked" in gone.run("runs", "list").stderr.decode(), "it is revoked")
    operator = RemoteCli(serving, make_key(serving, "triggerOperator"))
    assert "takes a systemAdmin" in talk(operator.run("deliveries", "list"), 1)
    # It may not see workflows, and is told all the same that there is none.
    assert "there is no workflow 'nobody'" in talk(operator.run("trigger", "nobody"), 3)


async def test_a_workspace_outside_the_key_is_refused_before_any_change(remote: RemoteCli, serving: Program) -> None:
    elsewhere = said(remote.run("trigger", "any", "--tenant", "acme", "--workspace", "main", "--json"), 2)
    assert elsewhere["error"] == "OtherWorkspace"
    assert [fault["path"] for fault in elsewhere["faults"]] == ["--tenant", "--workspace"]
    assert "opens default, and not acme" in elsewhere["faults"][0]["message"]
    assert "opens default, and not acme" in talk(remote.run("deliveries", "list", "--tenant", "acme"), 2)
    assert rows(remote.run("deliveries", "list", "--tenant", "default", "--limit", "1", "--json")) is not None
    assert "opens default, and not acme" in talk(remote.run(*SEND, "--key", "elsewhere", "--tenant", "acme"), 2)
    line = b'{"idempotency_key": "elsewhere", "channel": "sms", "to": "1", "body": "x", "tenant_id": "acme"}'
    refused = json.loads(remote.run("send", "--file", "-", "--json", stdin=line).stderr)
    assert refused["faults"] == [{"path": "tenant_id", "message": "the key opens default"}]
    theirs = RemoteCli(serving, make_key(serving, "systemAdmin", "acme", "main"))
    (sent,) = rows(theirs.run(*SEND, "--key", "of acme", "--json"))
    (shown,) = rows(theirs.run("deliveries", "show", "--key", "of acme", "--json"))
    assert (shown["id"], shown["tenant_id"], shown["workspace_id"]) == (sent["id"], "acme", "main")
    assert "there is no delivery" in talk(remote.run("deliveries", "show", str(sent["id"])), 1)


async def test_commands_that_need_a_database_say_so(remote: RemoteCli) -> None:
    for words, why in (
        ("migrate --check", "unset DISPATCHER_URL"),
        ("check", "unset DISPATCHER_URL"),
        ("quarantine --before 2030-01-01T00:00:00Z --reason restored", "unset DISPATCHER_URL"),
    ):
        error = said(remote.run(*words.split(), "--json"), 2)
        assert (error["error"], why in error["message"]) == ("NoRemoteForm", True)
    assert "--actor" in talk(remote.run("runs", "cancel", "1", *WHY, "--actor", "ann"), 2)
    assert "DISPATCHER_URL" in talk(remote.run("runs", "list", DISPATCHER_URL="nowhere"), 2)


async def test_an_unreachable_server_is_named_with_its_address(remote: RemoteCli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{taken.getsockname()[1]}"
        error = said(remote.run("runs", "list", "--json", DISPATCHER_URL=away), 1)
    assert error["error"] == "Unavailable"
    assert away in error["message"]
    assert remote.environment["DISPATCHER_KEY"] not in json.dumps(error)


@asynccontextmanager
async def cutting(program: Program, count: int, of: bytes = b"") -> AsyncIterator[str]:
    """An address of a program whose first answers, to requests that begin so, are lost on the way back."""
    place = urlsplit(program.address)
    left = count
    under_way: set[asyncio.Task[None]] = set()

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        there, here = await asyncio.open_connection(place.hostname, place.port)
        asked: list[bytes] = []
        asking = asyncio.create_task(pump(reader, here, asked))
        try:
            while chunk := await there.read(CHUNK_BYTES):
                if left and any(one.startswith(of) for one in asked):
                    left -= 1
                    break
                writer.write(chunk)
        finally:
            writer.close()
            await asking

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.add(asyncio.create_task(through(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        # Who asked has gone, and with him every connection.
        await asyncio.gather(*under_way)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: list[bytes]) -> None:
    """Pass on what is said, and the end of it."""
    with suppress(ConnectionError):
        while chunk := await reader.read(CHUNK_BYTES):
            said.append(chunk)
            writer.write(chunk)
    writer.close()


async def test_an_answer_that_is_lost_is_asked_for_again_and_nothing_is_done_twice(remote: RemoteCli) -> None:
    async with cutting(remote.program, 2) as address:
        sent = await asyncio.to_thread(remote.run, *SEND, "--key", "lost", "--json", DISPATCHER_URL=address)
    (answer,) = rows(sent)
    assert (answer["idempotency_key"], answer["duplicate"]) == ("lost", False)
    delivery = str(answer["id"])
    async with cutting(remote.program, 1) as address:
        cancelled = await asyncio.to_thread(
            remote.run, "deliveries", "cancel", delivery, *WHY, "--json", DISPATCHER_URL=address
        )
    assert [(one["done"], one["answer"]) for one in rows(cancelled)] == [(True, "cancelled")]
    (shown,) = rows(remote.run("deliveries", "show", delivery, "--json"))
    assert [one["action"] for one in shown["actions"]] == ["cancel"]


async def test_held_and_dead_ones_look_and_end_the_same_through_a_server(program: Program, connection: Any) -> None:
    held = await put_held(connection, 2)
    (early,) = await put_held(connection, early_seconds=3_600)
    (waiting,) = await put(connection)
    await connection.execute(
        "UPDATE dispatcher.delivery_state SET run_at = now() + interval '1 day' WHERE id = $1", waiting
    )
    await program.start()
    remote = RemoteCli(program)
    for words in (f"held show {early} --json", f"held show {waiting}", "held list --channel sms --json"):
        near, there = program.run(*words.split()), remote.run(*words.split())
        assert (near.returncode, near.stderr) == (there.returncode, there.stderr)
        assert told(rows(near, near.returncode)) == rows(there, near.returncode)
    ids = [str(one) for one in (held[0], early, waiting, 999_999)]
    resolve = ("held", "resolve", *ids, "--failed", "--reason", "gone", "--json")
    answers = rows(remote.run(*resolve), 1)
    assert [one["answer"] for one in answers] == ["settled", "early", "not held", "unknown"]
    assert timeless(answers[1:]) == timeless(rows(program.run(*resolve), 1)[1:])
    assert "key systemAdmin" in text(remote.run("held", "resolve", ids[0], "--sent", "--reason", "x"), 1)

    (dead,) = rows(remote.run("dead", "list", "--json"))
    assert dead == rows(program.run("dead", "list", "--json"))[0]
    assert dead["letter"] == f"delivery:{held[0]}"
    assert text(remote.run("dead", "show", dead["letter"])).startswith("delivery")
    acted = rows(remote.run("dead", "replay", dead["letter"], "run:999999", *WHY, "--json"), 1)
    assert [(one["done"], one["answer"]) for one in acted] == [(True, "reopened"), (False, "none")]
    assert "is no dead letter" in talk(remote.run("dead", "show", dead["letter"]), 1)
    await until_lives(connection, held[:1], "sent")

    sweep = ("held", "resolve", "--all", "--channel", "sms", "--failed", "--reason", "all lost")
    assert "2 deliveries would be settled as failed" in talk(remote.run(*sweep), 1)
    swept = remote.run(*sweep, "--yes", "--json")
    assert rows(swept, 1) == [{"held": 2, "settled": 1, "not_settled": 1}]
    assert [json.loads(line)["id"] for line in swept.stderr.splitlines()] == [early]
    discarded = remote.run("dead", "discard", "--all", "--channel", "sms", *WHY, "--yes", "--json")
    assert rows(discarded) == [{"dead": 1, "discarded": 1, "not_discarded": 0}]
    assert rows(remote.run("dead", "list", "--json")) == []


def timeless(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers but for how many seconds there are yet."""
    return [one | {"message": re.sub(r"\(in \d+ s\)", "", one["message"])} for one in answers]
