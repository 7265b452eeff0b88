"""Webhook endpoints in Postgres: one of a name in its workspace, two secrets while one is rotated, and who did what."""

import asyncio

import pytest

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.features.webhooks import rules
from dispatcher.features.webhooks import store as webhooks
from dispatcher.features.webhooks.store import Endpoint, Refused
from tests.features.webhooks.hooks import BY, HERE, enable, make, show
from tests.support.scene import Connection
from tests.support.waits import until_blocked

OTHER = Workspace("default", "other")


async def _signs(database: Database, name: str = "crm") -> tuple[str, ...]:
    """The secrets that sign now."""
    shown = await show(database, name=name)
    key = ("default", "default", shown["id"])
    return (await webhooks.targets(database, [key]))[key].secrets


async def _rotate(database: Database, overlap: float = 3_600.0) -> str:
    made = await webhooks.rotate(database, HERE, "crm", overlap, *BY)
    assert isinstance(made, str)
    return made


async def test_a_name_is_one_endpoint_in_its_workspace(database: Database) -> None:
    await make(database)
    again = Endpoint("crm", "https://b.example/", ("run.*",), enabled=True)
    assert await webhooks.create(database, HERE, again, *BY) == Refused("taken")
    await make(database, workspace=OTHER)
    assert await webhooks.delete(database, HERE, "crm", *BY)
    assert not await webhooks.delete(database, HERE, "crm", *BY)
    assert [one["name"] for one in await webhooks.listed(database, OTHER, "", 10)] == ["crm"]
    await make(database)


async def test_two_secrets_sign_while_one_is_rotated_and_never_three(database: Database) -> None:
    first = await make(database)
    second = await _rotate(database)
    assert await _signs(database) == (second, first)
    third = await _rotate(database)
    assert await _signs(database) == (third, second)
    fourth = await _rotate(database, 0.0)
    assert await _signs(database) == (fourth,)
    assert await webhooks.rotate(database, OTHER, "crm", 0.0, *BY) == Refused("unknown")


async def test_a_secret_stands_where_it_signs_from_and_nowhere_else(database: Database, connection: Connection) -> None:
    secret = await make(database)
    await enable(database, False)
    assert secret not in repr(await webhooks.listed(database, HERE, "", 10))
    assert secret not in repr(await webhooks.actions(database, HERE, "crm", 10))
    for table in ("webhook_endpoints", "webhook_actions", "webhook_events", "deliveries"):
        kept = await connection.fetchval(f"SELECT coalesce(string_agg(t::text, ''), '') FROM dispatcher.{table} t")
        assert secret not in kept
    await webhooks.delete(database, HERE, "crm", *BY)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.webhook_secrets") == 0


async def test_where_another_workspace_s_endpoint_is_is_not_found(database: Database) -> None:
    await make(database)
    shown = await show(database)
    assert await webhooks.listed(database, OTHER, "", 1, "crm") == []
    foreign = ("default", "other", shown["id"])
    assert await webhooks.targets(database, [foreign]) == {}


async def test_actions_outlive_their_endpoint(database: Database, connection: Connection) -> None:
    await make(database)
    assert await enable(database, True) == "same"
    assert await enable(database, False) == "changed"
    assert await enable(database, True) == "changed"
    assert await enable(database, True, "run.failed") == "changed"
    await _rotate(database)
    shown = await show(database)
    gone = "SELECT dispatcher.webhook_gone($1, $2)"
    assert not await connection.fetchval(gone, shown["id"], "https://where.it.was.example/")
    assert await connection.fetchval(gone, shown["id"], shown["url"])
    assert not await connection.fetchval(gone, shown["id"], shown["url"])
    await webhooks.delete(database, HERE, "crm", *BY)
    done = await webhooks.actions(database, HERE, "crm", 10)
    assert [row["action"] for row in done] == ["delete", "disable", "rotate", "change", "enable", "disable", "create"]
    assert [row["actor"] for row in done if row["reason"] == "it answered with 410"] == ["dispatcher"]


async def test_a_workspace_has_no_more_than_so_many(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "ENDPOINTS_MAX", 2)
    await make(database, name="a")
    await make(database, name="b")
    third = Endpoint("c", "https://c.example/", ("run.*",), enabled=True)
    assert await webhooks.create(database, HERE, third, *BY) == Refused("full")
    await webhooks.delete(database, HERE, "a", *BY)
    await make(database, name="c")


async def test_of_two_that_make_the_last_one_at_once_one_is_too_many(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "ENDPOINTS_MAX", 1)
    make_a = """SELECT dispatcher.create_webhook('default', 'default', 'a', 'https://a.example/', '{run.*}', true,
                                                    'whsec_' || repeat('a', 32), 1, 'ann', 'x')"""
    b = Endpoint("b", "https://b.example/", ("run.*",), enabled=True)
    async with connection.transaction():
        assert await connection.fetchval(make_a) == "created"
        rival = asyncio.create_task(webhooks.create(database, HERE, b, *BY))
        await until_blocked(connection)
    assert await rival == Refused("full")


async def test_two_concurrent_rotations_leave_two_secrets(database: Database, connection: Connection) -> None:
    await make(database)
    made = await asyncio.gather(*(webhooks.rotate(database, HERE, "crm", 3_600.0, *BY) for _ in range(4)))
    assert all(isinstance(one, str) for one in made)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.webhook_secrets") == 2


async def test_of_what_is_listed_those_of_deliveries_are_known(database: Database, connection: Connection) -> None:
    await make(database, "delivery.failed", name="a")
    await make(database, "run.*", name="b")
    rows = await connection.fetch("SELECT name, of_deliveries FROM dispatcher.webhook_endpoints ORDER BY name")
    assert [tuple(row) for row in rows] == [("a", True), ("b", False)]
    assert all(event.startswith(("delivery.", "run.", "campaign_job.", "campaign_run.")) for event in rules.EVENTS)
