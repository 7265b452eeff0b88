"""OB-18 beyond one Postgres: two cells, a server and a dispatcher each, and one provider for both."""

import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import aiohttp
import asyncpg
import psutil
import pytest
from msgspec import Struct

from dispatcher.client import Client, Message, OtherCell, Unauthenticated
from dispatcher.db import embedded
from dispatcher.db.schema import migrator
from dispatcher.engine.rules.unsubscribe_links import Links, Subscription
from tests.faults.provider import Provider
from tests.support.caller import Caller, delivery, make_key
from tests.support.folders import folder
from tests.support.program import Program

NUMBERS = (1, 2)
LINKS = ("https://mail.example.org", "0123456789abcdef0123456789abcdef")
WHY = ("--reason", "a test", "--actor", "test")


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
def _server() -> Iterator[tuple[str, int]]:
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
        url, pid = stack.enter_context(_server())
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


async def _sent(cells: Cells, key: str, count: int) -> None:
    await cells.programs[1].until(
        lambda: key in (books := cells.provider.entries()) and books[key].accepted == count, f"{key} was sent"
    )


async def test_the_same_key_of_two_tenants_sends_two_messages(cells: Cells) -> None:
    for _ in range(2):
        for number, tenant in ((1, "beta"), (2, "acme")):
            assert cells.caller(number, tenant).post("/deliveries", delivery("same")).status in (200, 201)
    await _sent(cells, "same", 2)


async def test_a_cell_says_its_number_wherever_one_looks(cells: Cells) -> None:
    for number, program in cells.programs.items():
        assert json.loads(program.get("/readyz")[1])["cell"] == number
        assert program.metric("dispatcher_cell", cell=str(number)) == 1
        assert {line["cell"] for line in program.lines() if "level" in line} == {number}


async def test_a_database_of_another_number_is_refused(cells: Cells) -> None:
    for command in ("migrate", "serve"):
        refused = cells.programs[2].run(command, DISPATCHER_CELL__NUMBER="3")
        assert refused.returncode == 1
        assert b"cell.number is 3, and this database is cell 2" in refused.stderr


async def test_over_http_a_foreign_tenant_is_told_where_it_is(cells: Cells) -> None:
    refused = cells.caller(1, "acme in 1").post("/deliveries", delivery("foreign"))
    assert refused.status == 421
    assert (refused.json["cell"], refused.json["url"]) == (2, cells.programs[2].address)
    assert "foreign" not in cells.provider.entries()


async def test_a_client_goes_where_its_directory_leads_and_where_a_cell_says(cells: Cells) -> None:
    message = Message(key="by-client", channel="sms", to="+4917012345", body="Hello")
    # Asked in the first cell, which refuses it and names the second; there the key is another.
    async with Client.in_cells(cells.stale, cells.keys["acme in 1"], tenant="acme") as client:
        with pytest.raises(Unauthenticated):
            await client.send(message)
    async with Client(cells.programs[1].address, cells.keys["acme in 1"]) as client:
        with pytest.raises(OtherCell) as refused:
            await client.send(message)
    assert (refused.value.cell, refused.value.url) == (2, cells.programs[2].address)
    async with Client.in_cells(cells.directory, cells.keys["acme"], tenant="acme") as client:
        await client.send(message)
    await _sent(cells, "by-client", 1)


async def test_in_a_transaction_a_foreign_tenant_is_refused(cells: Cells) -> None:
    connection = await asyncpg.connect(cells.programs[1].url)
    message = Message(key="in-transaction", channel="sms", to="+4917012345", body="Hello")
    try:
        with pytest.raises(OtherCell):
            async with connection.transaction():
                await Client.on(connection, tenant="acme").send(message)
        async with connection.transaction():
            await Client.on(connection, tenant="beta").send(message)
    finally:
        await connection.close()
    await _sent(cells, "in-transaction", 1)


async def test_the_command_line_finds_the_cell_of_a_tenant(cells: Cells) -> None:
    said = json.loads(cells.programs[1].run("cells", "directory", "--json").stdout)
    assert said["tenants"] == {"acme": 2}
    send = ("send", "--channel", "sms", "--to", "+4917012345", "--body", "Hello", "--tenant", "acme")
    alone = Program(cells.programs[1].url)
    refused = alone.run(*send, "--key", "by-command")
    alone.end()
    assert refused.returncode == 1
    assert b"tenant acme is in cell 2" in refused.stderr
    done = cells.programs[1].run(*send, "--key", "by-command")
    assert done.returncode == 0, done.stderr
    await _sent(cells, "by-command", 1)


async def test_the_directory_over_http_has_what_the_table_knows(cells: Cells) -> None:
    known = cells.caller(1, "operators").get("/cells/directory").json
    assert (known["default"], known["tenants"]) == (1, {"acme": 2})
    assert [cell["number"] for cell in known["cells"]] == [1, 2]
    assert "postgresql" not in json.dumps(known)
    # What others have is not told.
    assert cells.caller(1, "beta").get("/cells/directory").json["tenants"] == {}


