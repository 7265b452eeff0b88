"""Workflows of a server."""

from collections.abc import Sequence

import msgspec

from dispatcher.api import run_models
from dispatcher.client.errors import Conflict, Forbidden, NotFound, Refused
from dispatcher.client.transport import segment
from dispatcher.doors.nouns import Compared, Definition, Row, Step, Stored, Version, Whose
from dispatcher.doors.remote.calls import UNKNOWN, Calls, faults_of, rows
from dispatcher.errors import WorkflowRefused
from dispatcher.store.workflows import Saved

_PATH = "/workflows"
# As many as are looked through for a name that was meant.
NAMES_MAX = 10_000


class RemoteWorkflows:
    """Sends definitions as they are: the server compiles them under its own configuration."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def put(
        self, whose: Whose, definitions: Sequence[Definition], _actor: str, *, activate: bool
    ) -> dict[str, Saved]:
        """Save all of them, or none."""
        await self._calls.require(whose.tenant_id, whose.workspace_id)
        body = {"workflows": definitions, "activate": activate}
        try:
            saved = await self._calls.post(_PATH, body, run_models.SavedWorkflows)
        except Refused as refused:
            raise WorkflowRefused(faults_of(refused)) from refused
        return {one.name: Saved(one.version, one.created, one.active) for one in saved.workflows}

    async def compare(self, whose: Whose, definitions: Sequence[Definition]) -> list[Compared]:
        """What would become of each."""
        await self._calls.require(whose.tenant_id, whose.workspace_id)
        body = {"workflows": definitions}
        found = await self._calls.post("/workflow-comparison", body, run_models.ComparedWorkflows)
        return [_compared(one) for one in found.workflows]

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name."""
        await self._calls.require(whose.tenant_id, whose.workspace_id)
        query = {"after": after or None}
        return rows(await self._calls.pages(_PATH, run_models.Workflows, lambda page: page.workflows, count, query))

    async def names(self, whose: Whose) -> list[str]:
        """The names of those that the key may see."""
        try:
            return [row["name"] for row in await self.listed(whose, "", NAMES_MAX)]
        except Forbidden:
            return []

    async def show(self, whose: Whose, name: str, number: int | None) -> Version | None:
        """A version."""
        await self._calls.require(whose.tenant_id, whose.workspace_id)
        found = await self._calls.find(f"{_PATH}/{segment(name)}", run_models.WholeWorkflow, {"version": number})
        if found is None:
            return None
        shown = msgspec.structs.asdict(found)
        made = {
            "number": shown.pop("version"),
            "steps": [Step(one.step, one.node, one.what) for one in found.steps],
            "versions": rows(found.versions),
            "actions": rows(found.actions),
        }
        del shown["newest_run"]
        return Version(**shown | made)

    async def set_active(self, whose: Whose, name: str, active: bool, _actor: str) -> str:
        """Let it take triggers, or none."""
        await self._calls.require(whose.tenant_id, whose.workspace_id)
        return await self._calls.act(f"{_PATH}/{segment(name)}/{'activate' if active else 'deactivate'}", None)

    async def delete(self, whose: Whose, name: str, _actor: str) -> str:
        """Delete it."""
        await self._calls.require(whose.tenant_id, whose.workspace_id)
        try:
            return (await self._calls.transport.ask("DELETE", f"{_PATH}/{segment(name)}")).read(_Answer).answer
        except NotFound:
            return UNKNOWN
        except Conflict as refused:
            return refused.answer


class _Answer(msgspec.Struct, frozen=True):
    answer: str


def _compared(one: run_models.ComparedWorkflow) -> Compared:
    stored = one.stored
    return Compared(
        name=one.name or "",
        total_steps=one.total_steps,
        stored=None if stored is None else Stored(stored.version, stored.active, stored.definition),
        same=one.same,
        faults=one.faults,
    )
