"""Databases: each test has one of its own, a copy of a template."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import psycopg

from tests.support.folders import in_memory

TEMPLATE = "dispatcher_template"


def named(url: str, name: str) -> str:
    """The URL of another database of a server, made from that of its first one."""
    return url.replace("/postgres?", f"/{name}?", 1)


def name_of(url: str) -> str:
    """The name of the database that a URL leads to."""
    return urlsplit(url).path.removeprefix("/")


@asynccontextmanager
async def new_database(server: str, template: str) -> AsyncIterator[str]:
    """A database of its own. On a disk its copy is logged, and it is never dropped, to spare checkpoints, which cost
    three times as much there; in memory they cost nothing, but room does.
    """
    name = f"test_{uuid4().hex[:12]}"
    strategy = " STRATEGY file_copy" if in_memory() else ""
    _maker(server).execute(f"CREATE DATABASE {name} TEMPLATE {template}{strategy}".encode())
    yield named(server, name)
    if in_memory():
        _maker(server).execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


@cache
def _maker(server: str) -> "psycopg.Connection[tuple[object, ...]]":
    """A connection for all databases of a server: one for each statement cost a sixth of what the statement does. Its
    calls block, so that it belongs to no loop."""
    return psycopg.connect(server, autocommit=True)


async def as_admin(server: str, statement: str) -> None:
    """Execute a statement on a server's first database."""
    admin = await asyncpg.connect(server)
    try:
        await admin.execute(statement)
    finally:
        await admin.close()
