"""Workflows of a database."""

from collections.abc import Callable, Sequence

import msgspec

from dispatcher.config import Config
from dispatcher.domain.plans.definition import Known, compile_definition
from dispatcher.domain.plans.drawing import drawing
from dispatcher.domain.plans.mermaid import mermaid
from dispatcher.doors.nouns import Compared, Definition, Row, Stored, Version, Whose
from dispatcher.doors.stored.runs import steps
from dispatcher.errors import Fault, WorkflowRefused
from dispatcher.store import workflows as store
from dispatcher.store.database import Database
from dispatcher.store.workflows import New, Saved

VERSIONS_SHOWN = 20


class StoredWorkflows:
    """Compiles definitions under our own configuration."""

    def __init__(self, database: Database, config: Callable[[], Config]) -> None:
        self._database = database
        self._config = config

    async def put(
        self, whose: Whose, definitions: Sequence[Definition], actor: str, *, activate: bool
    ) -> dict[str, Saved]:
        """Save all of them, or none."""
        made = self._compiled(definitions)
        faults = [fault for one in made if not isinstance(one, New) for fault in one]
        if faults:
            raise WorkflowRefused(faults)
        new = [one for one in made if isinstance(one, New)]
        return await store.put(self._database, whose.workspace, new, actor, activate=activate)

    async def compare(self, whose: Whose, definitions: Sequence[Definition]) -> list[Compared]:
        """What would become of each."""
        made = self._compiled(definitions)
        found = await store.compare(self._database, whose.workspace, [one for one in made if isinstance(one, New)])
        return [_compared(one, found) for one in made]

    def _compiled(self, definitions: Sequence[Definition]) -> list[New | list[Fault]]:
        there = known(self._config())
        made: list[New | list[Fault]] = []
        for one in definitions:
            plan = compile_definition(one, there)
            made.append(plan if isinstance(plan, list) else New(dict(one), plan))
        return made

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name."""
        return await store.listed(self._database, whose.workspace, after, count)

    async def names(self, whose: Whose) -> list[str]:
        """The names of all."""
        return await store.names(self._database, whose.workspace)

    async def show(self, whose: Whose, name: str, number: int | None) -> Version | None:
        """A version."""
        found = await store.find(self._database, whose.workspace, name, number)
        if found is None:
            return None
        return Version(
            name=found.name,
            number=found.number,
            latest=found.latest,
            active=found.active,
            total_steps=found.total_steps,
            required_fields=found.required_fields,
            reads=[one.path for one in found.reads],
            templates=msgspec.to_builtins(found.templates),
            author=found.author,
            created_at=found.created_at,
            definition=found.definition,
            graph=drawing(found.plan),
            mermaid=mermaid(found.plan),
            steps=steps(found.plan),
            versions=await store.versions(self._database, found.id, VERSIONS_SHOWN),
            actions=await store.actions(self._database, found.id, VERSIONS_SHOWN),
        )

    async def set_active(self, whose: Whose, name: str, active: bool, actor: str) -> str:
        """Let it take triggers, or none."""
        return await store.set_active(self._database, whose.workspace, name, active, actor)

    async def delete(self, whose: Whose, name: str, actor: str) -> str:
        """Delete it."""
        return await store.delete(self._database, whose.workspace, name, actor)


def known(config: Config) -> Known:
    """The channels and functions that definitions can name."""
    return Known(config.channels, config.functions)


def _compared(one: New | list[Fault], found: dict[str, store.Compared]) -> Compared:
    if not isinstance(one, New):
        return Compared(faults=one)
    stored = found.get(one.name)
    return Compared(
        name=one.name,
        total_steps=len(one.plan.nodes),
        stored=None if stored is None else Stored(stored.number, stored.active, stored.definition),
        same=stored is not None and stored.same,
    )
