"""The store of caps."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.json import decode

from dispatcher.base.values.durations import format_duration
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.literals import array
from dispatcher.db.statements import statements
from dispatcher.features.caps import models, rules

_SQL = statements(__name__)
MARK = _SQL["mark"]


class _Row(Struct, frozen=True):
    id: int
    tenant_id: str
    workspace_id: str
    channels: Sequence[str]
    topics: Sequence[str]


class Definition(Struct, frozen=True):
    """A cap to save."""

    name: str
    messages: int
    period_seconds: float
    channels: Sequence[str]
    topics: Sequence[str]


def arguments(asked: rules.Requests) -> tuple[object, ...]:
    """Return what the mark of a batch with capped deliveries is given beside what each mark is given."""
    groups = asked.caps, asked.kinds, asked.firsts, asked.lasts
    return *groups, array(asked.deliveries), array(asked.addresses)


async def current(database: Database) -> rules.Caps:
    """Return the caps of all workspaces."""
    found: dict[tuple[str, str], list[rules.Cap]] = {}
    for row in decode(await database.look(_SQL["current"]), type=list[_Row]):
        cap = rules.Cap(row.id, frozenset(row.channels), frozenset(row.topics))
        found.setdefault((row.tenant_id, row.workspace_id), []).append(cap)
    return found


async def listed(database: Database, here: Workspace, name: str | None = None) -> list[models.Cap]:
    """Return the caps of a workspace by name, or the one with this name."""
    rows = await database.fetch(_SQL["list"], here.tenant_id, here.workspace_id, name)
    return [models.Cap(**dict(row) | {"period": format_duration(row["period"].total_seconds())}) for row in rows]


async def put(database: Database, here: Workspace, one: Definition, actor: str) -> str:
    """Save a cap; return created, changed, same or full."""
    said = one.name, one.messages, one.period_seconds, list(one.channels), list(one.topics)
    return str(await database.value(_SQL["put"], here.tenant_id, here.workspace_id, *said, actor))


async def delete(database: Database, here: Workspace, name: str, actor: str) -> bool:
    """Delete a cap; False where there is none. What it has counted is swept."""
    return bool(await database.value(_SQL["delete"], here.tenant_id, here.workspace_id, name, actor))


async def sweep(database: Database, behind: tuple[int, int], page: int) -> tuple[int, int] | None:
    """Delete counters that count nothing any more, of the page behind this one; return its end, or None at the last."""
    rows = await database.fetch(_SQL["sweep"], *behind, page)
    return (rows[0][0], rows[0][1]) if rows else None


async def erase(
    database: Database, here: Workspace, contacts: Sequence[int], kinds: Sequence[str], addresses: Sequence[str]
) -> None:
    """Forget what was counted of a person."""
    asked = [(one, text) for kind, text in zip(kinds, addresses, strict=True) for one in rules.kinds_of(kind)]
    columns = [kind for kind, _ in asked], [text for _, text in asked]
    await database.fetch(_SQL["erase"], here.tenant_id, here.workspace_id, list(contacts), *columns)
