"""Stored objects: files that messages carry."""

from collections.abc import Collection, Mapping
from typing import Any

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.object_cache import Name, Stored

_SQL = statements(__name__)


async def put(database: Database, name: Name, content: bytes, content_type: str) -> str:
    """Store a content; returns stored, same, restored, or taken (the name has another content)."""
    return str(await database.value(_SQL["put"], name[2], content, content_type, name[0], name[1]))


async def erase(database: Database, name: Name) -> str:
    """Erase a content; its name stays taken. Returns erased, erased before, or unknown."""
    return str(await database.value(_SQL["erase"], name[2], name[0], name[1]))


async def sizes(database: Database, names: Collection[Name]) -> Mapping[Name, int]:
    """Return the sizes of the objects that exist."""
    rows = await database.fetch(_SQL["sizes"], *_columns(names))
    return {(row["tenant_id"], row["workspace_id"], row["name"]): row["size"] for row in rows}


async def contents(database: Database, names: Collection[Name]) -> Mapping[Name, Stored]:
    """Return the contents of the objects that exist."""
    rows = await database.fetch(_SQL["contents"], *_columns(names))
    return {
        (row["tenant_id"], row["workspace_id"], row["name"]): Stored(row["content_type"], row["content"])
        for row in rows
    }


async def listed(database: Database, workspace: Workspace, after: str, count: int) -> list[dict[str, Any]]:
    """Return objects of a workspace after a name, in the order of names, without contents."""
    rows = await database.fetch(_SQL["list"], workspace.tenant_id, workspace.workspace_id, after, count)
    return [dict(row) for row in rows]


async def show(database: Database, name: Name) -> dict[str, Any] | None:
    """Return an object without its content, or None."""
    rows = await database.fetch(_SQL["show"], *name)
    return dict(rows[0]) if rows else None


def _columns(names: Collection[Name]) -> tuple[list[str], list[str], list[str]]:
    return [name[0] for name in names], [name[1] for name in names], [name[2] for name in names]
