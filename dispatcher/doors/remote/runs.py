"""Runs of a server."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Raw, Struct

from dispatcher.api import run_models
from dispatcher.client.errors import ClientError, Conflict, NotFound, Refused
from dispatcher.client.transport import segment
from dispatcher.domain.plans.planned import Planned
from dispatcher.domain.plans.run import Visit
from dispatcher.doors.nouns import Begin, Row, Step
from dispatcher.doors.remote.calls import Calls, faults_of, rows
from dispatcher.errors import AssumptionRefused, TriggerRefused
from dispatcher.store.runs import ENTRIES_MAX, Filter, Progress, Triggered, Verb

# What the rows of runs are called by those who ask a database.
_NAMES = {"execution_id": "id", "workflow_name": "workflow", "retry_count": "retries", "error_step": "error_node"}


class _Entry(run_models.Entry, frozen=True, kw_only=True):
    """A line whose JSON is as it was written."""

    context: Raw = Raw()
    added: Raw = Raw()


class _Log(Struct, frozen=True):
    entries: list[_Entry]
    next_cursor: str | None


class _Whole(run_models.WholeRun, frozen=True, kw_only=True):
    input: Raw
    context: Raw
    steps: list[Step]  # type: ignore[assignment]  # with the same fields
    cursor: dict[str, Visit]  # type: ignore[assignment]  # with the same fields


class _Progress(run_models.Progress, frozen=True, kw_only=True):
    cursor: dict[str, Visit]  # type: ignore[assignment]  # with the same fields
    entries: list[_Entry]  # type: ignore[assignment]  # a list that nobody writes to


class RemoteRuns:
    """Asks about runs by their ids."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def trigger(self, given: Begin) -> Triggered:
        """Start one."""
        await self._calls.require(given.whose.tenant_id, given.whose.workspace_id)
        body = {"input": Raw(given.input.encode()), "idempotency_key": given.key}
        try:
            return await self._calls.post(f"/workflows/{segment(given.workflow)}/triggers", body, Triggered)
        except (Refused, NotFound, Conflict) as refused:
            raise _refusal(refused) from refused

    async def plan(self, given: Begin, assumed: Mapping[str, Mapping[str, Any]]) -> Planned:
        """What it would do."""
        await self._calls.require(given.whose.tenant_id, given.whose.workspace_id)
        body = {"input": Raw(given.input.encode()), "idempotency_key": given.key, "assume": assumed}
        try:
            return await self._calls.post(f"/workflows/{segment(given.workflow)}/plan", body, Planned)
        except (Refused, NotFound, Conflict) as refused:
            if any(fault.path.startswith("$.assume") for fault in refused.faults):
                raise AssumptionRefused(refused.faults) from refused
            raise _refusal(refused) from refused

    async def listed(self, which: Filter, before: int, count: int) -> list[Row]:
        """The newest below an id."""
        await self._calls.require(which.tenant_id, which.workspace_id)
        query = {
            "workflow": which.workflow,
            "status": which.status,
            "since": which.since,
            "idempotency_key": which.key,
            "before": before,
        }
        found = await self._calls.pages("/runs", run_models.Runs, lambda page: page.runs, count, query)
        return [_row(one) for one in found]

    async def show(self, run_id: int, count: int) -> Row | None:
        """One, whole."""
        found = await self._calls.find(f"/runs/{run_id}", _Whole)
        if found is None:
            return None
        ordered = await self._calls.pages(
            f"/runs/{run_id}/deliveries", run_models.OrderedDeliveries, lambda page: page.deliveries, count
        )
        entries = await self._calls.pages(f"/runs/{run_id}/log", _Log, lambda page: page.entries, ENTRIES_MAX)
        lines = [*map(_line, entries), *({**_present(one)} for one in found.attempts)]
        shown = {name: value for name, value in _row(found).items() if name != "attempts"}
        return shown | {"log": sorted(lines, key=itemgetter("at")), "deliveries": rows(ordered)}

    async def steps(self, run_id: int) -> Sequence[Step] | None:
        """The nodes of its workflow."""
        found = await self._calls.find(f"/runs/{run_id}", _Whole)
        return None if found is None else found.steps

    async def progress(self, run_id: int, first: int) -> Progress | None:
        """Where one stands: what its log says beyond a page is asked for, and the first word about the run kept."""
        page = await self._progress(run_id, first)
        if page is None:
            return None
        found, entries = page, list(page.entries)
        while page is not None and page.more and page.entries:
            page = await self._progress(run_id, page.entries[-1].number + 1)
            entries += page.entries if page is not None else []
        return Progress(_row(found.run), found.cursor, [_line(one) for one in entries], found.counts)

    async def _progress(self, run_id: int, first: int) -> _Progress | None:
        return await self._calls.find(f"/runs/{run_id}/progress", _Progress, {"first": first})

    async def act(self, verb: Verb, run_id: int, reason: str, _actor: str) -> str:
        """Do it to one."""
        return await self._calls.act(f"/runs/{run_id}/{verb}", {"reason": reason})

    async def signal(self, run_id: int, event: str, data: str, _actor: str) -> str:
        """Send one an event."""
        try:
            return await self._calls.act(f"/runs/{run_id}/signal", {"event": event, "data": Raw(data.encode())})
        except Refused as refused:
            raise _refusal(refused) from refused


def _refusal(refused: ClientError) -> Exception:
    """What the schema's functions refuse, in the words in which they do."""
    return TriggerRefused(faults_of(refused), refused.detail)


def _row(run: run_models.Run) -> Row:
    return {_NAMES.get(name, name): value for name, value in msgspec.structs.asdict(run).items()}


def _line(entry: _Entry) -> Mapping[str, Any]:
    """A line of the log as a row: what it does not have is not there."""
    return {name: value for name, value in _present(entry).items() if not isinstance(value, Raw) or bytes(value)}


def _present(one: Struct) -> Row:
    return {name: value for name, value in msgspec.structs.asdict(one).items() if value is not None}
