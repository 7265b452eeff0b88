"""Two cells, a server and a dispatcher each, and one provider for both."""

import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import asyncpg
import psutil
import pytest
from msgspec import Struct

from dispatcher.db import embedded
from dispatcher.db.schema import migrator
from tests.faults.provider import Provider
from tests.support.caller import Caller, make_key
from tests.support.folders import folder
from tests.support.program import Program

NUMBERS = (1, 2)
LINKS = ("https://mail.example.org", "0123456789abcdef0123456789abcdef")


class Cells(Struct):
    """Both cells: their programs, a key of one tenant each, the provider, and the server of the second."""

    programs: dict[int, Program]
    keys: dict[str, str]
    provider: Provider
    directory: Path
    # One that does not list the tenant of the second cell.
    stale: Path
    postmaster: int

    def caller(self, number: int, tenant: str) -> Caller:
        """Who calls a cell with the key of a tenant."""
        return Caller(self.programs[number], self.keys[tenant])


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """A server of its own: its address, and its process."""
    with folder("cell") as place:
        data = place / "postgres"
        data.mkdir()
        running = embedded.server_in(data)
        running.ensure_pgdata_inited()
        running.start()
        pid = running.get_pid()
        assert pid is not None
        try:
            yield running.get_uri(), pid
        finally:
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGQUIT)
                psutil.Process(pid).wait(60)
            running.cleanup()


def _write(directory: Path, urls: dict[int, str], programs: dict[int, Program], **tenants: int) -> None:
    cells = [
        {"number": number, "database": urls[number]} | ({"url": programs[number].address} if number in programs else {})
        for number in NUMBERS
    ]
    # Greater each time, so that it is taken.
    version = 1 + len(programs) + len(tenants)
    directory.write_text(json.dumps({"version": version, "default": 1, "cells": cells, "tenants": tenants}))


@pytest.fixture(scope="module")
async def cells(shared_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cells]:
    """Tenant acme is placed in cell 2; beta is not listed, and so in cell 1."""
    place = tmp_path_factory.mktemp("cells")
    directory = place / "cells.json"
    async with AsyncExitStack() as stack:
        url, pid = stack.enter_context(server())
        await migrator.migrate(url)
        urls, programs = {1: shared_url, 2: url}, dict[int, Program]()
        provider = await stack.enter_async_context(Provider(place / "books"))
        _write(directory, urls, programs)
        for number in NUMBERS:
            program = Program(
                urls[number],
                DISPATCHER_CELL__NUMBER=str(number),
                DISPATCHER_CELL__DIRECTORY=str(directory),
                DISPATCHER_UNSUBSCRIBE__PUBLIC_URL=LINKS[0],
                DISPATCHER_UNSUBSCRIBE__SECRETS=LINKS[1],
                DISPATCHER_CHANNELS__SMS__PROVIDER="ledger",
                DISPATCHER_CHANNELS__SMS__OPTIONS__PORT=str(provider.port),
            )
            stack.callback(program.end)
            programs[number] = await program.start()
            _write(directory, urls, programs)
        placed = programs[1].run("cells", "place", "acme", "--cell", "2")
        assert placed.returncode == 0, placed.stderr
        _write(place / "stale.json", urls, programs)
        _write(directory, urls, programs, acme=2)
        keys = {
            "beta": make_key(programs[1], tenant="beta"),
            "acme": make_key(programs[2], tenant="acme"),
            "operators": make_key(programs[1]),
            "operators of 2": make_key(programs[2]),
            # From before it was placed elsewhere, as the rows of a tenant that has moved are.
            "acme in 1": await _key_of_acme(programs[1], shared_url),
        }
        yield Cells(programs, keys, provider, directory, place / "stale.json", pid)


async def _key_of_acme(program: Program, url: str) -> str:
    key = make_key(program, tenant="gamma")
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE dispatcher.api_keys SET tenant_id = 'acme' WHERE tenant_id = 'gamma'")
    await connection.close()
    return key


async def sent(cells: Cells, key: str, count: int) -> None:
    """Wait until the provider has accepted a key so many times."""
    await cells.programs[1].until(
        lambda: key in (books := cells.provider.entries()) and books[key].accepted == count, f"{key} was sent"
    )
