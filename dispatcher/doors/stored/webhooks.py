"""Endpoints of webhooks of a database."""

from collections.abc import Callable

from dispatcher.config import Config
from dispatcher.domain.webhooks import CHANNEL, url_fault
from dispatcher.doors.attached import Changes
from dispatcher.doors.nouns import Row, Whose
from dispatcher.errors import Fault, WebhookRefused
from dispatcher.store import webhooks as store
from dispatcher.store.database import Database
from dispatcher.store.webhooks import Endpoint, Refused


class StoredWebhooks:
    """Takes the addresses that our own configuration allows."""

    def __init__(self, database: Database, config: Callable[[], Config]) -> None:
        self._database = database
        self._config = config

    async def create(self, whose: Whose, new: Endpoint, actor: str, reason: str) -> str | Refused:
        """Make one."""
        self._require(new)
        return await store.create(self._database, whose.workspace, new, actor, reason)

    async def change(self, whose: Whose, name: str, changes: Changes, actor: str, reason: str) -> str:
        """Let one be otherwise."""
        was = await store.show(self._database, whose.workspace, name)
        if was is None:
            return "unknown"
        new = Endpoint(
            name,
            was["url"] if changes.url is None else changes.url,
            tuple(was["events"] if changes.events is None else changes.events),
            was["enabled"] if changes.enabled is None else changes.enabled,
        )
        self._require(new)
        return await store.change(self._database, whose.workspace, new, actor, reason)

    async def rotate(self, whose: Whose, name: str, overlap_seconds: float, actor: str, reason: str) -> str | None:
        """Give one another secret."""
        made = await store.rotate(self._database, whose.workspace, name, overlap_seconds, actor, reason)
        return None if isinstance(made, Refused) else made

    async def delete(self, whose: Whose, name: str, actor: str, reason: str) -> bool:
        """Delete one."""
        return await store.delete(self._database, whose.workspace, name, actor, reason)

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name."""
        return await store.listed(self._database, whose.workspace, after, count)

    async def actions(self, whose: Whose, name: str, count: int) -> list[Row]:
        """What was done to those of a name."""
        return await store.actions(self._database, whose.workspace, name, count)

    def _require(self, one: Endpoint) -> None:
        wrong = url_fault(one.url, plain=bool(self._config().channels[CHANNEL].options.get("allow_addresses")))
        if wrong is not None:
            raise WebhookRefused([Fault("$.url", wrong)])
