"""Deliveries in the database: written, found, shown, and changed by operators."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, cast

from msgspec import Raw, Struct

from dispatcher.db.database import Database
from dispatcher.db.literals import array
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Lane

_SQL = statements(__name__)

_DOCUMENTS = ("template", "variables", "options", "parts", "data")
# In the order of the statement's parameters.
_COLUMNS = (
    *("tenant_id", "workspace_id", "idempotency_key", "channel", "lane", "recipient", "template", "variables"),
    *("options", "scheduled_for", "expires_at", "max_attempts", "template_name", "locale", "topic", "traceparent"),
)

_TIMES = ("scheduled_for", "expires_at")

# A list that people read leaves out the subject of a delivery with more.
SUBJECT_BYTES_MAX = 16_384

Key = tuple[str, str, str]
# Tenant, workspace, channel and the name of the template: what a pause may be about before there is a run.
Kind = tuple[str, str, str, str | None]


class New(Struct, frozen=True, kw_only=True):
    """A delivery to write. Template, variables and options are JSON objects.

    Without a template it uses the stored one of `template_name`, in the nearest locale.
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
    traceparent: str | None = None

    @property
    def key(self) -> Key:
        """Its unique key."""
        return self.tenant_id, self.workspace_id, self.idempotency_key

    @property
    def kind(self) -> Kind:
        """Its kind."""
        return self.tenant_id, self.workspace_id, self.channel, self.template_name


class Opening(Struct, frozen=True):
    """Where a delivery stands, when it is due, why it waits, and why it is not sent."""

    life: str
    run_at: datetime | None
    waits: str | None
    bar: str | None


class KindState(Struct, frozen=True):
    """What is known of a kind of deliveries: the time now, whether any address is suppressed, and why they wait."""

    now: datetime
    watched: bool
    waits: str | None


class SubjectSource(Struct, frozen=True):
    """The part of a delivery that its subject comes from, as Liquid, with its partials and variables as JSON."""

    id: int
    part: str
    text: str
    partials: str | None
    variables: str


class Written(Struct, frozen=True):
    """The delivery that holds a key; a duplicate existed before."""

    id: int
    duplicate: bool


async def insert(database: Database, batch: Sequence[New]) -> list[Written]:
    """Write a batch in one statement; return for each the delivery that holds its key."""
    fresh: dict[Key, int] = {}
    held: dict[Key, int] = {}
    keys = [new.key for new in batch]
    missing: Sequence[Key] = keys
    # One round is enough, unless a holder is deleted between the two statements.
    while missing:
        asked = set(missing)
        fresh |= await _insert(database, [new for new, key in zip(batch, keys, strict=True) if key in asked])
        held |= await holders(database, [key for key in missing if key not in fresh])
        missing = [key for key in missing if key not in fresh and key not in held]
    answers: list[Written] = []
    for key in keys:
        # Of a key that is twice in a batch, the first is written.
        written = fresh.pop(key, None)
        if written is not None:
            held[key] = written
        answers.append(Written(held[key], duplicate=written is None))
    return answers


async def _insert(database: Database, batch: Sequence[New]) -> dict[Key, int]:
    columns = ((name, list(map(attrgetter(name), batch))) for name in _COLUMNS)
    given = (values if name in _TIMES else array(values) for name, values in columns)
    rows = await database.fetch(_SQL["insert"], *given)
    return {(found[0], found[1], found[2]): found[3] for found in rows}


async def holders(database: Database, keys: Sequence[Key]) -> dict[Key, int]:
    """Return the delivery that holds each of these keys, where there is one."""
    if not keys:
        return {}
    rows = await database.fetch(_SQL["holders"], *map(list, zip(*keys, strict=True)))
    return {(found[0], found[1], found[2]): found[3] for found in rows}


async def kinds(database: Database, asked: Collection[Kind]) -> dict[Kind, KindState]:
    """Return what is known of kinds of deliveries."""
    if not asked:
        return {}
    rows = await database.fetch(_SQL["kinds"], *map(list, zip(*asked, strict=True)))
    return {kind: KindState(*row) for kind, row in zip(asked, rows, strict=True)}


