"""Endpoints of webhooks of a server."""

from typing import Any

from dispatcher.api import webhook_models as models
from dispatcher.client.errors import Conflict, NotFound, Refused
from dispatcher.client.transport import segment
from dispatcher.doors.attached import Changes
from dispatcher.doors.nouns import Row, Whose
from dispatcher.doors.remote.calls import UNKNOWN, Calls, rows
from dispatcher.errors import WebhookRefused
from dispatcher.store import webhooks as store
from dispatcher.store.webhooks import Endpoint

_PATH = "/webhooks"
_URL = "$.url"


class RemoteWebhooks:
    """Has the server say which addresses it allows.

    A secret whose answer was lost is not shown again: it is rotated.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(self, whose: Whose, new: Endpoint, _actor: str, reason: str) -> str | store.Refused:
        """Make one."""
        await self._require(whose)
        said = {"name": new.name, "url": new.url, "events": new.events, "enabled": new.enabled, "reason": reason}
        try:
            return (await self._calls.post(_PATH, said, models.WebhookSecret)).secret
        except Refused as refused:
            raise _unsound(refused) from refused
        except Conflict as refused:
            if not refused.answer:
                raise
            return store.Refused(refused.answer)

    async def change(self, whose: Whose, name: str, changes: Changes, _actor: str, reason: str) -> str:
        """Let one be otherwise."""
        await self._require(whose)
        was = await self._calls.find(_of(name), models.Webhook)
        if was is None:
            return UNKNOWN
        said: dict[str, Any] = {
            "url": was.url if changes.url is None else changes.url,
            "events": was.events if changes.events is None else changes.events,
            "enabled": was.enabled if changes.enabled is None else changes.enabled,
            "reason": reason,
        }
        try:
            return (await self._calls.transport.ask("PUT", _of(name), body=said)).read(models.WebhookChanged).answer
        except NotFound:
            return UNKNOWN
        except Refused as refused:
            raise _unsound(refused) from refused

    async def rotate(self, whose: Whose, name: str, overlap_seconds: float, _actor: str, reason: str) -> str | None:
        """Give one another secret."""
        await self._require(whose)
        said = {"overlap_seconds": overlap_seconds, "reason": reason}
        try:
            return (await self._calls.post(f"{_of(name)}/rotate", said, models.WebhookSecret)).secret
        except NotFound:
            return None

    async def delete(self, whose: Whose, name: str, _actor: str, reason: str) -> bool:
        """Delete one."""
        await self._require(whose)
        try:
            await self._calls.transport.ask("DELETE", _of(name), query={"reason": reason})
        except NotFound:
            return False
        return True

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name."""
        await self._require(whose)
        query = {"after": after or None}
        return rows(await self._calls.pages(_PATH, models.Webhooks, lambda page: page.webhooks, count, query))

    async def actions(self, whose: Whose, name: str, count: int) -> list[Row]:
        """What was done to those of a name."""
        await self._require(whose)
        try:
            found = await self._calls.pages(f"{_of(name)}/log", models.WebhookActions, lambda page: page.actions, count)
        except NotFound:
            return []
        return rows(found)

    async def _require(self, whose: Whose) -> None:
        await self._calls.require(whose.tenant_id, whose.workspace_id)


def _of(name: str) -> str:
    return f"{_PATH}/{segment(name)}"


def _unsound(refused: Refused) -> Exception:
    """What is wrong with an endpoint's address; or the refusal of something else."""
    about = [fault for fault in refused.faults if fault.path == _URL]
    return WebhookRefused(about) if about and len(about) == len(refused.faults) else refused
