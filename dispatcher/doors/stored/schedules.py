"""Schedules of a database."""

from itertools import islice

from dispatcher.domain.cron import Cron
from dispatcher.doors.kept import Tick
from dispatcher.doors.nouns import Row, Whose
from dispatcher.store import schedules as store
from dispatcher.store.database import Database
from dispatcher.store.schedules import Asked

ACTIONS_SHOWN = 20


class StoredSchedules:
    """Reads expressions here, and goes by the database's clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, whose: Whose, asked: Asked, actor: str) -> Row:
        """Save one."""
        answer = await store.put(self._database, whose.workspace, asked, actor)
        found = await store.show(self._database, whose.workspace, asked.name)
        fault = await store.fault(self._database, whose.workspace, asked.name)
        return {"answer": answer, "would_be_refused": fault} | (found or {})

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name."""
        return await store.listed(self._database, whose.workspace, after, count)

    async def show(self, whose: Whose, name: str) -> Row | None:
        """One, and what was done to it."""
        found = await store.show(self._database, whose.workspace, name)
        if found is None:
            return None
        fault = await store.fault(self._database, whose.workspace, name)
        actions = await store.actions(self._database, found["id"], ACTIONS_SHOWN)
        return found | {"would_be_refused": fault, "actions": actions}

    async def activate(self, whose: Whose, name: str, actor: str, *, skip_missed: bool) -> str:
        """Let it tick."""
        return await store.activate(self._database, whose.workspace, name, actor, skip_missed=skip_missed)

    async def deactivate(self, whose: Whose, name: str, actor: str) -> str:
        """Let it rest."""
        return await store.deactivate(self._database, whose.workspace, name, actor)

    async def delete(self, whose: Whose, name: str, actor: str) -> str:
        """Delete it."""
        return await store.delete(self._database, whose.workspace, name, actor)

    async def ticks(self, whose: Whose, name: str, count: int) -> list[Tick] | None:
        """When it ticks next."""
        found = await store.show(self._database, whose.workspace, name)
        if found is None:
            return None
        cron = Cron(found["cron"], found["time_zone"])
        now = await store.now(self._database)
        return [Tick(tick, cron.local(tick)) for tick in islice(cron.ticks(now), count)]
