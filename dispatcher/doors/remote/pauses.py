"""Pauses of a server. What may be stopped beyond our own workspace it knows itself: operators may stop anything."""

from msgspec import structs

from dispatcher.api import pause_models as models
from dispatcher.client.errors import Conflict, NotFound
from dispatcher.doors.nouns import Row, Whose
from dispatcher.doors.remote.calls import Calls, rows
from dispatcher.store.pauses import Scope
from dispatcher.store.templates import Workspace

_PATH = "/pauses"
# More than anybody keeps in mind.
OPEN_MAX = 10_000


class RemotePauses:
    """Finds a pause by what it stops, and ends it by its id."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def place(self, whose: Whose) -> Workspace:
        """Which workspace is meant: what is not named is that of our key."""
        own = await self._calls.own()
        return Workspace(whose.tenant_id or own.tenant_id, whose.workspace_id or own.workspace_id)

    async def listed(self, where: Workspace | None) -> list[Row]:
        """What stops anything in a workspace."""
        query = {} if where is None else structs.asdict(where)
        return rows(await self._calls.pages(_PATH, models.Pauses, lambda page: page.pauses, OPEN_MAX, query))

    async def pause(self, scope: Scope, name: str, where: Workspace | None, _actor: str, reason: str) -> Row | None:
        """Stop it."""
        said = {"scope": scope, "name": name, "reason": reason}
        place = {"everywhere": True} if where is None else structs.asdict(where)
        try:
            found = structs.asdict(await self._calls.post(_PATH, said | place, models.OpenedPause))
        except Conflict:
            return None
        del found["already"]
        return found

    async def resume(self, scope: Scope, name: str, where: Workspace | None, _actor: str) -> bool:
        """Let it go on."""
        place = (None, None) if where is None else structs.astuple(where)
        meant = (scope, name, *place)
        for row in await self.listed(where):
            if (row["scope"], row["name"], row["tenant_id"], row["workspace_id"]) == meant:
                try:
                    return (await self._calls.post(f"{_PATH}/{row['id']}/resume", None, models.Resumed)).resumed
                except NotFound:
                    return False
        return False
