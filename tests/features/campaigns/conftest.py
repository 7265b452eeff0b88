"""What the tests of campaigns share: the command line, on a database and through a server."""

import pytest

from tests.support.program import Program
from tests.support.remote_cli import Cli, RemoteCli


@pytest.fixture(scope="module")
def remote(serving: Program) -> RemoteCli:
    """The shared program's server, with a key of an administrator."""
    return RemoteCli(serving)


@pytest.fixture(params=["database", "server"])
def cli(request: pytest.FixtureRequest, serving: Program, remote: RemoteCli) -> Cli:
    """The command line, locally and remotely."""
    return serving if request.param == "database" else remote
