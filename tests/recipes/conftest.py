"""Fixtures of the recipes: a program at work, their workflow, and a role with what grants.sql gives."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from tests.conformance.runs import Running, running
from tests.conformance.servers import run
from tests.support.forks import ROOT

RECIPES = ROOT / "ops" / "recipes"


class Shop:
    """A database of the dispatcher's that the role `shop` may use."""

    def __init__(self, place: Running, url: str) -> None:
        self.place = place
        self.owner = url
        # The role needs no password on this server.
        self.url = url.replace("//postgres:@", "//shop:@", 1)

    async def psql(self, url: str, file: Path) -> "subprocess.CompletedProcess[bytes]":
        """Run a script as its first lines say."""
        quiet = ("--no-psqlrc", "--no-align", "--tuples-only", "--quiet")
        return await run(
            self.place.runs.connection, "psql", url, "--set", "ON_ERROR_STOP=1", *quiet, "--file", str(file)
        )


@pytest.fixture(scope="module")
async def shop(shared_url: str) -> AsyncIterator[Shop]:
    """The shop's database, with a dispatcher at work on it."""
    async with running(shared_url, {}) as place:
        shop = Shop(place, shared_url)
        assert shop.url != shop.owner
        await place.runs.put(yaml.safe_load((RECIPES / "order_confirmed.yaml").read_text()))
        granted = await shop.psql(shop.owner, RECIPES / "sql" / "grants.sql")
        assert granted.returncode == 0, granted.stderr
        yield shop
