"""The client in cells: whom it calls, by its directory and by what a cell answers."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest
from msgspec import Struct

from dispatcher.client.cells import CellTransport
from dispatcher.client.errors import OtherCell
from dispatcher.http import problems
from tests.channels.shared.web.fake_server import FakeServer, says

KEY = "dsp_abcdefgh_very-secret"
ANSWER = {"id": 17}


class Cells(Struct):
    """Two cells of the directory, a server that is none, and the file."""

    servers: dict[int, FakeServer]
    stranger: FakeServer
    directory: Path

    def write(self, version: int = 1, **tenants: int) -> None:
        """Write the directory anew."""
        cells = [{"number": number, "url": server.url} for number, server in self.servers.items()]
        said = {"version": version, "default": 1, "cells": cells, "tenants": tenants}
        self.directory.write_text(json.dumps(said))

    def refuse(self, number: int, cell: int, url: str = "") -> None:
        """Let a cell say that the tenant is in another one."""
        document = problems.Problem(problems.MISDIRECTED, "elsewhere", cell=cell, url=url).document("r-1")
        self.servers[number].always = says(421, json.loads(document))

    @property
    def called(self) -> list[int]:
        """How often each was called."""
        return [len(server.requests) for server in (*self.servers.values(), self.stranger)]


@pytest.fixture
async def cells(tmp_path: Path) -> AsyncIterator[Cells]:
    """Cells that answer."""
    async with AsyncExitStack() as stack:
        one, two, stranger = [await stack.enter_async_context(FakeServer(says(200, ANSWER))) for _ in range(3)]
        made = Cells({1: one, 2: two}, stranger, tmp_path / "cells.json")
        made.write()
        yield made


async def test_a_tenant_is_called_in_the_cell_of_the_directory(cells: Cells) -> None:
    cells.write(acme=2)
    for tenant, called in (("acme", [0, 1, 0]), ("other", [1, 1, 0])):
        async with aclosing(CellTransport(cells.directory, tenant, KEY)) as client:
            assert (await client.ask("GET", "/key")).read(dict[str, int]) == ANSWER
        assert cells.called == called


async def test_a_client_calls_no_address_that_an_answer_names(cells: Cells) -> None:
    cells.refuse(1, 2, cells.stranger.url)
    async with aclosing(CellTransport(cells.directory, "acme", KEY)) as client:
        for _ in range(2):
            assert (await client.ask("POST", "/deliveries", body={})).read(dict[str, int]) == ANSWER
    # What the first one has said is remembered until there is a newer directory.
    assert cells.called == [1, 2, 0]


@pytest.mark.parametrize("cell", [0, 1, 9])
async def test_a_refusal_that_leads_nowhere_is_raised(cells: Cells, cell: int) -> None:
    cells.refuse(1, cell, cells.stranger.url)
    async with aclosing(CellTransport(cells.directory, "acme", KEY)) as client:
        with pytest.raises(OtherCell) as refused:
            await client.ask("GET", "/key")
    assert (refused.value.cell, cells.called) == (cell, [1, 0, 0])


async def test_two_cells_that_name_each_other_are_each_asked_once(cells: Cells) -> None:
    cells.refuse(1, 2)
    cells.refuse(2, 1)
    async with aclosing(CellTransport(cells.directory, "acme", KEY)) as client:
        with pytest.raises(OtherCell):
            await client.ask("GET", "/key")
    assert cells.called == [1, 1, 0]
