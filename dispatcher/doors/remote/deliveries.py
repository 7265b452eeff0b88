"""Deliveries of a server."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw

from dispatcher.api import models
from dispatcher.client.errors import Conflict, NotFound
from dispatcher.doors.nouns import DeliveryFilter, Refusal, Row, Sent, Whose
from dispatcher.doors.remote.calls import Calls, batches, rows
from dispatcher.errors import Fault

_TRACE = ("attempts", "evidence", "receipts", "actions", "captured")
_PATH = "/deliveries"


class _Captured(models.Captured, frozen=True, kw_only=True):
    parts: Raw


class _Whole(models.WholeDelivery, frozen=True, kw_only=True):
    """Its documents as they were written: reading and writing them would round their numbers."""

    template: Raw
    variables: Raw
    options: Raw
    captured: list[_Captured]  # type: ignore[assignment]  # a list that nobody writes to


class RemoteDeliveries:
    """Sends lines as they are: the server reads them under its own configuration."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def send(self, lines: Sequence[bytes]) -> list[Sent | Refusal]:
        """Write the sound ones."""
        read = [_text(line) for line in lines]
        found: list[Sent | Refusal] = []
        for batch in batches([one for one in read if isinstance(one, str)], models.LINES_MAX):
            answer = await self._calls.post(f"{_PATH}/lines", {"lines": batch}, models.SentLines)
            found += map(_told, answer.lines)
        answers = iter(found)
        return [next(answers) if isinstance(one, str) else one for one in read]

    async def listed(self, which: DeliveryFilter, before: int, count: int) -> list[Row]:
        """The newest below an id."""
        await self._calls.require(which.tenant_id)
        query = {"life": which.life, "channel": which.channel, "before": before}
        return rows(await self._calls.pages(_PATH, models.Deliveries, lambda page: page.deliveries, count, query))

    async def show(self, delivery_id: int) -> Row | None:
        """One with its trace."""
        found = await self._calls.find(f"{_PATH}/{delivery_id}", _Whole)
        if found is None:
            return None
        shown = msgspec.structs.asdict(found)
        return shown | {name: rows(shown[name]) for name in _TRACE}

    async def find(self, whose: Whose, keys: Sequence[str]) -> dict[str, int]:
        """Those behind keys."""
        await self._calls.require(whose.tenant_id, whose.workspace_id)
        found = {key: (await self._of_key(key)).deliveries for key in keys}
        return {key: one[0].id for key, one in found.items() if one}

    async def _of_key(self, key: str) -> models.Deliveries:
        return await self._calls.get(_PATH, models.Deliveries, {"idempotency_key": key, "limit": 1})

    async def mail(self, delivery_id: int) -> bytes | None:
        """Its captured mail."""
        try:
            return (await self._calls.get(f"{_PATH}/{delivery_id}/mail", models.Mail)).raw
        except (NotFound, Conflict):
            return None

    async def cancel(self, delivery_id: int, _actor: str, reason: str) -> str:
        """Cancel one."""
        return await self._act("cancel", delivery_id, {"reason": reason})

    async def move(self, delivery_id: int, run_at: datetime, _actor: str, reason: str) -> str:
        """Move one."""
        return await self._act("move", delivery_id, {"run_at": run_at, "reason": reason})

    async def retry(self, delivery_id: int, _actor: str, reason: str) -> str:
        """Send one again."""
        return await self._act("retry", delivery_id, {"reason": reason})

    async def _act(self, verb: str, delivery_id: int, said: dict[str, Any]) -> str:
        return await self._calls.act(f"{_PATH}/{delivery_id}/{verb}", said)


def _text(line: bytes) -> str | Refusal:
    try:
        return line.decode()
    except UnicodeDecodeError as fault:
        return Refusal([Fault("line", f"is not UTF-8 at byte {fault.start + 1}")])


def _told(line: models.SentLine) -> Sent | Refusal:
    if line.id is None:
        return Refusal(line.faults)
    return Sent(line.id, line.idempotency_key or "", line.duplicate)
