"""Deliveries of a database."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

import msgspec

from dispatcher.config import Config
from dispatcher.domain.life import Lane
from dispatcher.doors.nouns import DeliveryFilter, Refusal, Row, Sent, Whose
from dispatcher.errors import Fault, InputError
from dispatcher.store import deliveries as store
from dispatcher.store.database import Database
from dispatcher.store.deliveries import New, Written
from dispatcher.store.intake import Intake
from dispatcher.store.writing import write

_TRACE = ("attempts", "evidence", "receipts", "actions", "captured")
_DOCUMENTS = ("template", "variables", "options", "parts")


class StoredDeliveries:
    """Reads lines under our own configuration."""

    def __init__(self, database: Database, config: Callable[[], Config]) -> None:
        self._database = database
        self._config = config

    @cached_property
    def _intake(self) -> Intake:
        return Intake(self._config())

    async def send(self, lines: Sequence[bytes]) -> list[Sent | Refusal]:
        """Write the sound ones."""
        read = [self._read(line) for line in lines]
        answers = iter(await write(self._database, [one for one in read if isinstance(one, New)]))
        return [_told(one, next(answers)) if isinstance(one, New) else one for one in read]

    def _read(self, line: bytes) -> New | Refusal:
        try:
            return self._intake.read(line)
        except InputError as error:
            return Refusal(error.faults)

    async def listed(self, which: DeliveryFilter, before: int, count: int) -> list[Row]:
        """The newest below an id."""
        asked = {"life": which.life, "channel": which.channel, "tenant_id": which.tenant_id}
        return [readable(row) for row in await store.listed(self._database, before, count, **asked)]

    async def show(self, delivery_id: int) -> Row | None:
        """One with its trace."""
        found = await store.show(self._database, delivery_id)
        return None if found is None else readable(found | await store.claimed(self._database, delivery_id))

    async def find(self, whose: Whose, keys: Sequence[str]) -> dict[str, int]:
        """Those behind keys."""
        place = whose.workspace
        asked = [(place.tenant_id, place.workspace_id, key) for key in keys]
        return {key: number for (_, _, key), number in (await store.holders(self._database, asked)).items()}

    async def mail(self, delivery_id: int) -> bytes | None:
        """Its captured mail."""
        return await store.raw(self._database, delivery_id)

    async def cancel(self, delivery_id: int, actor: str, reason: str) -> str:
        """Cancel one."""
        return await store.cancel(self._database, delivery_id, actor, reason)

    async def move(self, delivery_id: int, run_at: datetime, actor: str, reason: str) -> str:
        """Move one."""
        return await store.move(self._database, delivery_id, run_at, actor, reason)

    async def retry(self, delivery_id: int, actor: str, reason: str) -> str:
        """Send one again."""
        return await store.reopen(self._database, delivery_id, actor, reason)


def _told(new: New, answer: Written | Fault) -> Sent | Refusal:
    if isinstance(answer, Fault):
        return Refusal([answer])
    return Sent(answer.id, new.idempotency_key, answer.duplicate)


def readable(row: Mapping[str, object]) -> Row:
    """A row as people read it: lanes by name, documents as what they are and not as text about it."""
    shown = dict(row)
    for name, value in row.items():
        if name == "lane" and isinstance(value, int):
            shown[name] = Lane(value).name.lower()
        elif name in _DOCUMENTS and isinstance(value, str):
            shown[name] = msgspec.Raw(value.encode())
        elif name in _TRACE and isinstance(value, list):
            shown[name] = [readable(inner) for inner in value]
    return shown
