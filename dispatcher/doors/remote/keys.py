"""Keys of a server. What else than our own workspace may be meant, it knows itself: operators may name any."""

from datetime import UTC, datetime
from typing import Any

from dispatcher.api import key_models
from dispatcher.client.errors import Conflict, NotFound
from dispatcher.client.transport import segment
from dispatcher.domain.bearer import Bearer
from dispatcher.domain.roles import Role
from dispatcher.doors.nouns import Row, Whose
from dispatcher.doors.remote.calls import UNKNOWN, Calls, rows

_PATH = "/keys"
# What the server says of a name that is in use.
_TAKEN = "taken"


class RemoteKeys:
    """Shows a secret once. One whose answer was lost is not shown again: it is rotated."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(
        self, whose: Whose, name: str, role: Role, expires_at: datetime | None, _actor: str, reason: str
    ) -> Bearer | None:
        """Make one."""
        said = {"name": name, "role": role.value, "expires_at": expires_at}
        try:
            made = await self._calls.post(_PATH, _of(whose, reason) | said, key_models.NewSecret)
        except Conflict as refused:
            if refused.answer == _TAKEN:
                return None
            raise
        return Bearer(made.prefix, made.key)

    async def rotate(self, whose: Whose, name: str, overlap_seconds: float, _actor: str, reason: str) -> Bearer | str:
        """Give one another secret."""
        said = _of(whose, reason) | {"overlap_seconds": overlap_seconds}
        try:
            made = await self._calls.post(f"{_PATH}/{segment(name)}/rotate", said, key_models.Secret)
        except NotFound:
            return UNKNOWN
        except Conflict as refused:
            if not refused.answer:
                raise
            return refused.answer
        return Bearer(made.prefix, made.key)

    async def revoke(self, whose: Whose, name: str, _actor: str, reason: str) -> bool:
        """Take one back."""
        try:
            await self._calls.post(f"{_PATH}/{segment(name)}/revoke", _of(whose, reason), key_models.RevokedKey)
        except NotFound:
            return False
        return True

    async def listed(self, whose: Whose, after: str, count: int, *, revoked: bool) -> list[Row]:
        """Those after a name."""
        query = {**_place(whose), "after": after or None, "revoked": revoked}
        return rows(await self._calls.pages(_PATH, key_models.ApiKeys, lambda page: page.keys, count, query))

    async def actions(self, whose: Whose, name: str, count: int) -> list[Row]:
        """What was done to those of a name."""
        path = f"{_PATH}/{segment(name)}/log"
        try:
            found = await self._calls.pages(
                path, key_models.KeyActions, lambda page: page.actions, count, _place(whose)
            )
        except NotFound:
            return []
        return rows(found)

    async def is_over(self, at: datetime) -> bool:
        """Whether a time has come, by our clock; the server looks at its own."""
        return at <= datetime.now(UTC)


def _place(whose: Whose) -> dict[str, Any]:
    return {"tenant_id": whose.tenant_id, "workspace_id": whose.workspace_id}


def _of(whose: Whose, reason: str) -> dict[str, Any]:
    return {"reason": reason, **_place(whose)}
