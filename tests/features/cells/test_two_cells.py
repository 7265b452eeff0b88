"""OB-18 beyond one Postgres: two cells, a server and a dispatcher each, and one provider for both."""

import json

import aiohttp
import asyncpg
import pytest

from dispatcher.client import Client, Message, OtherCell, Unauthenticated
from dispatcher.engine.rules.unsubscribe_links import Links, Subscription
from tests.features.cells.conftest import LINKS, NUMBERS, Cells, sent
from tests.support.caller import delivery
from tests.support.program import Program

WHY = ("--reason", "a test", "--actor", "test")


async def test_the_same_key_of_two_tenants_sends_two_messages(cells: Cells) -> None:
    for _ in range(2):
        for number, tenant in ((1, "beta"), (2, "acme")):
            assert cells.caller(number, tenant).post("/deliveries", delivery("same")).status in (200, 201)
    await sent(cells, "same", 2)


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
    await sent(cells, "by-client", 1)


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
    await sent(cells, "in-transaction", 1)


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
    await sent(cells, "by-command", 1)


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
