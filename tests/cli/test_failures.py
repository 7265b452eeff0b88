"""A command on a bad day: it says in a sentence what is wrong, in the form that was asked for, and how far it came."""

import asyncio
import json
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.test_operate import rows, talk
from tests.cli.test_remote import cutting, said
from tests.support.caller import make_key
from tests.support.forks import plain_environment
from tests.support.program import RUN_SECONDS_MAX, Program
from tests.support.remote_cli import Done, RemoteCli


@pytest.fixture(scope="module")
def remote(serving: Program) -> RemoteCli:
    """The shared program's server, with a key of an administrator."""
    return RemoteCli(serving)


@pytest.mark.parametrize(
    ("words", "line", "counts"),
    [
        (
            ("send", "--file"),
            {"idempotency_key": "bad-day", "channel": "sms", "recipient": "1", "body": "x"},
            {"written": 0, "duplicates": 0, "refused": 0},
        ),
        (("contacts", "import"), {"key": "bad-day"}, {"created": 0, "changed": 0, "same": 0, "refused": 0}),
    ],
)
async def test_how_far_a_file_came_is_json_where_that_was_asked_for(
    serving: Program, tmp_path: Path, words: tuple[str, ...], line: dict[str, str], counts: dict[str, int]
) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text(json.dumps(line))
    done = RemoteCli(serving, make_key(serving, "triggerOperator")).run(*words, str(file), "--json")
    stopped, why = map(json.loads, talk(done, 1).splitlines())
    assert (stopped, why["error"]) == ({"stopped": True, "line": 0, **counts}, "Forbidden")


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """The address of another program, which answers whatever is asked with this."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 " + answer)
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            b"200 OK\r\ncontent-length: 6\r\n\r\n<html>",
            "200, and its body is not JSON, or is cut off; is the address right?",
        ),
        (
            b'200 OK\r\ncontent-length: 9\r\n\r\n{"runs":[',
            "200, and its body is not JSON, or is cut off; is the address right?",
        ),
        (b'200 OK\r\ncontent-length: 90\r\n\r\n{"runs":[', "its answer breaks off, or cannot be unpacked"),
        (
            b"200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnone",
            "its answer breaks off, or cannot be unpacked",
        ),
    ],
)
async def test_answers_of_another_program_are_explained(remote: RemoteCli, answer: bytes, words: str) -> None:
    async with answering(answer) as address:
        done = await asyncio.to_thread(remote.run, "runs", "list", "--json", DISPATCHER_URL=address)
    assert said(done, 1)["message"].endswith(words)


async def test_an_address_without_a_listener_or_tls_is_explained(remote: RemoteCli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{taken.getsockname()[1]}"
        error = said(remote.run("runs", "list", "--json", DISPATCHER_URL=away), 1)
    assert error["message"] == f"the server cannot be reached: {away}: Connection refused"
    encrypted = remote.program.address.replace("http:", "https:")
    error = said(remote.run("runs", "list", "--json", DISPATCHER_URL=encrypted), 1)
    assert error["message"].endswith(f"{encrypted}: it does not speak TLS there; are the scheme and the port right?")


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
async def test_a_host_that_no_name_server_could_be_asked_for_is_a_fault_of_the_configuration(
    remote: RemoteCli, host: str
) -> None:
    error = said(remote.run("runs", "list", "--json", DISPATCHER_URL=f"https://{host}"), 2)
    assert (error["error"], error["faults"][0]["path"]) == ("ConfigError", "DISPATCHER_URL")


def closed(remote: RemoteCli, number: int, *arguments: str) -> Done:
    """A command that is started with one of its standard streams closed."""
    line = f'exec "$@" {number}{"<" if number == 0 else ">"}&-'
    return subprocess.run(
        ["sh", "-c", line, "sh", *remote.program.command(*arguments)],
        env=plain_environment() | remote.environment,
        capture_output=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )


@pytest.mark.parametrize("number", [1, 2])
async def test_a_stream_that_is_closed_takes_what_is_said_to_it(remote: RemoteCli, number: int) -> None:
    listed = closed(remote, number, "runs", "list")
    missing = closed(remote, number, "runs", "show", "999999")
    assert (listed.returncode, listed.stderr, missing.returncode) == (0, b"", 1)
    assert missing.stderr == (b"error: there is no run 999999\n" if number == 1 else b"")


@pytest.mark.parametrize(
    "words",
    [
        ("send", "--file", "-"),
        ("contacts", "import", "-"),
        ("objects", "put", "-", "--name", "n"),
        ("trigger", "any", "--input", "-"),
    ],
)
async def test_a_closed_standard_input_is_not_an_empty_file(remote: RemoteCli, words: tuple[str, ...]) -> None:
    done = closed(remote, 0, *words, "--json")
    error = said(done, 2)
    assert error["error"] == "UsageError"
    assert "cannot be read: it is closed" in error["message"]


@pytest.mark.parametrize(
    "words",
    [
        "runs show 1",
        "runs list",
        "deliveries cancel 1 --reason x",
        "trigger any",
        "templates show any",
        "workflows list",
    ],
)
async def test_an_address_with_a_path_too_much_is_not_taken_for_a_thing_that_is_not_there(
    remote: RemoteCli, words: str
) -> None:
    error = said(remote.run(*words.split(), "--json", DISPATCHER_URL=f"{remote.program.address}/v1"), 1)
    assert error["error"] == "Unexpected"
    assert "404: Dispatcher has no such path there; is the address right?" in error["message"]


async def test_an_erasure_that_is_not_seen_to_its_end_is_told_to_have_begun(remote: RemoteCli) -> None:
    async with cutting(remote.program, 100, b"GET /erasures/") as address:
        asked = ("contacts", "erase", "bad-day@example.org", "--reason", "asked", "--yes", "--json")
        done = await asyncio.to_thread(remote.run, *asked, DISPATCHER_URL=address)
    stopped, why = map(json.loads, talk(done, 1).splitlines())
    assert (stopped["stopped"], stopped["workspace"], why["error"]) == (True, "default", "Unavailable")
    begun = [one["id"] for one in rows(remote.run("contacts", "erasures", "--json"))]
    assert stopped["id"] in begun
