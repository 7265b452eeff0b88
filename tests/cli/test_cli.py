"""The command line as whoever types it sees it: real processes, their output and their exit codes."""

import asyncio
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asyncpg import Connection

from tests.support.forks import ROOT
from tests.support.program import Program

START_SECONDS_MAX = 60
Done = subprocess.CompletedProcess[bytes]


def rows(data: bytes) -> list[dict[str, Any]]:
    """Standard output or error as JSON lines; nothing else may be there."""
    return [json.loads(line) for line in data.splitlines()]


def refused(done: Done, code: int) -> str:
    """The talk of a command that failed as it should: with a code, nothing on standard output, and no traceback."""
    talk = done.stderr.decode()
    assert done.returncode == code, talk
    assert "Traceback" not in talk
    assert done.stdout == b""
    return talk


def done(result: Done) -> bytes:
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


LOOKS_MAX = 20
NOBODY_RUNS = "waits: no dispatcher is running"


def jsonl(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def line(key: str, **changes: object) -> dict[str, object]:
    return {"idempotency_key": key, "channel": "sms", "to": "+491", "body": "Hello {{ name }}"} | changes


# Sending


async def test_a_line_that_is_not_utf_8_among_10_000_is_named_and_the_others_are_sent(
    program: Program, connection: Connection, tmp_path: Path
) -> None:
    lines = [json.dumps(line(f"k-{n}", variables={"name": "Ann"})).encode() for n in range(10_000)]
    lines[4_999] = lines[4_999].replace(b"Ann", b"\xff\xfe")
    path = tmp_path / "deliveries.jsonl"
    path.write_bytes(b"\n".join(lines))
    result = program.run("send", "--file", str(path), "--json")
    assert result.returncode == 3
    (tally,) = rows(result.stdout)
    assert tally == {"written": 9_999, "duplicates": 0, "refused": 1, "reasons": {NOBODY_RUNS: 9_999}}
    (fault,) = rows(result.stderr)
    assert fault["line"] == 5_000
    assert "not UTF-8" in fault["faults"][0]["message"]
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.delivery_state WHERE ready") == 9_999


async def test_faulty_lines_are_named_with_every_fault_and_duplicates_with_their_holder(
    program: Program, connection: Connection
) -> None:
    given = jsonl(line("a"), {"channel": "fax"}, line("a"), line("b", body="{% if"), line("c", colour=1)) + b"{\n\n"
    result = program.run("send", "--file", "-", stdin=given)
    talk = result.stderr.decode()
    holder = await connection.fetchval("SELECT id FROM dispatcher.deliveries")
    assert result.returncode == 3
    assert result.stdout.decode() == f"written 1, duplicates 1, refused 4\n1 of them: {NOBODY_RUNS}\n"
    assert f"line 3: duplicate: delivery {holder} holds the key a" in talk
    assert [int(number) for number in re.findall(r"^line (\d+): refused", talk, re.MULTILINE)] == [2, 4, 5, 6]
    for path in (
        "idempotency_key: is required",
        "channel: unknown",
        "template.body: does not parse",
        "colour: unknown",
    ):
        assert path in talk


async def test_a_line_refused_by_the_database_fails_alone(program: Program, connection: Connection) -> None:
    await connection.execute("ALTER TABLE dispatcher.deliveries ADD CONSTRAINT house CHECK (recipient <> 'guilty')")
    given = jsonl(*(line(str(n), to="guilty" if n in {3, 40} else "x") for n in range(100)))
    result = program.run("send", "--file", "-", "--json", stdin=given)
    assert result.returncode == 3
    (tally,) = rows(result.stdout)
    assert tally == {"written": 98, "duplicates": 0, "refused": 2, "reasons": {NOBODY_RUNS: 98}}
    assert [fault["line"] for fault in rows(result.stderr)] == [4, 41]


async def test_one_delivery_is_sent_once_under_its_key(program: Program) -> None:
    one = ("send", "--channel", "sms", "--to", "+491", "--body", "x", "--key", "once", "--json")
    first, second = rows(done(program.run(*one)))[0], rows(done(program.run(*one)))[0]
    assert (first["idempotency_key"], first["duplicate"], first["life"]) == ("once", False, "pending")
    assert second == first | {"duplicate": True}


async def test_every_option_of_send_arrives(program: Program, connection: Connection) -> None:
    given = "--channel email --to a@b.c --part subject=S --part text={{a}} --var a=1 --var b=x --lane bulk --tenant t"
    given += " --at 2030-01-01T00:00:00Z --expires-at 2031-01-01T00:00:00Z --max-attempts 2 --workspace w"
    (sent,) = rows(done(program.run("send", *given.split(), "--vars", '{"a": 0, "c": [1.50]}', "--json")))
    row = await connection.fetchrow("SELECT * FROM dispatcher.deliveries WHERE id = $1", sent["id"])
    assert row is not None
    assert row["idempotency_key"] == sent["idempotency_key"]
    assert json.loads(row["template"]) == {"subject": "S", "text": "{{a}}"}
    assert row["variables"] == '{"a": 1, "b": "x", "c": [1.50]}'
    assert (row["lane"], row["max_attempts"], row["tenant_id"], row["workspace_id"]) == (2, 2, "t", "w")
    assert f"{row['scheduled_for']:%Y-%m-%d} {row['expires_at']:%Y-%m-%d}" == "2030-01-01 2031-01-01"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("send --channel fax --to 1 --body x", 3, 'unknown channel "fax"'),
        ("send --channel sms --body x --at soon", 3, "recipient: is required"),
        ("send --channel sms --to 1 --body x --var broken", 2, "NAME=VALUE"),
        ("send --channel sms --to 1 --body x --vars [1]", 2, "not a JSON object"),
        ("send --file - --channel sms", 2, "the file"),
        ("send --file /nowhere/at/all", 2, "No such file"),
        ("send --colour red", 2, "--colour"),
        ("deliveries list --life asleep", 2, "pending"),
        ("deliveries show", 2, "--key"),
        ("deliveries show 404", 1, "no delivery 404"),
        ("deliveries show --key nobody", 1, "no delivery with the key nobody"),
        ("deliveries move 1 --at tomorrow --reason x", 2, "RFC 3339"),
        ("deliveries cancel 1 --reason=", 2, "--reason"),
        ("nonsense", 2, "nonsense"),
        ("--config /no/\udcff config check", 2, r"/no/\udcff"),
        ("send --channel sms --to 1 --body \udcff", 3, "not UTF-8"),
        ("deliveries show --key \udcff", 2, "not UTF-8"),
    ],
)
async def test_impossible_commands_end_with_their_exit_code(
    program: Program, arguments: str, code: int, words: str
) -> None:
    assert words in refused(program.run(*arguments.split()), code)


