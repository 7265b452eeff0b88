"""The program in a container: another user, no right to write, first process; on this machine's own Python."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import host_root, running, sandbox
from tests.image.sandbox import Container


@pytest.fixture
def root(tmp_path: Path) -> Iterator[list[str]]:
    """The arguments of a root."""
    if (reason := sandbox.lacking()) is not None:
        pytest.skip(reason)
    yield host_root.make(tmp_path / "root", "server")
    host_root.remove(tmp_path / "root")


async def test_it_migrates_serves_and_drains_read_only_as_another_user(
    root: list[str], empty_url: str, tmp_path: Path
) -> None:
    port = running.free_port()
    async with running.over_tcp(empty_url) as proxy:
        url = running.url_of(empty_url, proxy)
        container = Container("server", root, DISPATCHER_DATABASE_URL=url, DISPATCHER_HTTP__PORT=str(port))
        try:
            await running.tried(container, port, tmp_path)
        finally:
            container.end()
