"""Each command in an interpreter of its own, as people start it: a fork has imported what another command needs."""

import asyncio
import subprocess

import pytest

from dispatcher.commands import COMMANDS
from tests.cli.test_operate import put, until_lives
from tests.support.examples import is_chosen
from tests.support.forks import forks
from tests.support.program import Program
from tests.support.scene import Connection

# Python reads it when it starts, so a program that has it is no fork.
FRESH = {"PYTHONHASHSEED": "19"}
# For each command a call that works on a database, its exit code, and some of what it says. `serve` is a test of its
# own. `demo` and `selftest` make databases and take long: here they only say what they do.
CALLS = {
    "migrate": ("migrate", 0, "up to date"),
    "send": ("send --channel sms --to +4917012345 --body Hello", 0, "written: delivery"),
    "trigger": ("trigger nobody", 3, "there is no workflow 'nobody'"),
    "notify": ("notify nobody", 3, "there is no trigger 'nobody'"),
    "demo": ("demo --help", 0, "Usage:"),
    "selftest": ("selftest --help", 0, "Usage:"),
    "pause": ("pause tenant fresh --reason maintenance", 0, "tenant fresh is paused"),
    "resume": ("resume tenant other --reason over", 1, "tenant other is not paused"),
    "pauses": ("pauses --json", 0, ""),
    "quarantine": ("quarantine --before 2020-01-01T00:00:00Z --reason restored --yes", 0, "nothing that is due"),
    "check": ("check", 0, "every delivery has a state"),
    "deliveries": ("deliveries list --channel voice", 0, "There are no"),
    "held": ("held list", 0, "Nothing is held."),
    "dead": ("dead list", 0, "There are no dead letters."),
    "objects": ("objects list", 0, "There are no objects"),
    "templates": ("templates list", 0, "There are no templates."),
    "workflows": ("workflows list", 0, "There are no workflows."),
    "runs": ("runs list", 0, "There are no such runs."),
    "suppressions": ("suppressions list", 0, "Nobody is suppressed."),
    "topics": ("topics list", 0, "Nobody"),
    "sequences": ("sequences list", 0, "There are no sequences."),
    "contacts": ("contacts list", 0, "There are no such contacts"),
    "campaigns": ("campaigns list", 0, "There are no campaigns"),
    "schedules": ("schedules list", 0, "There are no schedules"),
    "rules": ("rules list", 0, "There are no rules."),
    "settings": ("settings show", 0, "time zone UTC"),
    "quiet-hours": ("quiet-hours list", 0, "There are no quiet hours."),
    "caps": ("caps list", 0, "There are no caps."),
    "keys": ("keys list", 0, "There are no keys"),
    "cells": ("cells list", 1, "cell.directory: is not set"),
    "tenants": ("tenants move acme --to 2", 2, "cell.directory: is not set"),
    "webhooks": ("webhooks list", 0, "There are no endpoints"),
    "config": ("config check", 0, "The configuration is sound"),
}


async def test_each_command_is_called_here(shared_url: str) -> None:
    assert COMMANDS.keys() == CALLS.keys() | {"serve"}
    assert not forks().suits(Program(shared_url).environment_with(FRESH))


# A third in each run: an interpreter takes as long as ten forks.
@pytest.mark.parametrize(
    ("words", "code", "said"), [pytest.param(*CALLS[name], id=name) for name in CALLS if is_chosen(name, 3)]
)
async def test_a_command_works_in_an_interpreter_of_its_own(shared_url: str, words: str, code: int, said: str) -> None:
    done = await asyncio.to_thread(Program(shared_url, **FRESH).run, *words.split())
    told = (done.stdout + done.stderr).decode()
    assert done.returncode == code, told
    assert said in told
    assert "Traceback" not in told


async def test_serve_sends_in_an_interpreter_of_its_own(program: Program, connection: Connection) -> None:
    written = await put(connection, 3)
    await program.start(**FRESH)
    assert isinstance(program.process, subprocess.Popen)
    await until_lives(connection, written, "sent")
    assert await program.stop() == 0