async def test_a_tenant_with_anything_elsewhere_is_not_placed_but_moved(cells: Cells) -> None:
    cells.caller(1, "beta").post("/deliveries", delivery("beta-has-this"))
    refused = cells.programs[1].run("cells", "place", "beta", "--cell", "2")
    assert b"beta has rows in cell 1" in refused.stderr
    refused = cells.programs[1].run("cells", "place", "acme", "--cell", "1")
    assert b"acme is in cell 2" in refused.stderr


async def test_a_pause_everywhere_is_in_every_cell_and_says_so(cells: Cells) -> None:
    paused = cells.programs[1].run("pause", "template", "none", *WHY, "--all-cells", "--json")
    assert paused.returncode == 0, paused.stderr
    said = [json.loads(line) for line in paused.stdout.splitlines()]
    assert [one["cell"] for one in said if "cell" in one] == [1, 2]
    assert [one["name"] for one in said if "name" in one] == ["none", "none"]
    resumed = cells.programs[2].run("resume", "template", "none", *WHY)
    assert resumed.returncode == 0, resumed.stderr
    # In one it is over, in the other not: each is said, and the whole has failed.
    resumed = cells.programs[1].run("resume", "template", "none", *WHY, "--all-cells")
    assert resumed.returncode == 1
    assert b"template none goes on" in resumed.stdout
    assert b"template none is not paused" in resumed.stderr


@pytest.mark.parametrize(("topic", "table"), [(None, "suppressions"), ("news", "topic_preferences")])
async def test_a_link_that_an_earlier_cell_has_sent_unsubscribes_where_the_tenant_is(
    cells: Cells, topic: str | None, table: str
) -> None:
    links = Links.of(*LINKS)
    assert links is not None
    path = links.url(Subscription("acme", "email", "bob@example.org", topic)).removeprefix(LINKS[0])
    async with (
        aiohttp.ClientSession() as session,
        session.post(cells.programs[1].address + path, data={"List-Unsubscribe": "One-Click"}) as answer,
    ):
        assert answer.status == 200
    found = []
    for number in NUMBERS:
        connection = await asyncpg.connect(cells.programs[number].url)
        count = f"SELECT count(*) FROM dispatcher.{table} WHERE address = 'bob@example.org'"
        found.append(await connection.fetchval(count))
        await connection.close()
    assert found == [0, 1]


async def test_a_person_is_found_and_erased_in_every_cell(cells: Cells) -> None:
    """Also where the tenant is not: a move may have left something."""
    for number in NUMBERS:
        connection = await asyncpg.connect(cells.programs[number].url)
        async with connection.transaction():
            await connection.execute("SET LOCAL dispatcher.copying = 'yes'")
            await connection.execute(
                """INSERT INTO dispatcher.deliveries
                          (tenant_id, idempotency_key, channel, recipient, template, created_at)
                   VALUES ('acme', 'left-over', 'email', 'ann@example.org', '{"body": "x"}', '2020-01-01')"""
            )
        await connection.close()
    about = ("ann@example.org", "--tenant", "acme", "--all-cells")
    found = cells.programs[1].run("contacts", "timeline", *about, "--json")
    assert found.returncode == 0, found.stderr
    said = [line.get("cell", "message") for line in map(json.loads, found.stdout.splitlines())]
    assert said == [1, "message", 2, "message"]
    gone = cells.programs[1].run("contacts", "erase", *about, "--yes", *WHY)
    assert gone.returncode == 0, gone.stderr
    assert b"cell 1:" in gone.stdout
    assert b"cell 2:" in gone.stdout
    for number in NUMBERS:
        connection = await asyncpg.connect(cells.programs[number].url)
        left = "SELECT count(*) FROM dispatcher.deliveries WHERE recipient = 'ann@example.org'"
        assert await connection.fetchval(left) == 0
        await connection.close()


async def test_check_names_what_is_wrong_and_a_dead_cell_changes_nothing_elsewhere(cells: Cells) -> None:
    """The last one here: it ends a cell."""
    check = ("cells", "check", "--json")
    agreed = cells.programs[1].run(*check)
    assert (agreed.returncode, json.loads(agreed.stdout)["faults"]) == (0, [])
    told = cells.programs[1].run(*check, DISPATCHER_CELL__DIRECTORY=str(cells.stale))
    (stale,) = json.loads(told.stdout)["faults"]
    assert "tenant acme is in cell 2" in stale
    beta = cells.caller(1, "beta")
    os.kill(cells.postmaster, signal.SIGKILL)
    await cells.programs[1].until(lambda: not psutil.pid_exists(cells.postmaster), "the server is gone")
    for number in range(20):
        assert beta.post("/deliveries", delivery(f"beside-a-dead-cell-{number}")).status == 201
    await _sent(cells, "beside-a-dead-cell-19", 1)
    waits = [row for row in beta.get("/deliveries?limit=50").json["deliveries"] if row["life"] != "sent"]
    assert not waits
    assert cells.programs[1].get("/readyz")[0] == 200
    found = cells.caller(1, "operators").get("/cells").json
    assert [bool(cell["faults"]) for cell in found["cells"]] == [False, True]
    named = cells.programs[1].run(*check)
    assert named.returncode == 1
    assert all(fault.startswith("cell 2: ") for fault in json.loads(named.stdout)["faults"])
