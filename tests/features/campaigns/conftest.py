"""What the tests of campaigns share: a stage, and the command line on a database and through a server."""

import pytest

from dispatcher.db.database import Database
from tests.features.campaigns.stage import Stage
from tests.support.program import Program
from tests.support.remote_cli import Cli, RemoteCli


@pytest.fixture
async def campaigns(database: Database) -> Stage:
    """A template on the test's database, and an epoch that expands."""
    return await Stage.open(database)


@pytest.fixture(scope="module")
def remote(serving: Program) -> RemoteCli:
    """The shared program's server, with a key of an administrator."""
    return RemoteCli(serving)


@pytest.fixture(params=["database", "server"])
def cli(request: pytest.FixtureRequest, serving: Program, remote: RemoteCli) -> Cli:
    """The command line, locally and remotely."""
    return serving if request.param == "database" else remote
