"""The mover: hands one tenant over from one cell to another, and goes on wherever it was cut off.

Nothing is sent twice since one cell closes its doors for good (`elsewhere`) before the other opens them, and since what
is copied is one snapshot in which nothing is ready, claimed or marked. Nothing is lost since everything that is not
finished, and the opening, are one transaction of the target, in which both sides are compared.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct, field

from dispatcher.base import fault_points
from dispatcher.base.errors import Fault, MoveInterrupted, MoveRefused
from dispatcher.db.database import PASSING
from dispatcher.db.statements import statements
from dispatcher.features.cells.moving import cleaning, late, plan, standing_still
from dispatcher.features.cells.moving.cell_connections import AS_THEY_ARE, Cell, lock
from dispatcher.features.cells.moving.moves import Result
from dispatcher.features.cells.moving.rows.copying import Change, apply, change_of
from dispatcher.features.cells.moving.rows.digests import NO_ROWS, Connection, Digests, Part, Side, different
from dispatcher.features.cells.moving.rows.tables import FAMILIES, PAGE_BITS, Family, Table, tables
from dispatcher.features.cells.moving.standing_still import Wait

_SQL = statements("dispatcher.features.cells.moving.moves")

# Statistics from before a mover died, or before other moves, would have whole tables read for each row of another.
_ANALYZE = "ANALYZE " + ", ".join(table.full_name for family in FAMILIES if family.early for table in family.tables)
# What the last round of early copying may leave to the time in which the tenant stands still: a second of it.
EARLY_ENOUGH = 20_000
ROUNDS_MAX = 5


class Mover(Struct):
    """A move at work."""

    source: Cell
    target: Cell
    tenant: str
    tell: Callable[[str], None]
    # Of the directory: what it says is followed by what we say.
    version: int = 0
    id: int = 0
    phase: str = "copying"
    # The target's digests after the last round of early copying: nobody else writes there.
    there: dict[str, Digests] = field(default_factory=dict)

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.source.side(self.tenant, is_source=True), self.target.side(self.tenant, is_source=False)

    async def open(self, actor: str, reason: str) -> None:
        """Begin the move, or find how far it has come. Raises MoveRefused."""
        await self._lock()
        known = await self._find()
        await plan.require_possible(self.source, self.target, self.tenant, is_new=known is None)
        if known is None:
            await self._require_here()
            known = await self.source.control.fetchrow(_SQL["begin"], self.tenant, self.target.number, actor, reason)
        self.id, self.phase = known["id"], known["phase"]
        await self.target.data.execute(AS_THEY_ARE)
        for cell in (self.source, self.target):
            await cell.control.execute(_ANALYZE)

    async def _lock(self) -> None:
        """Keep other movers away."""
        for cell in (self.source, self.target):
            await lock(cell, self.tenant)

    async def run(self) -> Result:
        """Do what is missing, and return what has become of it. An error leaves the tenant where it works."""
        if self.phase == "cancelling":
            raise MoveRefused([Fault("--to", "the move is being cancelled: finish that with --cancel")])
        try:
            if self.phase == "copying":
                await self._copy_early()
            if self.phase in ("copying", "stopped"):
                await self._stop()
            if self.phase in ("stopped", "switching"):
                await self._hand_over()
            await self._clean()
        except Exception as trouble:
            with suppress(*PASSING, asyncpg.InterfaceError):
                await self._interrupted(trouble)
            raise
        return await self.result()

    async def cancel(self) -> Result:
        """Open the doors of the source again, and delete what was copied. Raises MoveRefused when it is too late."""
        await self._lock()
        known = await self._find()
        if known is None:
            raise MoveRefused([Fault("--cancel", f"tenant {self.tenant} is not being moved: there is nothing to undo")])
        self.id, self.phase = known["id"], known["phase"]
        if self.phase not in ("copying", "stopped", "cancelling") or await self._is_open():
            words = f"the tenant is in cell {self.target.number} already: move it back instead"
            raise MoveRefused([Fault("--cancel", words)])
        await self._reopen()
        await self._enter("cancelling")
        await self._place(self.target, self.source, "elsewhere")
        await cleaning.delete_all(self.target, self.tenant, self.tell)
        await self._enter("cancelled")
        return await self.result()

    async def _interrupted(self, trouble: Exception) -> None:
        """Note why; a tenant that could not be handed over works again where it was."""
        if isinstance(trouble, MoveInterrupted) and self.phase == "stopped":
            await self._reopen()
            await self._enter("copying")
        await self.source.control.execute(_SQL["interrupted"], self.id, str(trouble))

    async def result(self) -> Result:
        """Return what has become of the move."""
        (row,) = await self.source.control.fetch(_SQL["result"], self.id)
        rows = msgspec.json.decode(row["rows"], type=dict[str, int])
        return Result(
            tenant_id=self.tenant,
            source=self.source.number,
            target=self.target.number,
            phase=row["phase"],
            rows=sum(rows.values()),
            version=(await self._placement(self.target))["version"],
            still_seconds=row["still_seconds"],
        )

    async def _copy_early(self) -> None:
        """Copy what does not change any more, while the tenant works, until little is left."""
        await self._place(self.target, self.target, "arriving")
        early = [family for family in FAMILIES if family.early]
        for number in range(1, ROUNDS_MAX + 1):
            copied = sum([await self._copy_family(family) for family in early])
            self.tell(f"copied {copied:,} rows while the tenant works (round {number})")
            if await self._left(early) <= EARLY_ENOUGH:
                break

    async def _left(self, families: Sequence[Family]) -> int:
        """Return about how many rows have come to their end since they were copied."""
        left = 0
        for table in (family.tables[0] for family in families):
            there = sum(digest.rows for digest in self.there[table.name].values())
            left += abs(await self.sides[0].count(table, only_done=True) - there)
        return left

    async def _copy_family(self, family: Family) -> int:
        """Copy the pages of a family that differ, each in a transaction of its own. Returns the number of rows."""
        source, target = self.sides
        async with self._snapshot():
            wanted = {table.name: await source.digests(table) for table in family.tables}
        there = {table.name: self.there.get(table.name) or await target.digests(table) for table in family.tables}
        parts = sorted({one for name in there for one in different(wanted[name], there[name]) if one[1]})
        copied = 0
        for part in parts:
            async with self._snapshot(), self.target.data.transaction():
                changes = [
                    await change_of(source, target, table, part, wanted[table.name], there[table.name])
                    for table in family.tables
                ]
                copied += sum((await apply(source, target, changes)).values())
            if fault_points.ARMED:
                fault_points.passing("move.page")
        self.there |= {table.name: await target.digests(table) for table in family.tables}
        return copied

    async def _stop(self) -> None:
        """Shut the doors of the source, and wait for what began before."""
        await self._enter("stopped")
        await self._place(self.source, self.target, "leaving")
        if fault_points.ARMED:
            fault_points.passing("move.stopped")
        self.tell("the tenant stands still")

    async def _hand_over(self) -> None:
        """Copy the rest, close the source for good, and open the target: once nothing of the tenant can move."""
        if not await self._is_open():
            wait = Wait.begin(self.tell)
            while not await self._handed_over(wait):
                await wait.step(["deliveries are being claimed"])
        # Once more where a fail-over of the source has forgotten it.
        await self._place(self.source, self.target, "elsewhere")
        await self._enter("cleaning")
        self.tell(f"the tenant works in cell {self.target.number}")

    async def _handed_over(self, wait: Wait) -> bool:
        """Hand over what one snapshot of the source has; False where something could be sent yet."""
        await self._come_to_rest(wait)
        if await self.source.control.fetchval(_SQL["has_erased"], self.tenant):
            await self.target.control.execute(_SQL["keep_erased_keys"])
        async with self._snapshot():
            if not await standing_still.is_settled(self.source.data, self.tenant):
                return False
            async with self.target.data.transaction():
                rows = await self._copy_rest()
                await self._close(rows)
                await self._place(self.target, self.target, "here", self.target.data)
                await self.target.data.execute(_SQL["wake"])
        if fault_points.ARMED:
            fault_points.passing("move.opened")
        return True

    async def _come_to_rest(self, wait: Wait) -> None:
        """Wait until nothing of the tenant can be written, and dispatchers have nothing of it."""
        await standing_still.await_older(self.source.control, wait, self.source.processes())
        pause = (await self._placement(self.source))["pause_id"]
        await standing_still.drain(self.source.control, wait, self.tenant, pause)
        if fault_points.ARMED:
            fault_points.passing("move.drained")

    async def _copy_rest(self) -> dict[str, int]:
        """Copy whatever differs, and compare; return how many rows there are, by table. Raises MoveInterrupted."""
        source, target = self.sides
        wanted = {table.name: await source.digests(table) for table in tables()}
        there = {table.name: self.there.get(table.name) or await target.digests(table) for table in tables()}
        changes = [
            await change_of(source, target, table, part, wanted[table.name], there[table.name])
            for table in tables()
            for part in different(wanted[table.name], there[table.name])
        ]
        copied = sum((await apply(source, target, changes)).values())
        await verify(target, wanted, changes)
        if fault_points.ARMED:
            fault_points.passing("move.verified")
        self.tell(f"copied the other {copied:,} rows, and both sides are equal")
        counts = {name: sum(digest.rows for digest in parts.values()) for name, parts in wanted.items()}
        return {name: rows for name, rows in counts.items() if rows}

    async def _close(self, rows: Mapping[str, int]) -> None:
        """Close the source for good: from now on only the target may open its doors."""
        async with self.source.control.transaction():
            await self._place(self.source, self.target, "elsewhere")
            await self._enter("switching", rows)
        if fault_points.ARMED:
            fault_points.passing("move.closed")

    async def _reopen(self) -> None:
        """Open the doors of the source again."""
        await self._place(self.source, self.source, "here")
        self.tell(f"the tenant works in cell {self.source.number}")

    async def _clean(self) -> None:
        """Bring over what came late, and delete what the tenant had in the source."""
        await late.bring(self.source, self.target, self.tenant, self.id)
        await cleaning.delete_all(self.source, self.tenant, self.tell)
        await self._enter("done")

    async def _enter(self, phase: str, rows: Mapping[str, int] | None = None) -> None:
        await self.source.control.execute(
            _SQL["enter"], self.id, phase, None if rows is None else msgspec.json.encode(rows).decode()
        )
        self.phase = phase

    async def _find(self) -> Any:  # noqa: ANN401 - a record
        """Return the move of the tenant that is not finished, or None. Raises MoveRefused where it goes elsewhere."""
        known = await self.source.control.fetchrow(_SQL["find"], self.tenant)
        if known is not None and known["target"] != self.target.number:
            words = f"the tenant is on its way to cell {known['target']}: finish that move, or cancel it"
            raise MoveRefused([Fault("--to", words)])
        return known

    async def _is_open(self) -> bool:
        """Whether the tenant works in the target."""
        return bool((await self._placement(self.target))["state"] == "here")

    async def _placement(self, cell: Cell) -> Any:  # noqa: ANN401 - a record
        return await cell.control.fetchrow(_SQL["placement"], self.tenant)

    async def _require_here(self) -> None:
        state = (await self._placement(self.source))["state"]
        if state != "here":
            raise MoveRefused(
                [Fault("tenant", f"{self.tenant!r} is not at home in cell {self.source.number}: it is {state}")]
            )

    async def _place(self, cell: Cell, at: Cell, state: str, connection: "Connection | None" = None) -> None:
        """Place the tenant in a cell, unless it is placed so, by a version that follows those of both cells."""
        placements = [await self._placement(one) for one in (self.source, self.target)]
        known = await self._placement(cell)
        if known["placed"] and known["state"] == state:
            return
        self.version = max(self.version, *(one["version"] for one in placements)) + 1
        await (connection or cell.control).execute(
            _SQL["place"], self.tenant, at.number, at.place.url, state, self.version
        )

    def _snapshot(self) -> AbstractAsyncContextManager[object]:
        """Look at the source as it is now."""
        return self.source.data.transaction(isolation="repeatable_read", readonly=True)


async def verify(target: Side, wanted: Mapping[str, Digests], changes: Sequence[Change]) -> None:
    """Compare what has changed on the target with the source. Raises MoveInterrupted."""
    changed: dict[str, list[Change]] = {}
    for change in changes:
        changed.setdefault(change.table.name, []).append(change)
    faults = []
    for name, those in changed.items():
        pages = {change.part[0] for change in those}
        found = await target.digests(those[0].table, pages)
        expected = {part: digest for part, digest in wanted[name].items() if min(pages) <= part[0] <= max(pages)}
        faults += [_difference(those[0].table, part, expected, found) for part in different(expected, found)]
    if faults:
        raise MoveInterrupted(f"the target differs from the source, so the tenant stays: {'; '.join(faults)}")


def _difference(table: Table, part: Part, wanted: Digests, found: Digests) -> str:
    ids = f" with {table.lead} from {part[0] << PAGE_BITS} on" if table.lead else ""
    ours, theirs = (one.get(part, NO_ROWS).rows for one in (wanted, found))
    return f"{table.full_name}: {ours} rows{ids} in the source, {theirs} in the target" + (
        ", of which some have other values" if ours == theirs else ""
    )
