"""Schedules of a server."""

from msgspec import Raw, structs

from dispatcher.api import schedule_models as models
from dispatcher.client.errors import NotFound, Refused
from dispatcher.client.transport import segment
from dispatcher.doors.kept import Tick
from dispatcher.doors.nouns import Row, Whose
from dispatcher.doors.remote.calls import UNKNOWN, Calls, faults_of, rows
from dispatcher.errors import Fault, ScheduleRefused
from dispatcher.store.schedules import Asked

_PATH = "/schedules"


class _Whole(models.WholeSchedule, frozen=True, kw_only=True):
    """Its input as it was written."""

    input: Raw


class _Saved(models.SavedSchedule, frozen=True, kw_only=True):
    input: Raw


class RemoteSchedules:
    """Has expressions read by the server, which goes by its own clock."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def put(self, whose: Whose, asked: Asked, _actor: str) -> Row:
        """Save one."""
        await self._require(whose)
        body = {
            "workflow": asked.workflow,
            "cron": asked.cron,
            "time_zone": asked.time_zone,
            "input": Raw(asked.input.encode()),
        }
        try:
            saved = await self._calls.transport.ask("PUT", _of(asked.name), body=body)
        except Refused as refused:
            raise ScheduleRefused(faults_of(refused)) from refused
        except NotFound as refused:
            # What cannot be a name is the name of nothing.
            raise ScheduleRefused([Fault("$.name", refused.detail)]) from refused
        return structs.asdict(saved.read(_Saved))

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name."""
        await self._require(whose)
        query = {"after": after or None}
        return rows(await self._calls.pages(_PATH, models.Schedules, lambda page: page.schedules, count, query))

    async def show(self, whose: Whose, name: str) -> Row | None:
        """One, and what was done to it."""
        await self._require(whose)
        found = await self._calls.find(_of(name), _Whole)
        return None if found is None else structs.asdict(found) | {"actions": rows(found.actions)}

    async def activate(self, whose: Whose, name: str, _actor: str, *, skip_missed: bool) -> str:
        """Let it tick."""
        await self._require(whose)
        return await self._calls.act(f"{_of(name)}/activate", {"skip_missed": skip_missed})

    async def deactivate(self, whose: Whose, name: str, _actor: str) -> str:
        """Let it rest."""
        await self._require(whose)
        return await self._calls.act(f"{_of(name)}/deactivate", None)

    async def delete(self, whose: Whose, name: str, _actor: str) -> str:
        """Delete it."""
        await self._require(whose)
        try:
            return (await self._calls.transport.ask("DELETE", _of(name))).read(models.SwitchedSchedule).answer
        except NotFound:
            return UNKNOWN

    async def ticks(self, whose: Whose, name: str, count: int) -> list[Tick] | None:
        """When it ticks next."""
        await self._require(whose)
        found = await self._calls.find(f"{_of(name)}/ticks", models.Ticks, {"count": count})
        return None if found is None else [Tick(one.tick, one.local) for one in found.ticks]

    async def _require(self, whose: Whose) -> None:
        await self._calls.require(whose.tenant_id, whose.workspace_id)


def _of(name: str) -> str:
    return f"{_PATH}/{segment(name)}"
