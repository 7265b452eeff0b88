"""The `schedules` commands as whoever types them sees them."""

import json
import subprocess
from typing import Any

import pytest

from tests.features.runs.plans import idle, put_plan
from tests.support.program import Program
from tests.support.scene import Connection

Done = subprocess.CompletedProcess[bytes]
WEEKLY = ("schedules", "put", "weekly", "--workflow", "report", "--cron", "0 9 * * 1", "--time-zone", "Europe/Berlin")


@pytest.fixture(autouse=True)
async def workflow(connection: Connection) -> None:
    """What is to be triggered."""
    await put_plan(connection, idle())


def _said(result: Done, code: int = 0) -> str:
    assert result.returncode == code, result.stderr.decode()
    assert b"Traceback" not in result.stderr
    return (result.stderr if code else result.stdout).decode()


def _records(result: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _said(result).splitlines()]


async def test_a_schedule_is_put_looked_at_stopped_and_deleted(program: Program) -> None:
    assert _said(program.run("schedules", "list")) == "There are no schedules here.\n"
    assert "schedule weekly is saved; its next tick is 20" in _said(program.run(*WEEKLY, "--actor", "ann"))
    assert "says this already" in _said(program.run(*WEEKLY))
    assert "is changed" in _said(program.run(*WEEKLY, "--input", '{"a": 1}', "--actor", "bob"))
    (row,) = _records(program.run("schedules", "list", "--json"))
    assert (row["name"], row["workflow"], row["cron"], row["time_zone"]) == (
        "weekly",
        "report",
        "0 9 * * 1",
        "Europe/Berlin",
    )
    assert "0 9 * * 1 Europe/Berlin" in _said(program.run("schedules", "list"))
    assert "weekly rests" in _said(program.run("schedules", "deactivate", "weekly"))
    assert "rests" in _said(program.run("schedules", "list"))
    assert "weekly is active; its next tick is 20" in _said(
        program.run("schedules", "activate", "weekly", "--skip-missed")
    )
    (shown,) = _records(program.run("schedules", "show", "weekly", "--json"))
    assert (shown["input"], shown["version"], shown["would_be_refused"]) == ({"a": 1}, 2, None)
    assert [one["action"] for one in shown["actions"]] == ["activate", "deactivate", "put", "put"]
    text = _said(program.run("schedules", "show", "weekly"))
    assert "ann" in text
    assert '{"a": 1}' in text
    assert _said(program.run("schedules", "delete", "weekly")) == "schedule weekly is deleted\n"
    assert "there is no schedule weekly" in _said(program.run("schedules", "delete", "weekly"), 1)


async def test_the_command_shows_the_next_ticks_in_local_time(program: Program) -> None:
    program.run(*WEEKLY)
    found = _records(program.run("schedules", "next", "weekly", "-n", "60", "--json"))
    assert {one["local"][11:16] for one in found} == {"09:00"}
    assert {one["local"][-6:] for one in found} == {"+01:00", "+02:00"}
    lines = _said(program.run("schedules", "next", "weekly")).splitlines()
    assert len(lines) == 1 + 5
    assert all("Mon" in line and "09:00:00" in line for line in lines[1:])


async def test_faults_are_shown(program: Program, connection: Connection) -> None:
    refused = _said(program.run(*WEEKLY[:5], "--cron", "61 9 * * foo", "--time-zone", "europe/berlin"), 3)
    for words in ("the minute, 61,", "the day of the week, FOO,", "is written Europe/Berlin"):
        assert words in refused
    assert "$.workflow: there is no such workflow" in _said(program.run(*WEEKLY, "--workflow", "unknown"), 3)
    assert "a name has 1 to 100 letters" in _said(program.run("schedules", "put", "a b", *WEEKLY[3:]), 1)
    assert "not a JSON object" in _said(program.run(*WEEKLY, "--input", "[]"), 2)
    for verb in ("show", "next", "activate", "deactivate"):
        assert "there is no schedule weekly" in _said(program.run("schedules", verb, "weekly"), 1)
    await put_plan(connection, idle("report", "customer"))
    saved = program.run(*WEEKLY)
    assert saved.returncode == 0
    assert b"its ticks will be refused: Missing" in saved.stderr
