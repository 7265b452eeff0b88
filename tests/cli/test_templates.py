"""Stored templates as whoever types it sees them: what each command says, and how it ends."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dispatcher.db.database import Database
from tests.features.templates.support import draft, save
from tests.support.program import Program
from tests.support.scene import Connection

Done = subprocess.CompletedProcess[bytes]
WELCOME = "---\nname: welcome\nchannel: sms\n---\nHello {{ name }}\n"


def text(done: Done, code: int = 0) -> str:
    """Standard output of a command that ended with this code."""
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done.stdout.decode()


def talk(done: Done, code: int) -> str:
    """Standard error of a command that ended with this code and said nothing else."""
    assert text(done, code) == ""
    return done.stderr.decode()


def rows(done: Done, code: int = 0) -> list[dict[str, Any]]:
    """Standard output as JSON lines."""
    return [json.loads(line) for line in text(done, code).splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A template as a file."""
    path = tmp_path / "welcome.liquid"
    path.write_text(WELCOME)
    return path


async def test_each_command_prints_its_result(program: Program, file: Path) -> None:
    assert text(program.run("templates", "list")) == "There are no templates.\n"
    put = ("templates", "put", str(file), "--actor", "ann")
    assert text(program.run(*put)) == "template welcome: version 1 is saved\n"
    assert text(program.run(*put)) == "template welcome: version 1 says this already\n"
    file.write_text(WELCOME.replace("Hello", "Good day"))
    (saved,) = rows(program.run(*put, "--publish", "--json"))
    assert (saved["version"], saved["published"], saved["created"], saved["author"]) == (2, 2, True, "ann")
    assert text(program.run("templates", "publish", "welcome", "--version", "1")) == (
        "template welcome: version 1 is published; version 2 was\n"
    )
    again = program.run("templates", "publish", "welcome", "--version", "1", "--json")
    assert rows(again) == [{"name": "welcome", "published": 1, "before": 1}]

    listed = text(program.run("templates", "list"))
    assert "welcome" in listed
    assert "sms" in listed
    (row,) = rows(program.run("templates", "list", "--json"))
    assert (row["latest"], row["published"], row["variables"]) == (2, 1, ["name"])
    shown = text(program.run("templates", "show", "welcome"))
    for words in ("version 1", "2 of 2, by ann", "reads", "Good day {{ name }}", "published last"):
        assert words in shown
    assert text(program.run("templates", "show", "welcome", "--source")) == file.read_text()
    (found,) = rows(program.run("templates", "show", "welcome", "--version", "1", "--json"))
    assert found["locales"] == {"default": {"parts": {"body": "Hello {{ name }}"}, "partials": {}}}
    assert [one["number"] for one in found["versions"]] == [2, 1]


async def test_a_diff_is_between_versions_or_with_a_file(program: Program, file: Path) -> None:
    text(program.run("templates", "put", str(file), "--publish"))
    file.write_text(WELCOME.replace("Hello", "Good day"))
    text(program.run("templates", "put", str(file)))
    difference = text(program.run("templates", "diff", "welcome"))
    assert difference.startswith("--- welcome version 1\n+++ welcome version 2\n")
    assert "-Hello {{ name }}\n+Good day {{ name }}\n" in difference
    same = text(program.run("templates", "diff", "welcome", "--from", "2", "--file", str(file)))
    assert same == f"welcome version 2 and {file} say the same\n"
    (record,) = rows(program.run("templates", "diff", "welcome", "--from", "1", "--to", "1", "--json"))
    assert (record["differs"], record["diff"]) == (False, "")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("templates show welcom", 1, "there is no template welcom; did you mean"),
        ("templates show welcome --version 9", 1, "template welcome has no version 9; its newest is 1"),
        ("templates publish welcome --version 9", 1, "template welcome has no version 9"),
        ("templates diff welcome --from 9", 1, "template welcome has no version 9"),
        ("templates preview welcome --variables {", 2, "not a JSON object"),
        ("templates preview welcome --variables nowhere.json", 2, "cannot be read"),
        ("templates preview welcome --html x.html", 2, "it has no html part"),
        ("templates preview", 2, "name a stored template, or a file"),
        ("templates put nowhere.liquid", 3, "nowhere.liquid: cannot be read: No such file or directory"),
        ("templates sync tests", 2, "has no file *.liquid"),
        ("templates list --tenant ''", 2, "is empty"),
        ("templates publish welcome --actor ''", 2, "is empty"),
        ("send --channel sms --to +49 --template-name nobody", 3, "template_name: there is no template 'nobody'"),
        ("send --channel push --to x --template-name welcome", 3, "'welcome' is for sms, not for push"),
        ("send --channel sms --to +49 --body x --locale de", 3, "locale: goes with template_name"),
    ],
)
async def test_impossible_commands_are_explained_in_a_sentence(
    program: Program, connection: Connection, database: Database, command: str, code: int, words: str
) -> None:
    await save(database, draft())
    said = talk(program.run(*[word.strip("'") for word in command.split()]), code)
    assert words in " ".join(said.split())
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries") == 0


async def test_a_template_keeps_its_channel(program: Program, file: Path) -> None:
    text(program.run("templates", "put", str(file)))
    file.write_text(WELCOME.replace("sms", "push"))
    assert "the template welcome is for sms, and stays that" in talk(program.run("templates", "put", str(file)), 3)
    faults = json.loads(talk(program.run("templates", "put", str(file), "--json"), 3))["faults"]
    assert faults[0]["path"] == f"{file}:1"


async def test_lines_of_a_file_are_refused_one_by_one(program: Program, file: Path, connection: Connection) -> None:
    text(program.run("templates", "put", str(file), "--publish"))
    line = {"channel": "sms", "to": "+4917012345", "variables": {"name": "Ann"}}
    names = ("welcome", "nobody", "welcome")
    lines = [line | {"idempotency_key": str(n), "template_name": name} for n, name in enumerate(names)]
    done = program.run("send", "--file", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    assert "written 2, duplicates 0, refused 1" in text(done, 3)
    assert "line 2: refused\n  template_name: there is no template 'nobody'" in done.stderr.decode()
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries") == 2


async def test_control_characters_reach_a_file_but_no_terminal(program: Program, file: Path) -> None:
    file.write_text(WELCOME + "\t\x1b[31mred\n")
    text(program.run("templates", "put", str(file)))
    assert "\t\x1b[31mred" in text(program.run("templates", "show", "welcome", "--source"))
    primary, secondary = os.openpty()
    try:
        process = subprocess.Popen(  # noqa: ASYNC220 - forking takes a moment, and nothing else runs
            program.command("templates", "show", "welcome", "--source"),
            env=program.environment_with({}),
            stdout=secondary,
            stderr=subprocess.DEVNULL,
        )
        os.close(secondary)
        seen = b""
        while process.poll() is None or not seen:
            try:
                seen += os.read(primary, 4096)
            except OSError:  # it has closed its end
                break
        process.wait(timeout=60)
    finally:
        os.close(primary)
    assert b"\\x1b[31mred" in seen
    assert b"\x1b[31mred" not in seen
