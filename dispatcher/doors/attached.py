"""What is attached to a workspace: endpoints that are told what happens, and files that messages carry."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from dispatcher.doors.nouns import Row, Whose
from dispatcher.store.webhooks import Endpoint, Refused


class Changes(Struct, frozen=True, kw_only=True):
    """What of an endpoint is to be otherwise; None: it stays."""

    url: str | None = None
    events: Sequence[str] | None = None
    enabled: bool | None = None


class Webhooks(Protocol):
    """Endpoints that are told what happens to deliveries and runs."""

    async def create(self, whose: Whose, new: Endpoint, actor: str, reason: str) -> str | Refused:
        """Make one; its secret, or why there is none: taken, full. Raises WebhookRefused."""

    async def change(self, whose: Whose, name: str, changes: Changes, actor: str, reason: str) -> str:
        """Let one be otherwise: changed, same or unknown. Raises WebhookRefused."""

    async def rotate(self, whose: Whose, name: str, overlap_seconds: float, actor: str, reason: str) -> str | None:
        """Give one another secret, and answer it; None where there is none of that name."""

    async def delete(self, whose: Whose, name: str, actor: str, reason: str) -> bool:
        """Delete one; False where there is none of that name."""

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name, by name."""

    async def actions(self, whose: Whose, name: str, count: int) -> list[Row]:
        """What was done to those of a name, the last first."""


class Objects(Protocol):
    """Files under names that mean one content for ever."""

    async def put(self, whose: Whose, name: str, content: bytes, content_type: str) -> Row | None:
        """Keep one; it with the `answer` (stored, same, restored), None where the name means another content."""

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name, by name."""

    async def show(self, whose: Whose, name: str) -> Row | None:
        """One, without its content."""

    async def erase(self, whose: Whose, name: str) -> str:
        """Erase its content: erased, erased before or unknown."""
