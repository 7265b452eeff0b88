"""Objects of a server."""

from msgspec import structs

from dispatcher.api import object_models as models
from dispatcher.client.errors import Conflict
from dispatcher.client.transport import Octets, segment
from dispatcher.doors.nouns import Row, Whose
from dispatcher.doors.remote.calls import Calls, rows

_PATH = "/objects"
# What the server says of a name that means another content.
_TAKEN = "taken"


class RemoteObjects:
    """Sends contents as they are."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def put(self, whose: Whose, name: str, content: bytes, content_type: str) -> Row | None:
        """Keep one."""
        await self._require(whose)
        query = {"content_type": content_type}
        try:
            done = await self._calls.transport.ask("PUT", _of(name), query=query, body=Octets(content))
        except Conflict as refused:
            if refused.answer == _TAKEN:
                return None
            raise
        kept = structs.asdict(done.read(models.PutObject))
        return {"answer": kept.pop("answer")} | kept

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name."""
        await self._require(whose)
        query = {"after": after or None}
        return rows(await self._calls.pages(_PATH, models.Objects, lambda page: page.objects, count, query))

    async def show(self, whose: Whose, name: str) -> Row | None:
        """One, without its content."""
        await self._require(whose)
        found = await self._calls.find(_of(name), models.Object)
        return None if found is None else structs.asdict(found)

    async def erase(self, whose: Whose, name: str) -> str:
        """Erase its content."""
        await self._require(whose)
        return await self._calls.act(f"{_of(name)}/erase", None)

    async def _require(self, whose: Whose) -> None:
        await self._calls.require(whose.tenant_id, whose.workspace_id)


def _of(name: str) -> str:
    return f"{_PATH}/{segment(name)}"