async def test_the_configuration_that_does_not_know_a_name_is_named(program: Program, tmp_path: Path) -> None:
    (config := tmp_path / "small.toml").write_text("[channels.sms]\nprovider = 'capture'\n")
    node = {"id": "a", "type": "function", "function": "bill", "action": "pay"}
    workflow = {"name": "w", "entryNodeId": "a", "nodes": [node], "edges": []}
    (definition := tmp_path / "w.json").write_text(json.dumps(workflow))
    for command in (
        ["send", "--channel", "fax", "--to", "1", "--body", "x"],
        ["pause", "channel", "fax", "--reason", "x"],
        ["workflows", "put", str(definition)],
    ):
        told = refused(program.run(*command), 3).splitlines()[-1]
        assert told.startswith("judged by the default configuration, as there is no --config"), told
        told = refused(program.run(*command, "--config", str(config)), 3).splitlines()[-1]
        assert told.startswith(f"judged by the configuration in {config}, with "), told
    faulty = refused(program.run("send", "--channel", "sms", "--to", "", "--body", "x"), 3)
    assert "judged by" not in faulty


async def test_errors_are_json_where_that_was_asked_for(program: Program) -> None:
    result = program.run("send", "--channel", "fax", "--to", "1", "--body", "{{", "--json")
    (error,) = rows(result.stderr)
    assert error["error"] == "InputError"
    assert {fault["path"] for fault in error["faults"]} == {"channel", "template.body"}
    (error,) = rows(program.run("\udcff", "--json").stderr)
    assert error["error"] == "UsageError"


# Operating


