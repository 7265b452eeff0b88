"""What the conformance tests share: a second program, a configuration file, and rows as an application writes them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, says
from tests.conformance.flows import PAGER, Flows, flowing
from tests.conformance.outbox import Outbox
from tests.conformance.runs import Running, Runs
from tests.conformance.servers import another
from tests.support.program import Program
from tests.support.scene import Connection


@pytest.fixture
def outbox(connection: Connection) -> Outbox:
    """The outbox as an application sees it."""
    return Outbox(connection)


@pytest.fixture
async def second(url: str) -> AsyncIterator[Program]:
    """Another replica, or the program that is started after the first one has gone."""
    program = Program(url)
    try:
        yield program
    finally:
        program.end()


@pytest.fixture
async def elsewhere(connection: Connection) -> AsyncIterator[str]:
    """Another server of the same version, with an identity of its own; the URL of its first database."""
    async with another(connection) as url:
        yield url


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    """Where a configuration can be written."""
    return tmp_path / "dispatcher.toml"


@pytest.fixture(scope="module")
async def bill() -> AsyncIterator[FakeServer]:
    """The function `bill` of these workflows; it succeeds unless it is told otherwise."""
    async with FakeServer(says(200, {"success": True, "data": {"invoice": 17}})) as fake:
        yield fake


@pytest.fixture(scope="module")
async def rooms() -> AsyncIterator[FakeServer]:
    """Where the channel `pager` posts: it knows ann and bob, and whoever else is written to there has a bad address."""
    async with FakeServer(says(200, raw=b"ok")) as fake:
        yield fake


@pytest.fixture(scope="module")
async def flows(shared_url: str, bill: FakeServer, rooms: FakeServer) -> AsyncIterator[Flows]:
    """Workflows and their runs, on a program that runs as long as the module's tests do."""
    targets = {"FUNCTIONS__BILL": bill, "WEBHOOKS__ANN": rooms, "WEBHOOKS__BOB": rooms}
    settings = {"CHANNELS__HTTP__PROVIDER": "functions", f"CHANNELS__{PAGER.upper()}__PROVIDER": "slack"}
    settings |= {f"{name}__URL": fake.url for name, fake in targets.items()}
    settings |= {f"{name}__ALLOW_ADDRESSES": LOOPBACK for name in targets}
    async with flowing(shared_url, **{f"DISPATCHER_{name}": text for name, text in settings.items()}) as flows:
        yield flows


@pytest.fixture
def runs(place: tuple[Running, FakeServer]) -> Runs:
    """The runs of the program of a module's `place`, where all share it."""
    return place[0].runs


@pytest.fixture
def program_here(place: tuple[Running, FakeServer]) -> Program:
    """That program."""
    return place[0].program
