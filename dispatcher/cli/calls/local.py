"""Local calls: an endpoint's handler in this process, in a transaction on the configured database."""

from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

import msgspec

from dispatcher.base.worker_process import Offload
from dispatcher.base.workspace import Workspace
from dispatcher.cli.calls.caller import Request
from dispatcher.config.settings import Config
from dispatcher.db import cells, tenants
from dispatcher.db.database import Database
from dispatcher.http import reading
from dispatcher.http.endpoints import Call, Endpoint, Nothing, Part, Served

# More than the values in all files of a command.
VALUES_MAX = 2**63

A = TypeVarTuple("A")
T = TypeVar("T")


class Local:
    """Calls handlers as the role that connects, which sees every workspace. The operator is the actor.

    A tenant that is in another cell is refused, but for that of the operators.
    """

    def __init__(self, database: Database, config: Callable[[], Config], part: Part, operator: str) -> None:
        self._config = config
        self._database = database
        self._part = part
        self._operator = operator
        self._served = Served(config=config, shed=_shed_nothing, offload=_InProcess(), trigger=None)

    async def ask(self, request: Request) -> object:
        """Return the handler's answer; raises Problem."""
        one = request.endpoint
        query = reading.read_query(list(request.query.items()), one.query)
        body = request.body or b""
        call = Call(
            served=self._served,
            shown=None,
            part=Part(None, None) if request.anywhere else self._part,
            database=self._database,
            path=request.path,
            query=query,
            given=_read(one, body, is_file=request.is_file),
            body=body,
            idempotency_key=None,
            if_match=None,
            operator=self._operator,
        )
        async with tenants.all_workspaces(self._database) as inside:
            if not request.anywhere:
                await self._require_here(inside)
            return (await one.handle(msgspec.structs.replace(call, database=inside))).body

    async def _require_here(self, inside: Database) -> None:
        tenant, operators = self._part.tenant_id, self._config().api.operators
        if tenant is not None and f"{tenant}/{self._part.workspace_id}" != operators:
            await cells.require_here(inside, tenant)

    async def workspace(self) -> Workspace:
        """Return the workspace of the options."""
        return Workspace(self._part.tenant_id or "default", self._part.workspace_id or "default")


class _InProcess(Offload):
    """Makes every call in this process: nothing else waits for a command's event loop."""

    async def call(self, tenant: str, function: Callable[[*A], T], *given: *A) -> T:  # noqa: ARG002 - as above
        """Return the function's result."""
        return function(*given)


async def _shed_nothing(_channels: Sequence[str] | None) -> None:
    """Refuse nothing because much is waiting: that is for the operator to decide."""


def _read(one: Endpoint, body: bytes, *, is_file: bool) -> object:
    if one.given is None:
        return Nothing()
    if is_file:
        return body
    return reading.tree(body) if one.reads_itself else reading.read(body, one.given, VALUES_MAX)
