"""Stored objects: files that messages carry. A name means one content, for ever."""

from collections.abc import Collection, Mapping
from typing import Any

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.object_cache import Name, Stored

_SQL = statements(__name__)


async def put(database: Database, name: Name, content: bytes, content_type: str) -> str:
    """Put a content under a name; answers stored, same, restored, or taken (the name means another content)."""
    return str(await database.value(_SQL["put"], name[2], content, content_type, name[0], name[1]))


async def erase(database: Database, name: Name) -> str:
    """Erase a content, its name stays taken; answers erased, erased before, or unknown."""
    return str(await database.value(_SQL["erase"], name[2], name[0], name[1]))


async def sizes(database: Database, names: Collection[Name]) -> Mapping[Name, int]:
    """The sizes of those that are there."""
    rows = await database.fetch(_SQL["sizes"], *_columns(names))
    return {(row["tenant_id"], row["workspace_id"], row["name"]): row["size"] for row in rows}


async def contents(database: Database, names: Collection[Name]) -> Mapping[Name, Stored]:
    """Those that are there, with what they hold."""
    rows = await database.fetch(_SQL["contents"], *_columns(names))
    return {
        (row["tenant_id"], row["workspace_id"], row["name"]): Stored(row["content_type"], row["content"])
        for row in rows
    }


async def listed(
    database: Database, tenant_id: str, workspace_id: str, behind: str, count: int
) -> list[dict[str, Any]]:
    """Some of a workspace, by name, without their contents."""
    return [dict(row) for row in await database.fetch(_SQL["list"], tenant_id, workspace_id, behind, count)]


async def show(database: Database, name: Name) -> dict[str, Any] | None:
    """One without its content."""
    rows = await database.fetch(_SQL["show"], *name)
    return dict(rows[0]) if rows else None


def _columns(names: Collection[Name]) -> tuple[list[str], list[str], list[str]]:
    return [name[0] for name in names], [name[1] for name in names], [name[2] for name in names]
