"""A new feature is one folder and one entry in each of two registries: nothing else of the program names it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.support.program import Program
from tests.support.remote_cli import RemoteCli

FEATURE = {
    "__init__.py": '"""Greetings."""\n',
    "endpoints.py": '''
"""Greetings over HTTP."""

from msgspec import Struct

from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.roles import Right


class Greeting(Struct, frozen=True):
    """A greeting, and the number of the deliveries of its workspace."""

    text: str
    deliveries: int


@endpoint("GET", "/greetings/{name}", Right.PAUSES, answered=Greeting("Hello Ann", 0))
async def get_greeting(call: Call) -> Done:
    """Greet somebody by name."""
    count = await call.database.value("SELECT count(*) FROM dispatcher.deliveries")
    return Done(Greeting(f"Hello {call.path['name']}", count))


ENDPOINTS = (get_greeting,)
''',
    "commands.py": '''
"""The `greetings` commands."""

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.terminal.output import tell
from toy_greetings import endpoints

app = group(help="Greet people.")


@command(app, "show")
def show(caller: Caller, name: str) -> None:
    """Show a greeting."""
    greeting = caller.ask(endpoints.get_greeting, name)
    tell(caller, greeting, greeting.text)
''',
}
# What the two lines of a new feature do.
MAIN = """
import sys

from dispatcher import commands
from dispatcher.cli.root import Entry

commands.COMMANDS = {**commands.COMMANDS, "greetings": Entry("toy_greetings.commands", "Greet people.")}
if "serve" in sys.argv:
    from dispatcher import endpoints
    from toy_greetings.endpoints import ENDPOINTS

    endpoints.ENDPOINTS = (*endpoints.ENDPOINTS, *ENDPOINTS)

from dispatcher.__main__ import main

main()
"""


class Extended(Program):
    """The program with the toy feature in its registries."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, PYTHONPATH=f"{folder}{os.pathsep}{ROOT}")
        self._main = folder / "main.py"
        self._main.write_text(MAIN)
        package = folder / "toy_greetings"
        package.mkdir()
        for name, content in FEATURE.items():
            (package / name).write_text(content)

    def command(self, *arguments: str) -> list[str]:
        """The command line of the extended program."""
        return [sys.executable, str(self._main), *arguments]


@pytest.fixture
def extended(url: str, tmp_path: Path) -> Iterator[Program]:
    """The extended program on a database of its own."""
    program = Extended(url, tmp_path)
    try:
        yield program
    finally:
        program.end()


def said(done: "subprocess.CompletedProcess[bytes]") -> str:
    """The output of a command that has succeeded."""
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


async def test_a_feature_needs_a_folder_and_one_entry_in_each_registry(extended: Program) -> None:
    assert "Greet people." in said(extended.run("--help"))
    sent = extended.run("send", "--channel", "sms", "--to", "+4917012345", "--body", "Hello", "--key", "one")
    assert sent.returncode == 0, sent.stderr
    greeting = {"text": "Hello Ann", "deliveries": 1}
    assert json.loads(said(extended.run("greetings", "show", "Ann", "--json"))) == greeting
    await extended.start()
    document = json.loads(extended.get("/openapi.json")[1])
    assert document["paths"]["/greetings/{name}"]["get"]["operationId"] == "getGreeting"
    remote = RemoteCli(extended)
    assert json.loads(said(remote.run("greetings", "show", "Ann", "--json"))) == greeting
    assert said(remote.run("greetings", "show", "Bela")) == "Hello Bela\n"
