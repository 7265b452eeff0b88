"""Local calls: an endpoint's handler in this process, in a transaction on the configured database."""

from collections.abc import Callable, Sequence

import msgspec

from dispatcher.api import reading
from dispatcher.api.endpoints import Call, Endpoint, Nothing, Served
from dispatcher.cli.caller import Request
from dispatcher.config import Config
from dispatcher.offload import Offload
from dispatcher.store import runs, tenants
from dispatcher.store.database import Database
from dispatcher.store.intake import Intake
from dispatcher.store.templates import Workspace


class Local:
    """Calls handlers as the role that connects, which sees every workspace. The operator is the actor."""

    def __init__(
        self, database: Database, config: Callable[[], Config], whose: Workspace | None, operator: str
    ) -> None:
        self._database = database
        self._whose = whose
        self._operator = operator
        self._served = Served(
            config=config,
            intake=lambda: Intake(config()),
            shed=_take_all,
            trigger=lambda given: runs.trigger(database, given),
            offload=Offload(),
        )

    async def ask(self, request: Request) -> object:
        """What the handler answers; raises Problem."""
        one = request.endpoint
        query = reading.read_query(list(request.query.items()), one.query)
        body = request.body or b""
        call = Call(
            served=self._served,
            shown=None,
            whose=self._whose,
            database=self._database,
            path=request.path,
            query=query,
            given=_read(one, body, is_file=request.is_file),
            body=body,
            idempotency_key=None,
            if_match=None,
            operator=self._operator,
        )
        if one.gathers:
            return (await one.handle(call)).body
        async with tenants.all_workspaces(self._database) as inside:
            return (await one.handle(msgspec.structs.replace(call, database=inside))).body


async def _take_all(_channels: Sequence[str] | None) -> None:
    """Nothing is refused because much is waiting: who types a command can see to that."""


def _read(one: Endpoint, body: bytes, *, is_file: bool) -> object:
    if one.given is None:
        return Nothing()
    if is_file:
        return body
    return reading.tree(body) if one.reads_itself else reading.read(body, one.given)