async def test_deliveries_are_listed_shown_cancelled_moved_and_retried(program: Program) -> None:
    for key in ("one", "two"):
        later = f"send --channel sms --to 1 --body x --at 2030-01-01T00:00:00Z --key {key}"
        done(program.run(*later.split()))
    two, one = rows(done(program.run("deliveries", "list", "--json")))
    assert (one["idempotency_key"], one["life"], one["lane"]) == ("one", "pending", "normal")
    first, second = str(one["id"]), str(two["id"])

    moved = program.run(
        "deliveries", "move", first, "--at", "2031-01-01T00:00:00Z", "--reason", "later", "--actor", "me"
    )
    assert done(moved).decode().strip() == f"delivery {first} is moved"
    cancelled = program.run("deliveries", "cancel", first, second, "404", "--reason", "wrong", "--json")
    assert cancelled.returncode == 1
    assert [row["done"] for row in rows(cancelled.stdout)] == [True, True, False]
    retried = program.run("deliveries", "retry", first, first, "--reason", "right after all")
    assert retried.returncode == 1
    assert retried.stdout.decode().splitlines() == [
        f"delivery {first} will be sent again",
        f"delivery {first} is not finished, so there is nothing to retry",
    ]

    (shown,) = rows(done(program.run("deliveries", "show", "--key", "one", "--json")))
    assert [(action["action"], action["reason"]) for action in shown["actions"]] == [
        ("move", "later"),
        ("cancel", "wrong"),
        ("reopen", "right after all"),
    ]
    assert shown["actions"][0]["actor"] == "me"
    assert "@" in shown["actions"][1]["actor"]
    assert [row["id"] for row in rows(done(program.run("deliveries", "list", "--life", "skipped", "--json")))] == [
        two["id"]
    ]
    assert b"right after all" in done(program.run("deliveries", "show", first))


async def test_tries_count_from_the_retry_on_and_all_attempts_stand_beside_them(
    program: Program, connection: Connection
) -> None:
    later = "send --channel sms --to 1 --body x --at 2030-01-01T00:00:00Z --max-attempts 3 --json"
    (sent,) = rows(done(program.run(*later.split())))
    failed = "attempt = 3, status = 'failed', finished_at = now(), ready = false"
    await connection.execute(f"UPDATE dispatcher.delivery_state SET {failed} WHERE id = $1", sent["id"])
    assert " 3/3 " in done(program.run("deliveries", "list")).decode()
    done(program.run("deliveries", "retry", str(sent["id"]), "--reason", "once more"))
    await connection.execute("UPDATE dispatcher.delivery_state SET attempt = 4 WHERE id = $1", sent["id"])
    assert " 1/3 (4 in all) " in done(program.run("deliveries", "list")).decode()
    (row,) = rows(done(program.run("deliveries", "list", "--json")))
    assert (row["attempt"], row["tries"], row["max_attempts"]) == (4, 1, 3)


async def test_a_database_that_does_not_answer_says_how_long_it_was_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_at = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/x"
        program = Program(silent_at)
        talk = refused(program.run("deliveries", "list"), 1)
    program.end()
    assert re.search(r"127\.0\.0\.1:\d+/x: waited \d+ s for its answer$", talk.strip())


async def test_a_missing_variable_ends_failed_with_its_name(program: Program) -> None:
    await program.start()
    (sent,) = rows(done(program.run("send", "--channel", "sms", "--to", "1", "--body", "{{ surname }}", "--json")))

    def shown() -> dict[str, Any]:
        return rows(done(program.run("deliveries", "show", str(sent["id"]), "--json")))[0]

    await program.until(lambda: shown()["status"] == "failed", "it has failed")
    assert shown()["error"].startswith("template.body: missing variable")
    assert "surname" in shown()["error"]
    assert await program.stop() == 0


# Configuration and schema


@pytest.mark.parametrize("command", ["config check", "serve", "deliveries list", "send --channel sms --to 1 --body x"])
async def test_a_broken_file_is_one_message_that_names_every_fault(
    program: Program, command: str, tmp_path: Path
) -> None:
    path = tmp_path / "dispatcher.toml"
    path.write_text("[clam]\nx = 1\n[retry]\nbase_seconds = 'long'\n[channels.sms]\nprovider = 'none'\n")
    talk = refused(program.run(*command.split(), "--config", str(path)), 2)
    for words in ("clam: unknown key", "retry.base_seconds: expected", "channels.sms.provider: unknown provider"):
        assert words in talk
    path.write_text("[claim\n")
    assert "at line 1" in refused(program.run("--config", str(path), *command.split()), 2)


async def test_secrets_are_not_shown(program: Program) -> None:
    secret = "postgresql://me:geheim@db.example/x"
    for form in ((), ("--json",)):
        shown = done(program.run("config", "show", *form, DISPATCHER_DATABASE_URL=secret)).decode()
        assert "me:***@db.example" in shown
        assert "geheim" not in shown


async def test_a_newer_schema_is_refused(program: Program, connection: Connection) -> None:
    await connection.execute("INSERT INTO dispatcher.schema_migrations VALUES (9999, 'tomorrow', 'x')")
    for command in ("serve", "serve --migrate", "migrate", "migrate --check", "deliveries list"):
        assert "the database is at version 9999" in program_talk(program.run(*command.split()))


def program_talk(result: Done) -> str:
    """The last line of a failed command; `serve` has logged before."""
    assert result.returncode == 1
    assert b"Traceback" not in result.stderr
    return result.stderr.decode().splitlines()[-1]


