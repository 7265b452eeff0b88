"""The image itself, built without an engine: its size, and both targets as containers that can write nothing."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import running, sandbox, sizes, stages
from tests.image.sandbox import Container

MEGABYTES_MAX = 150
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stages.Builder]:
    """What builds stages; they are gone afterwards."""
    if (reason := stages.lacking() or sandbox.lacking()) is not None:
        pytest.skip(reason)
    built = stages.Builder(tmp_path_factory.mktemp("stages"))
    yield built
    built.remove()


def test_the_layers_of_the_server_are_small(builder: stages.Builder) -> None:
    layers = sizes.image(builder, "server")
    assert sum(layers.values()) <= MEGABYTES_MAX * 1e6, layers


async def test_the_server_migrates_serves_and_drains(builder: stages.Builder, empty_url: str, tmp_path: Path) -> None:
    port = running.free_port()
    async with running.over_tcp(empty_url) as proxy:
        told = {"DISPATCHER_DATABASE_URL": running.url_of(empty_url, proxy), "DISPATCHER_HTTP__PORT": str(port)}
        container = Container("server", builder.as_root("server"), **told)
        try:
            await running.tried(container, port, tmp_path)
        finally:
            container.end()


def test_the_server_has_no_postgres_and_says_what_to_do(builder: stages.Builder) -> None:
    lacking = Container("server", builder.as_root("server")).dispatcher("migrate")
    assert lacking.returncode != 0
    assert "DISPATCHER_DATABASE_URL" in lacking.stderr


async def test_the_other_target_starts_a_postgres_in_its_volume(builder: stages.Builder, tmp_path: Path) -> None:
    port = running.free_port()
    with builder.volume("embedded") as data:
        root = [*builder.as_root("embedded"), "--bind", str(data), "/data"]
        container = Container("embedded", root, DISPATCHER_HTTP__PORT=str(port))
        try:
            await running.ready(container, port, tmp_path / "log")
            assert container.healthy()
            assert container.stop(signal.SIGTERM) == 0
        finally:
            container.end()
        assert (data / "postgres" / "postgres" / "PG_VERSION").exists()


def test_what_the_program_imports_was_compiled(builder: stages.Builder) -> None:
    program = """
import importlib, pkgutil, sys, channels, dispatcher
for package in (dispatcher, channels):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
import os
for name, module in sorted(sys.modules.items()):
    cached = getattr(module, "__cached__", None)
    if cached and cached.startswith("/opt/") and not os.path.exists(cached):
        print(name)
"""
    done = Container("server", builder.as_root("server")).run("python", "-W", "ignore", "-c", program)
    assert (done.returncode, done.stdout) == (0, ""), done
