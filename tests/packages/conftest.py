"""Fixtures for the tests of the wheels: they are built once, whichever worker needs them first."""

import fcntl
from pathlib import Path

import pytest

from tests.packages import wheels


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder with both wheels: `server` and `client`."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "wheels"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "client").exists():
            backend = wheels.backend(folder / "backend")
            sources = wheels.copied(folder / "sources")
            wheels.build(sources, backend, folder / "server")
            wheels.build(sources / "ops" / "client", backend, folder / "client")
    return folder


@pytest.fixture(scope="session")
def server_wheel(built: Path) -> Path:
    """The wheel of the whole program."""
    (wheel,) = (built / "server").glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def client_wheel(built: Path) -> Path:
    """The wheel of the client alone."""
    (wheel,) = (built / "client").glob("*.whl")
    return wheel
