"""Connections to a schema of another name: what they run is written for `dispatcher` and rendered for that one."""

from typing import Any

import asyncpg

from dispatcher.base.schema_name import NAME, SCHEMA, render

_RUN_SQL = ("execute", "executemany", "prepare", "fetch", "fetchrow", "fetchval", "cursor")


def _rendered(name: str) -> Any:  # noqa: ANN401 - a method of asyncpg's
    method = getattr(asyncpg.Connection, name)

    def run(self: object, query: str, *arguments: object, **more: object) -> Any:  # noqa: ANN401 - as it
        return method(self, render(query), *arguments, **more)

    return run


_renaming = type("Renaming", (asyncpg.Connection,), {name: _rendered(name) for name in _RUN_SQL})
CONNECTION: type["asyncpg.Connection[asyncpg.Record]"] = asyncpg.Connection if SCHEMA == NAME else _renaming