async def standing(database: Database, ids: Sequence[int]) -> dict[int, Opening]:
    """Return where deliveries stand, by id."""
    rows = await database.fetch(_SQL["standing"], ids) if ids else []
    return {row["id"]: Opening(row["life"], row["run_at"], row["waits"], row["bar"]) for row in rows}


async def subject_sources(database: Database, ids: Sequence[int]) -> list[SubjectSource]:
    """Return what the subjects of deliveries come from; without those that have none, or a large one."""
    rows = await database.fetch(_SQL["subjects"], ids, SUBJECT_BYTES_MAX) if ids else []
    return [SubjectSource(*row) for row in rows]


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
    """Return the newest deliveries below an id."""
    asked = below, life, channel, tenant_id, count, workspace_id, idempotency_key
    by_key = None not in (tenant_id, workspace_id, idempotency_key)
    return [dict(found) for found in await database.fetch(_SQL["list_of_key" if by_key else "list"], *asked)]


async def owner(database: Database, delivery_id: int) -> dict[str, Any] | None:
    """Return the tenant and workspace of a delivery, or None."""
    rows = await database.fetch(_SQL["owner"], delivery_id)
    return dict(rows[0]) if rows else None


async def find(database: Database, tenant_id: str, workspace_id: str, idempotency_key: str) -> int | None:
    """Return the id of the delivery that holds a key."""
    found = await database.value(_SQL["find"], tenant_id, workspace_id, idempotency_key)
    return None if found is None else int(found)


async def show(database: Database, delivery_id: int) -> dict[str, Any] | None:
    """Return a delivery with its trace, or None."""
    rows = await database.fetch(_SQL["show"], delivery_id)
    if not rows:
        return None
    trace = {
        name: [dict(found) for found in await database.fetch(_SQL[name], delivery_id)]
        for name in ("attempts", "evidence", "receipts", "actions", "captured")
    }
    return dict(rows[0]) | trace


def readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for display: lanes by name, documents as JSON instead of text."""
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
    """Return owner and token of a delivery's claim, if it has one. Tenants must not see it."""
    return {name: value for row in await database.fetch(_SQL["claimed"], delivery_id) for name, value in row.items()}


async def raw(database: Database, delivery_id: int) -> bytes | None:
    """Return the last captured mail of a delivery, or None."""
    return cast("bytes | None", await database.value(_SQL["raw"], delivery_id))


async def cancel(database: Database, delivery_id: int, actor: str, reason: str) -> str:
    """Cancel a delivery that is not marked; return the answer."""
    return str(await database.value(_SQL["cancel"], delivery_id, actor, reason))


async def move(database: Database, delivery_id: int, run_at: datetime, actor: str, reason: str) -> str:
    """Move a delivery that is not marked to another time; return the answer."""
    return str(await database.value(_SQL["move"], delivery_id, run_at, actor, reason))


async def reopen(database: Database, delivery_id: int, actor: str, reason: str) -> str:
    """Send a failed or skipped delivery again; return the answer."""
    return str(await database.value(_SQL["reopen"], delivery_id, actor, reason))


async def act(
    database: Database, action: str, ids: Sequence[int], actor: str, reason: str, run_at: datetime | None
) -> dict[int, str]:
    """Cancel, move or retry these in one transaction; return the answer for each."""
    more = () if run_at is None else (run_at,)
    rows = await database.fetch(_SQL[f"{action}_many"], ids, actor, reason, *more)
    return {row["id"]: row["answer"] for row in rows}


async def repair(
    database: Database, delivery_id: int, variables: bytes, actor: str, reason: str
) -> tuple[str, Written | None]:
    """Write a failed or skipped delivery anew, with further variables; return the answer, and the new one."""
    (found,) = await database.fetch(_SQL["repair"], delivery_id, variables.decode(), actor, reason)
    answer, written, duplicate = found
    return answer, None if written is None else Written(written, duplicate)
