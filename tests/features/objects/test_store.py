"""Stored objects: a name means one content, for ever, whichever way it is written."""

import asyncpg
import pytest

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.engine.rules.object_cache import Stored
from dispatcher.features.objects import store as objects
from tests.support.scene import Connection

NAME = ("default", "default", "invoices/17.pdf")
OTHERS = [("other", "default", NAME[2]), ("default", "other", NAME[2])]


async def test_a_content_is_found_by_its_tenant_workspace_and_name(database: Database) -> None:
    assert await objects.put(database, NAME, b"one", "application/pdf") == "stored"
    for other in OTHERS:
        assert await objects.sizes(database, [other]) == {}
        assert await objects.put(database, other, b"other", "application/pdf") == "stored"
    assert await objects.sizes(database, [NAME, ("default", "default", "x")]) == {NAME: 3}
    assert await objects.contents(database, [NAME]) == {NAME: Stored("application/pdf", b"one")}
    found = await objects.show(database, NAME)
    assert found is not None
    assert (found["size"], found["content_type"], found["erased_at"]) == (3, "application/pdf", None)
    assert found["sha256"] == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"


async def test_a_name_means_one_content(database: Database) -> None:
    await objects.put(database, NAME, b"one", "application/pdf")
    assert await objects.put(database, NAME, b"one", "application/pdf") == "same"
    assert await objects.put(database, NAME, b"two", "application/pdf") == "taken"
    assert await objects.put(database, NAME, b"one", "image/png") == "taken"
    assert (await objects.contents(database, [NAME]))[NAME].content == b"one"


async def test_an_erased_object_is_restored_with_equal_content_only(database: Database) -> None:
    assert await objects.erase(database, NAME) == "unknown"
    await objects.put(database, NAME, b"one", "application/pdf")
    assert await objects.erase(database, NAME) == "erased"
    assert await objects.erase(database, NAME) == "erased before"
    assert await objects.contents(database, [NAME]) == {}
    assert await objects.sizes(database, [NAME]) == {}
    assert await objects.put(database, NAME, b"two", "application/pdf") == "taken"
    assert await objects.put(database, NAME, b"one", "application/pdf") == "restored"
    assert (await objects.contents(database, [NAME]))[NAME].content == b"one"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE dispatcher.objects SET content = 'two'",
        "UPDATE dispatcher.objects SET name = 'b'",
        "UPDATE dispatcher.objects SET content_type = 'a/b'",
        "UPDATE dispatcher.objects SET sha256 = 'x'",
        "DELETE FROM dispatcher.objects",
    ],
)
async def test_nothing_else_happens_to_an_object(database: Database, connection: Connection, change: str) -> None:
    await objects.put(database, NAME, b"one", "application/pdf")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="immutable"):
        await connection.execute(change)


async def test_an_application_inserts_one_itself(database: Database, connection: Connection) -> None:
    insert = "INSERT INTO dispatcher.objects (name, content) VALUES ('a', 'one')"
    await connection.execute(insert)
    assert await objects.contents(database, [("default", "default", "a")]) == {
        ("default", "default", "a"): Stored("application/octet-stream", b"one")
    }
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute(insert)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("name", "''"),
        ("name", "'a b'"),
        ("name", "E'a\\nb'"),
        ("name", "repeat('a', 201)"),
        ("content_type", "'pdf'"),
        ("content_type", "E'a/b\\r\\nX: y'"),
        ("content", "decode(repeat('00', 16777217), 'hex')"),
        ("content", "NULL"),
        ("tenant_id", "''"),
    ],
)
async def test_invalid_objects_are_refused(connection: Connection, column: str, value: str) -> None:
    columns = {"tenant_id": "'t'", "name": "'a'", "content_type": "'a/b'", "content": "'one'"} | {column: value}
    with pytest.raises((asyncpg.CheckViolationError, asyncpg.NotNullViolationError)):
        await connection.execute(
            f"INSERT INTO dispatcher.objects ({', '.join(columns)}) VALUES ({', '.join(columns.values())})"
        )


async def test_they_are_listed_by_name_a_page_at_a_time(database: Database) -> None:
    for text in ("b", "a", "c"):
        await objects.put(database, ("default", "default", text), b"", "a/b")
    first = await objects.listed(database, Workspace(), "", 2)
    assert [row["name"] for row in first] == ["a", "b"]
    assert [row["name"] for row in await objects.listed(database, Workspace(), "b", 2)] == ["c"]
