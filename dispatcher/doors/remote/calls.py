"""Calls: what all remote doors have in common, which is one transport, one key, and lists that come in pages."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dispatcher.api.models import OwnKey
from dispatcher.client.errors import ClientError, Conflict, NotFound
from dispatcher.client.transport import Query, Transport
from dispatcher.doors.nouns import Whose
from dispatcher.errors import Fault, OtherWorkspace
from dispatcher.store.templates import Workspace

# What the server gives at once at most.
PAGE_MAX = 500
UNKNOWN = "unknown"
# Enough to hide how long the way is, and few beside what the server does for others.
AT_ONCE = 8
# What the server takes at once, with room for what JSON adds to a text.
BODY_BYTES_MAX = 4 * 1024 * 1024

P = TypeVar("P", bound=Struct)
R = TypeVar("R")
S = TypeVar("S", str, bytes)


class Calls:
    """Asks one server."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._own: OwnKey | None = None

    async def get(self, path: str, kind: type[R], query: Query | None = None) -> R:
        """Look at something."""
        return (await self.transport.ask("GET", path, query=query)).read(kind)

    async def find(self, path: str, kind: type[R], query: Query | None = None) -> R | None:
        """The same; None where it is not there."""
        try:
            return await self.get(path, kind, query)
        except NotFound:
            return None

    async def post(self, path: str, body: Any, kind: type[R]) -> R:  # noqa: ANN401 - whatever JSON can say
        """Ask for something to be done, once."""
        return (await self.transport.ask("POST", path, body=body)).read(kind)

    async def look(self, path: str, body: Any, kind: type[R]) -> R:  # noqa: ANN401 - as above
        """Look at what no URL may name; nothing is kept of it."""
        return (await self.transport.ask("POST", path, body=body, keyed=False)).read(kind)

    async def pages(
        self, path: str, kind: type[P], rows: Callable[[P], Sequence[R]], count: int, query: Query | None = None
    ) -> list[R]:
        """So many rows of a list, page by page, from its beginning or from the cursor in the query."""
        found: list[R] = []
        asked = dict(query or {})
        while len(found) < count:
            asked["limit"] = min(PAGE_MAX, count - len(found))
            page = await self.get(path, kind, asked)
            found += rows(page)
            asked["cursor"] = getattr(page, "next_cursor", None)
            if asked["cursor"] is None:
                break
        return found

    async def act(self, path: str, body: object) -> str:
        """Do something to a thing; what became of it, or what it is where it is not in a state for that."""
        try:
            return (await self.post(path, body, _Acted)).answer
        except NotFound:
            return UNKNOWN
        except Conflict as refused:
            if not refused.answer:
                raise
            return refused.answer

    async def each(self, ids: Sequence[int], act: Callable[[int], Awaitable[str]]) -> dict[int, str]:
        """Do something to several things, a few at a time; what became of each."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> str:
            async with gate:
                return await act(number)

        async with asyncio.TaskGroup() as group:
            tasks = {number: group.create_task(one(number)) for number in ids}
        return {number: task.result() for number, task in tasks.items()}

    async def own(self) -> OwnKey:
        """What our key is."""
        if self._own is None:
            self._own = await self.get("/key", OwnKey)
        return self._own

    async def workspace(self, whose: Whose) -> Workspace:
        """What our key opens; raises OtherWorkspace where something else is named."""
        own = await self.own()
        named = (("--tenant", whose.tenant_id, own.tenant_id), ("--workspace", whose.workspace_id, own.workspace_id))
        faults = [
            Fault(option, f"the key {own.name} opens {opened}, and not {given}")
            for option, given, opened in named
            if given not in (None, opened)
        ]
        if faults:
            raise OtherWorkspace(faults)
        return Workspace(own.tenant_id, own.workspace_id)

    async def require(self, tenant_id: str | None, workspace_id: str | None = None) -> None:
        """Refuse what another key opens."""
        if tenant_id is not None or workspace_id is not None:
            await self.workspace(Whose(tenant_id, workspace_id))


class _Acted(Struct, frozen=True):
    answer: str


def faults_of(error: ClientError) -> list[Fault]:
    """What the server has found, and how much more there is; at least what it says."""
    more = [Fault("…", f"and {error.more_faults:,} more")] if error.more_faults else []
    return [*error.faults, *more] or [Fault("$", error.detail)]


def rows(structs: Sequence[Struct]) -> list[dict[str, Any]]:
    """Models as rows."""
    return [msgspec.structs.asdict(one) for one in structs]


def batches(pieces: Sequence[S], count_max: int) -> list[list[S]]:
    """Pieces in batches that the server takes, in their order."""
    made: list[list[S]] = []
    size = 0
    for piece in pieces:
        if not made or len(made[-1]) == count_max or size + len(piece) > BODY_BYTES_MAX:
            made.append([])
            size = 0
        made[-1].append(piece)
        size += len(piece)
    return made
