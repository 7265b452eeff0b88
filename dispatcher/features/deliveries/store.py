"""Deliveries: writing, finding and showing them, and what an operator may do to one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Raw, Struct

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Lane

_SQL = statements(__name__)

_DOCUMENTS = ("template", "variables", "options", "parts")

Key = tuple[str, str, str]


class New(Struct, frozen=True, kw_only=True):
    """A delivery that is to be written. Templates, variables and options are JSON objects.

    Without a template of its own it has the stored one of that name, in the locale that comes nearest.
    """

    idempotency_key: str
    channel: str
    recipient: str
    template: str | None = None
    variables: str = "{}"
    options: str = "{}"
    lane: Lane = Lane.NORMAL
    tenant_id: str = "default"
    workspace_id: str = "default"
    scheduled_for: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int = 5
    template_name: str | None = None
    locale: str | None = None
    topic: str | None = None

    @property
    def key(self) -> Key:
        """What it is unique by."""
        return self.tenant_id, self.workspace_id, self.idempotency_key


class Written(Struct, frozen=True):
    """The delivery that stands under a key now; a duplicate is one that stood there before."""

    id: int
    duplicate: bool


async def insert(database: Database, batch: Sequence[New]) -> list[Written]:
    """Write a batch in one statement; says for each which delivery holds its key."""
    fresh: dict[Key, int] = {}
    held: dict[Key, int] = {}
    missing: Sequence[Key] = [new.key for new in batch]
    # One look is enough, unless somebody deletes a holder between the two statements.
    while missing:
        asked = set(missing)
        fresh |= await _insert(database, [new for new in batch if new.key in asked])
        held |= await holders(database, [key for key in missing if key not in fresh])
        missing = [key for key in missing if key not in fresh and key not in held]
    answers: list[Written] = []
    for new in batch:
        # A key that stands twice in one batch: the first is the one that was written.
        written = fresh.pop(new.key, None)
        if written is not None:
            held[new.key] = written
        answers.append(Written(held[new.key], duplicate=written is None))
    return answers


async def _insert(database: Database, batch: Sequence[New]) -> dict[Key, int]:
    rows = await database.fetch(
        _SQL["insert"],
        [new.tenant_id for new in batch],
        [new.workspace_id for new in batch],
        [new.idempotency_key for new in batch],
        [new.channel for new in batch],
        [new.lane.value for new in batch],
        [new.recipient for new in batch],
        [new.template for new in batch],
        [new.variables for new in batch],
        [new.options for new in batch],
        [new.scheduled_for for new in batch],
        [new.expires_at for new in batch],
        [new.max_attempts for new in batch],
        [new.template_name for new in batch],
        [new.locale for new in batch],
        [new.topic for new in batch],
    )
    return {(found[0], found[1], found[2]): found[3] for found in rows}


async def holders(database: Database, keys: Sequence[Key]) -> dict[Key, int]:
    """The delivery behind each of these keys that there is."""
    if not keys:
        return {}
    rows = await database.fetch(_SQL["holders"], *(list(column) for column in zip(*keys, strict=True)))
    return {(found[0], found[1], found[2]): found[3] for found in rows}


async def listed(
    database: Database,
    below: int,
    count: int,
    *,
    life: str | None = None,
    channel: str | None = None,
    tenant_id: str | None = None,
    workspace_id: str | None = None,
    idempotency_key: str | None = None,
) -> list[dict[str, Any]]:
    """The newest deliveries below an id."""
    asked = below, life, channel, tenant_id, count, workspace_id, idempotency_key
    by_key = None not in (tenant_id, workspace_id, idempotency_key)
    return [dict(found) for found in await database.fetch(_SQL["list_of_key" if by_key else "list"], *asked)]


async def owner(database: Database, delivery_id: int) -> dict[str, Any] | None:
    """Whose a delivery is, or None."""
    rows = await database.fetch(_SQL["owner"], delivery_id)
    return dict(rows[0]) if rows else None


async def find(database: Database, tenant_id: str, workspace_id: str, idempotency_key: str) -> int | None:
    """The id behind a key."""
    found = await database.value(_SQL["find"], tenant_id, workspace_id, idempotency_key)
    return None if found is None else int(found)


async def show(database: Database, delivery_id: int) -> dict[str, Any] | None:
    """One delivery with its whole trace, or None."""
    rows = await database.fetch(_SQL["show"], delivery_id)
    if not rows:
        return None
    trace = {
        name: [dict(found) for found in await database.fetch(_SQL[name], delivery_id)]
        for name in ("attempts", "evidence", "receipts", "actions", "captured")
    }
    return dict(rows[0]) | trace


def readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as people read it: lanes by name, documents as what they are and not as text about it."""
    shown = dict(row)
    for name, value in row.items():
        if name == "lane":
            shown[name] = Lane(value).name.lower()
        elif name in _DOCUMENTS and (value is None or isinstance(value, str)):
            shown[name] = Raw(b"null" if value is None else value.encode())
        elif name == "captured":
            shown[name] = [readable(one) for one in value]
    return shown


async def claimed(database: Database, delivery_id: int) -> dict[str, Any]:
    """Who has claimed a delivery, and by which claim; nothing where there is none. No tenant may see it."""
    return {name: value for row in await database.fetch(_SQL["claimed"], delivery_id) for name, value in row.items()}


async def raw(database: Database, delivery_id: int) -> bytes | None:
    """The mail that was captured of a delivery last, where there is one."""
    found: bytes | None = await database.value(_SQL["raw"], delivery_id)
    return found


async def cancel(database: Database, delivery_id: int, actor: str, reason: str) -> str:
    """Cancel until it is marked; the answer says what became of it."""
    return str(await database.value(_SQL["cancel"], delivery_id, actor, reason))


async def move(database: Database, delivery_id: int, run_at: datetime, actor: str, reason: str) -> str:
    """Move to another time until it is marked; the answer says what became of it."""
    return str(await database.value(_SQL["move"], delivery_id, run_at, actor, reason))


async def reopen(database: Database, delivery_id: int, actor: str, reason: str) -> str:
    """Send a failed or skipped one again; the answer says what became of it."""
    return str(await database.value(_SQL["reopen"], delivery_id, actor, reason))
