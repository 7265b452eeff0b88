"""Keys of the HTTP API: one live key a name, two live secrets while one is rotated, and only hashes kept."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.features.keys import store as keys
from dispatcher.http.bearer import Bearer
from dispatcher.http.roles import Role
from dispatcher.http.server import authentication
from tests.support.scene import Connection

ACME = Workspace("acme", "main")
WHO = ("ann", "asked")


async def _made(database: Database, name: str = "shop", **given: object) -> Bearer:
    ends = given.get("expires_at")
    made = await keys.create(database, ACME, name, Role.TRIGGER_OPERATOR, ends, by=WHO)  # type: ignore[arg-type]  # a time or None
    assert made is not None
    return made


async def _state(database: Database, one: Bearer) -> str:
    found = await authentication.find(database, one.prefix)
    assert found is not None
    assert found.workspace == ACME
    assert one.matches(found.hash)
    return found.state


async def test_a_key_is_found_by_its_prefix_and_only_its_hash_is_kept(
    database: Database, connection: Connection
) -> None:
    made = await _made(database)
    found = await authentication.find(database, made.prefix)
    assert found is not None
    assert (found.name, found.role, found.state) == ("shop", Role.TRIGGER_OPERATOR, "live")
    assert await authentication.find(database, "dsp_000000000000") is None
    for table in ("api_keys", "api_secrets", "api_key_actions"):
        kept = await connection.fetchval(f"SELECT coalesce(string_agg(t::text, ''), '') FROM dispatcher.{table} t")
        assert made.text not in kept
        assert made.text[len(made.prefix) :] not in kept


async def test_a_name_is_one_live_key_in_its_workspace(database: Database) -> None:
    made = await _made(database)
    assert await keys.create(database, ACME, "shop", Role.SYSTEM_ADMIN, None, by=WHO) is None
    for other in (Workspace("acme", "other"), Workspace("other", "main")):
        assert await keys.create(database, other, "shop", Role.SYSTEM_ADMIN, None, by=WHO) is not None
        assert await keys.revoke(database, other, "shop", by=WHO)
    assert await _state(database, made) == "live"
    assert await keys.revoke(database, ACME, "shop", by=WHO)
    assert not await keys.revoke(database, ACME, "shop", by=WHO)
    assert await _state(database, made) == "revoked"
    again = await _made(database)
    assert await _state(database, again) == "live"
    assert await _state(database, made) == "revoked"


async def test_two_secrets_are_good_while_a_key_is_rotated_and_never_three(database: Database) -> None:
    first = await _made(database)
    second = await keys.rotate(database, ACME, "shop", 3600, by=WHO)
    assert isinstance(second, Bearer)
    assert [await _state(database, one) for one in (first, second)] == ["live", "live"]
    third = await keys.rotate(database, ACME, "shop", 3600, by=WHO)
    assert isinstance(third, Bearer)
    assert await authentication.find(database, first.prefix) is None
    assert [await _state(database, one) for one in (second, third)] == ["live", "live"]
    (row,) = await keys.listed(database, ACME, "", 10)
    assert row["prefixes"] == [third.prefix, second.prefix]
    fourth = await keys.rotate(database, ACME, "shop", 0, by=WHO)
    assert isinstance(fourth, Bearer)
    assert [await _state(database, one) for one in (third, fourth)] == ["replaced", "live"]


@pytest.mark.parametrize("end", ["expires_at = now()", "revoked_at = now()"])
async def test_of_a_key_that_is_over_no_secret_is_listed_as_good(
    database: Database, connection: Connection, end: str
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    await _made(database, expires_at=soon)
    assert isinstance(await keys.rotate(database, ACME, "shop", 86_400, by=WHO), Bearer)
    (row,) = await keys.listed(database, ACME, "", 10)
    assert (len(row["prefixes"]), row["old_secret_until"]) == (2, soon)
    await connection.execute(f"UPDATE dispatcher.api_keys SET {end}")
    (row,) = await keys.listed(database, ACME, "", 10, revoked=True)
    assert (row["prefixes"], row["old_secret_until"]) == ([], None)


async def test_concurrent_rotations_leave_two_secrets(database: Database, connection: Connection) -> None:
    await _made(database)
    made = await asyncio.gather(*(keys.rotate(database, ACME, "shop", 3600, by=WHO) for _ in range(4)))
    assert all(isinstance(one, Bearer) for one in made)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.api_secrets") == 2
    assert await keys.rotate(database, ACME, "nobody", 0, by=WHO) == "unknown"


async def test_a_key_expires(database: Database) -> None:
    made = await _made(database, expires_at=datetime.now(UTC) - timedelta(days=1))
    assert await _state(database, made) == "expired"
    assert await keys.rotate(database, ACME, "shop", 0, by=WHO) == "expired"


async def test_a_use_is_noted_once_a_minute(database: Database, connection: Connection) -> None:
    made = await _made(database)
    found = await authentication.find(database, made.prefix)
    assert found is not None
    last = "SELECT last_used_at FROM dispatcher.api_keys"
    assert await connection.fetchval(last) is None
    await authentication.touch(database, found.id)
    noted = await connection.fetchval(last)
    await authentication.touch(database, found.id)
    assert await connection.fetchval(last) == noted
    await connection.execute("UPDATE dispatcher.api_keys SET last_used_at = last_used_at - interval '61 seconds'")
    await authentication.touch(database, found.id)
    assert await connection.fetchval(last) > noted


async def test_the_use_of_one_key_says_nothing_of_another(database: Database, connection: Connection) -> None:
    used, _ = await _made(database), await _made(database, "till")
    found = await authentication.find(database, used.prefix)
    assert found is not None
    await authentication.touch(database, found.id)
    noted = await connection.fetch("SELECT name FROM dispatcher.api_keys WHERE last_used_at IS NOT NULL")
    assert [row["name"] for row in noted] == ["shop"]


async def test_a_revoked_key_is_not_rotated_and_a_foreign_key_has_no_log(database: Database) -> None:
    await _made(database)
    assert await keys.revoke(database, ACME, "shop", by=WHO)
    assert await keys.rotate(database, ACME, "shop", 0, by=WHO) == "unknown"
    for elsewhere in (Workspace("acme", "other"), Workspace("other", "main")):
        assert await keys.actions(database, elsewhere, "shop", 10) == []


async def test_actions_on_keys_are_logged(database: Database) -> None:
    made = await _made(database)
    second = await keys.rotate(database, ACME, "shop", 0, by=("bob", "leaked"))
    assert isinstance(second, Bearer)
    await keys.revoke(database, ACME, "shop", by=("cleo", "left"))
    rows = [
        (row["action"], row["actor"], row["reason"], row["prefix"])
        for row in await keys.actions(database, ACME, "shop", 10)
    ]
    assert rows == [
        ("revoke", "cleo", "left", None),
        ("rotate", "bob", "leaked", second.prefix),
        ("create", "ann", "asked", made.prefix),
    ]


async def test_the_schema_knows_the_roles_of_the_program(connection: Connection) -> None:
    insert = "INSERT INTO dispatcher.api_keys (tenant_id, workspace_id, name, role) VALUES ('a', 'b', $1, $1)"
    for role in Role:
        await connection.execute(insert, role.value)
    with pytest.raises(asyncpg.CheckViolationError, match="api_keys_role_known"):
        await connection.execute(insert, "root")
