"""The console inside the test's process, and what its pages read: by the plans of statements and Postgres's counts."""

import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import httpx
from litestar import Litestar
from msgspec import Struct, field

from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Api, Channel, Config
from dispatcher.config.settings import Database as Settings
from dispatcher.console import sessions
from dispatcher.console.routes import Console
from dispatcher.db import database as databases
from dispatcher.db.database import SESSION, Database
from dispatcher.db.renaming import CONNECTION
from dispatcher.endpoints import ENDPOINTS
from dispatcher.engine.store import backlog
from dispatcher.features.keys import store as keys
from dispatcher.features.overview.worker import Sampler
from dispatcher.features.runs.trigger_batches import TriggerBatches
from dispatcher.http.roles import Role
from dispatcher.http.server.routes import ApiRoutes
from dispatcher.http.server.scopes import corrected

CHANNELS = ("email", "push", "sms", "whatsapp")
# What this transaction has read so far: by no index, and by one.
_READ = """
    SELECT relname, seq_scan, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
      FROM pg_stat_xact_user_tables WHERE schemaname = 'dispatcher'
"""
_EXPLAIN = "EXPLAIN (ANALYZE, FORMAT JSON, TIMING off, SUMMARY off) "
_READING = ("SELECT", "WITH")


_CONNECTION: Any = CONNECTION


class Asked(Struct):
    """A statement of a page: the rows that it read of each table, what it scanned whole, and the nodes of its plan."""

    query: str
    seconds: float
    read: dict[str, int]
    scanned: set[str]
    nodes: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def without_index(self) -> set[str]:
        """The tables that were read without an index."""
        return self.scanned | {table for kind, table, _ in self.nodes if kind == "Seq Scan"}


class Watched(_CONNECTION):  # type: ignore[misc]  # a class that is chosen when it is imported
    """A connection that notes what each statement has read, in a transaction of its own where it is in none."""

    asked: ClassVar[list[Asked]] = []
    is_watching = False
    explains = True

    async def fetch(self, query: str, *arguments: Any, **more: Any) -> Any:
        if not Watched.is_watching:
            return await super().fetch(query, *arguments, **more)
        if self.is_in_transaction():
            return await self._watched(query, *arguments)
        async with self.transaction():
            return await self._watched(query, *arguments)

    async def _watched(self, query: str, *arguments: Any) -> Any:
        before = {name: counts for name, *counts in await super().fetch(_READ)}
        begun = time.perf_counter()
        rows = await super().fetch(query, *arguments)
        seconds = time.perf_counter() - begun
        made = Asked(query, seconds, {}, set())
        for name, *counts in await super().fetch(_READ):
            scans, read = (now - was for now, was in zip(counts, before.get(name, (0, 0)), strict=True))
            if read:
                made.read[name] = read
            if scans:
                made.scanned.add(name)
        if self.explains and query.lstrip().startswith(_READING):
            [[told]] = await super().fetch(_EXPLAIN + query, *arguments)
            made.nodes = list(_nodes(json.loads(told)[0]["Plan"]))
        Watched.asked.append(made)
        return rows


def _nodes(plan: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Each node that reads a table: its kind, the table, and the rows that it went through."""
    if table := plan.get("Relation Name"):
        each = plan["Actual Rows"] + sum(plan.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck"))
        yield plan["Node Type"], table, round(each * plan["Actual Loops"])
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


class Inside:
    """A console with a visitor who is signed in."""

    def __init__(self, client: httpx.AsyncClient, cookie: str) -> None:
        self._client = client
        self._cookie = {"cookie": f"{sessions.COOKIE}={cookie}"}

    async def open(self, path: str) -> tuple[int, str]:
        """Open a page below /console; answers its status and what it says."""
        answer = await self._client.get("/console" + path, headers=self._cookie)
        return answer.status_code, answer.text

    async def statements(self, path: str) -> list[Asked]:
        """What a page asks the database."""
        Watched.asked, Watched.is_watching = [], True
        try:
            status, text = await self.open(path)
        finally:
            Watched.is_watching = False
        assert status in (200, 303), (path, status, text)
        return Watched.asked


@asynccontextmanager
async def inside(url: str, patch: Any) -> AsyncIterator[Inside]:
    """A console on a database, whose statements are watched; `patch` is undone afterwards."""
    patch.setattr(databases, "CONNECTION", Watched)
    config = Config(channels=dict.fromkeys(CHANNELS, Channel(provider="capture")), api=Api(operators="default/default"))
    session = SESSION | {"plan_cache_mode": "force_generic_plan"}
    async with Database(Settings(pool_max=2), url, session) as database:
        api = ApiRoutes(
            ENDPOINTS,
            lambda: config,
            lambda: database,
            backlog.ages,
            TriggerBatches(lambda: database).start,
            system=Sampler(lambda: database, lambda: config).system,
        )
        made = await keys.create(database, Workspace(), "inside", Role.SYSTEM_ADMIN, None, by=("test", "test"))
        assert made is not None
        console = Console(api.serving, lambda: config)
        routes = Litestar(console.handlers(), openapi_config=None, logging_config=None)
        application: Any = corrected(routes)
        transport = httpx.ASGITransport(application, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://console.example") as client:
            answer = await client.get(console.sign_in.link(made))
            yield Inside(client, answer.cookies[sessions.COOKIE])