async def test_a_schema_that_lacks_migrations_is_refused_until_they_are_applied(empty_url: str) -> None:
    program = Program(empty_url)
    talk = refused(program.run("deliveries", "list", DISPATCHER_LAUNCHER="./ops/run"), 1)
    assert "run `./ops/run migrate`" in talk
    pending = program.run("migrate", "--check", "--json")
    assert pending.returncode == 1
    assert rows(pending.stdout)[0]["pending"][0] == "0000_baseline"
    assert rows(done(program.run("migrate", "--json")))[0]["applied"] == rows(pending.stdout)[0]["pending"]
    assert b"up to date" in done(program.run("migrate", "--check"))
    assert rows(done(program.run("deliveries", "list", "--json"))) == []
    program.end()


async def test_a_database_that_is_away_is_one_sentence_within_bounds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    program = Program(f"postgresql://me:geheim@127.0.0.1:{port}/x")
    commands = (["deliveries", "list"], ["migrate"], ["send", "--channel", "sms", "--to", "1", "--body", "x"])
    for result in await asyncio.gather(*(asyncio.to_thread(program.run, *command) for command in commands)):
        talk = refused(result, 1)
        assert f"me:***@127.0.0.1:{port}" in talk
        assert len(talk.splitlines()) == 1
    program.end()


@pytest.mark.parametrize("command", ["deliveries list", "migrate", "serve"])
async def test_a_url_that_cannot_be_read_is_a_fault_that_does_not_show_its_password(command: str) -> None:
    program = Program("postgresql://me:ge:heim/x@127.0.0.1/x")
    result = program.run(*command.split())
    assert result.returncode == 2
    assert b"database.url: its host or port" in result.stderr
    assert b"Traceback" not in result.stderr
    assert b"heim" not in result.stderr
    program.end()


async def test_a_database_that_does_not_exist_is_not_waited_for(program: Program) -> None:
    wrong = re.sub(r"/test_\w+\?", "/nowhere?", program.url)
    assert '"nowhere" does not exist' in refused(program.run("deliveries", "list", DISPATCHER_DATABASE_URL=wrong), 1)


