"""The wheel of the client alone: an application installs it without the server and what that needs."""

import json
import os
import subprocess
import tomllib
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from dispatcher.base.version import VERSION
from tests.house.tree import ROOT, project
from tests.packages import wheels
from tests.support.caller import make_key
from tests.support.program import Program

MODULES = """
import json, pkgutil, sys
import dispatcher.client
for found in pkgutil.walk_packages(dispatcher.client.__path__, "dispatcher.client."):
    __import__(found.name)
print(json.dumps(sorted(name for name in sys.modules if name.partition(".")[0] == "dispatcher")))
"""
SEND = """
import asyncio, sys
from dispatcher.client import Client, Message
async def send():
    async with Client(sys.argv[1], sys.argv[2]) as client:
        sent = await client.send(Message(key="order-17", channel="email", to="ann@example.org", body="Hello"))
        print((await client.delivery(sent.id)).key)
asyncio.run(send())
"""


def metadata() -> dict[str, Any]:
    """What the distribution says about itself."""
    table: dict[str, Any] = tomllib.loads((ROOT / "ops" / "client" / "pyproject.toml").read_text())["project"]
    return table


def run(folder: Path, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a program in an environment, where no checkout is to be found."""
    command = [str(folder / "bin" / "python"), "-P", "-c", program, *arguments]
    told = {"PATH": os.defpath}
    return subprocess.run(command, cwd=folder, env=told, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def over_http(client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the client and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("client") / "fresh"
    wheels.environment(folder, "--no-deps", "--no-index", str(client_wheel))
    wheels.lend(folder, *metadata()["dependencies"])
    return folder


def test_it_has_what_the_client_imports_and_no_other_module(client_wheel: Path, over_http: Path) -> None:
    wheels.lend(over_http, *metadata()["optional-dependencies"]["transaction"])
    loaded = run(over_http, MODULES)
    assert loaded.returncode == 0, loaded.stderr
    with ZipFile(client_wheel) as archive:
        files = {Path(name) for name in archive.namelist() if name.endswith(".py")}
    modules = {".".join((path.parent if path.name == "__init__.py" else path.with_suffix("")).parts) for path in files}
    assert set(json.loads(loaded.stdout)) == modules | {"dispatcher"}


def test_it_has_its_statements_and_says_that_it_is_typed(client_wheel: Path) -> None:
    with ZipFile(client_wheel) as archive:
        names = set(archive.namelist())
    tree = {str(path.relative_to(ROOT)) for path in (ROOT / "dispatcher" / "client" / "sql").glob("*.sql")}
    assert names >= tree | {"dispatcher/client/py.typed"}


async def test_it_sends_through_a_dispatcher_without_the_servers_packages(
    client_wheel: Path, tmp_path: Path, serving: Program
) -> None:
    wheels.environment(tmp_path, "--no-deps", "--no-index", str(client_wheel))
    wheels.lend(tmp_path, *metadata()["dependencies"])
    assert not (wheels.site_of(tmp_path) / "asyncpg").exists()
    sent = run(tmp_path, SEND, serving.address, make_key(serving))
    assert (sent.returncode, sent.stdout) == (0, "order-17\n"), sent.stderr


def test_it_asks_for_nothing_that_the_program_does_not() -> None:
    """Nor for another version: it goes into an application's environment, also into one with the program."""
    ours = {Requirement(line).name for line in project()["project"]["dependencies"]}
    lines = [*metadata()["dependencies"], *metadata()["optional-dependencies"]["transaction"]]
    asked = [Requirement(line) for line in lines]
    assert {one.name for one in asked} <= {*ours, "yarl"}
    assert not [one for one in asked if version(one.name) not in one.specifier]


def test_it_is_of_the_programs_version_and_licence(client_wheel: Path) -> None:
    with ZipFile(client_wheel) as archive:
        info = f"dispatcher_client-{VERSION}.dist-info"
        said = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        assert archive.read(f"{info}/licenses/LICENSE").decode() == (ROOT / "LICENSE").read_text()
    assert (said["Version"], said["License-Expression"]) == (VERSION, "MIT")