async def test_a_port_that_is_taken_ends_serve_with_one_line_before_it_is_an_instance(
    program: Program, connection: Connection
) -> None:
    await connection.execute("CREATE TABLE joined (epoch bigint)")
    await connection.execute(
        "CREATE FUNCTION note_joined() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO public.joined VALUES (NEW.epoch); RETURN NULL; END $$"
    )
    await connection.execute(
        "CREATE TRIGGER noted AFTER INSERT ON dispatcher.instances FOR EACH ROW EXECUTE FUNCTION public.note_joined()"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = program.run("serve", DISPATCHER_HTTP__PORT=str(port))
    assert result.stderr.decode() == f"error: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    assert result.returncode == 1
    assert await connection.fetchval("SELECT count(*) FROM joined") == 0


# The demonstration


class Demonstration:
    """`demo --serve` on an embedded Postgres of its own, with the page that it printed."""

    def __init__(self, folder: Path, port: int) -> None:
        self.program = Program("unused")
        self.environment = self.program.environment_with({}) | {
            "DISPATCHER_DATABASE__DATA_DIR": str(folder),
            "DISPATCHER_HTTP__PORT": str(port),
            "DISPATCHER_LAUNCHER": "./ops/run",
        }
        del self.environment["DISPATCHER_DATABASE_URL"]
        self.process = subprocess.Popen(
            self.program.command("demo", "--serve"),
            env=self.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.page = ""
        for text in self.process.stdout:
            self.page += text
            if "./ops/run config show" in text:
                break

    def commands(self) -> list[str]:
        """The commands that the page names, as whoever reads it would type them."""
        first = re.compile(r"^  (?=(\./ops/run|curl|psql|/\S*psql|printf) )", re.MULTILINE)
        return [line.strip() for line in self.page.splitlines() if first.match(line)]

    def shell(self, command: str) -> Done:
        """Type one of them."""
        ours = command.replace("./ops/run", shlex.join([sys.executable, "-m", "dispatcher"]))
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", ours],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            timeout=START_SECONDS_MAX,
            check=False,
        )

    def stop(self) -> int:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(START_SECONDS_MAX)


@pytest.fixture(scope="module")
def demonstration() -> Iterator[Demonstration]:
    """One for all: its first start makes a Postgres. Its port is taken by somebody else."""
    with (
        tempfile.TemporaryDirectory(prefix="dispatcher-demo-") as folder,
        socket.create_server(("127.0.0.1", 0)) as taken,
    ):
        running = Demonstration(Path(folder), taken.getsockname()[1])
        try:
            yield running
        finally:
            if running.process.poll() is None:
                running.stop()
            running.process.communicate()
            running.program.end()


def test_the_demonstration_shows_each_kind_of_ending(demonstration: Demonstration) -> None:
    assert demonstration.process.poll() is None, demonstration.process.communicate()
    for words in (
        "sms to +4915550000001: sent",
        "of the workflow demonstration: completed",
        "social: posted",
        "waits for",
        "'name' is undefined",
        "Ctrl-C",
    ):
        assert words in demonstration.page
    for row in rows(done(demonstration.shell("./ops/run deliveries list --json"))):
        assert row["life"] in {"sent", "posted", "failed", "pending"}


def test_every_command_that_the_page_names_works_as_written(demonstration: Demonstration) -> None:
    commands = demonstration.commands()
    assert len(commands) >= 10
    # What reads finds the second time what it found the first time.
    changing = [command for command in commands if re.search(r"\b(?:send|trigger|retry|create|psql)\b", command)]
    for command in [*commands, *changing]:
        result = demonstration.shell(command)
        assert result.returncode == 0, f"{command}\n{result.stdout.decode()}\n{result.stderr.decode()}"
        assert result.stdout, command
    # The one that lacked a variable has been sent by then, or is within the next few looks.
    repaired: list[dict[str, Any]] = []
    for _ in range(LOOKS_MAX):
        repaired = [row for row in _all(demonstration) if row["idempotency_key"].startswith("retry-of-")]
        if [row["life"] for row in repaired] == ["sent"]:
            return
    pytest.fail(f"not sent: {repaired}")


def _all(demonstration: Demonstration) -> list[dict[str, Any]]:
    return rows(done(demonstration.shell("./ops/run deliveries list --limit 1000 --json")))


def test_a_second_demonstration_is_refused(demonstration: Demonstration) -> None:
    result = demonstration.shell("./ops/run demo --serve")
    talk = refused(result, 1)
    assert f"process {demonstration.process.pid}" in talk


def test_the_demonstration_s_deliveries_are_sent_once_and_ctrl_c_stops_postgres_too(
    demonstration: Demonstration,
) -> None:
    before = rows(done(demonstration.shell("./ops/run deliveries list --limit 1000 --json")))
    done(demonstration.shell("./ops/run demo"))
    assert len(rows(done(demonstration.shell("./ops/run deliveries list --limit 1000 --json")))) == len(before)
    folder = Path(demonstration.environment["DISPATCHER_DATABASE__DATA_DIR"])
    assert (folder / "postgres" / "postmaster.pid").exists()
    assert demonstration.stop() == 0
    assert not (folder / "postgres" / "postmaster.pid").exists()
    events = [json.loads(text)["event"] for text in (folder / "dispatcher.log").read_text().splitlines()]
    assert events[-1] == "process.stopped"


@pytest.mark.parametrize("how", [("demo",), ("demo", "--serve")], ids=" ".join)
async def test_the_demonstration_refuses_a_database_that_it_did_not_make(
    program: Program, tmp_path: Path, how: tuple[str, ...]
) -> None:
    talk = refused(program.run(*how, DISPATCHER_DATABASE__DATA_DIR=str(tmp_path)), 1)
    assert "unset DISPATCHER_DATABASE_URL" in talk
    assert rows(done(program.run("deliveries", "list", "--json"))) == []


async def test_the_demonstration_s_deliveries_wait_for_its_database(empty_url: str) -> None:
    program = Program(empty_url)
    try:
        assert "demo --serve" in refused(program.run("demo"), 1)
    finally:
        program.end()


# Speed


def test_help_is_quick_because_nothing_heavy_is_imported_for_it() -> None:
    heavy = ("aiohttp", "litestar", "uvicorn", "dispatcher.app")
    code = f"import sys, dispatcher.__main__; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert found.stdout.decode().strip() == "[]"


async def test_a_command_on_the_database_does_without_what_serves(program: Program) -> None:
    command = [sys.executable, "-X", "importtime", *program.command("deliveries", "list", "--json")[1:]]
    found = subprocess.run(command, env=program.environment_with({}), cwd=ROOT, capture_output=True, check=True)  # noqa: ASYNC221 - nothing else runs
    imported = {text.rpartition("|")[2].strip() for text in found.stderr.decode().splitlines()}
    assert "dispatcher.features.deliveries.store" in imported
    assert not imported & {"aiohttp", "litestar", "uvicorn", "dispatcher.app"}
