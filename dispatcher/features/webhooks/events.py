"""Events in the database: taken out in the transaction that writes their deliveries."""

from collections.abc import Collection, Sequence
from typing import Any, get_args

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.webhooks.rules import ATTEMPTS_MAX, TEMPLATE, Event, Message, SubjectKind, subject_kind

_SQL = statements(__name__)

# The constant facts of subjects, by kind and id.
Subjects = dict[tuple[SubjectKind, int], dict[str, Any]]
_KINDS: tuple[SubjectKind, ...] = get_args(SubjectKind)


async def some(database: Database) -> bool:
    """Whether there is any event."""
    return bool(await database.look(_SQL["some"]))


async def take(connection: Any, page: int) -> tuple[list[int], list[Event]]:  # noqa: ANN401 - asyncpg's
    """Lock a page of events; return the ids of all, and the events whose endpoint is still enabled."""
    rows = await connection.fetch(_SQL["take"], page)
    wanted = [Event(**dict(row)) for row in rows if row["endpoint_id"] is not None]
    return [row["id"] for row in rows], wanted


async def subjects(connection: Any, events: Collection[Event]) -> Subjects:  # noqa: ANN401 - as above
    """Return the subjects of events; deleted ones are left out."""
    found: Subjects = {}
    for kind in _KINDS:
        ids = [one.subject for one in events if subject_kind(one.type) == kind]
        rows = await connection.fetch(_SQL[kind], ids) if ids else []
        found |= {(kind, row["id"]): dict(row) for row in rows}
    return found


async def write(connection: Any, messages: Sequence[Message]) -> None:  # noqa: ANN401 - as above
    """Write the deliveries that report events."""
    if not messages:
        return
    rows = [
        (one.event.tenant_id, one.event.workspace_id, one.key, one.event.endpoint, one.event.endpoint_id, one.body)
        for one in messages
    ]
    await connection.execute(_SQL["write"], *map(list, zip(*rows, strict=True)), TEMPLATE, ATTEMPTS_MAX)


async def forget(connection: Any, ids: Sequence[int]) -> None:  # noqa: ANN401 - as above
    """Delete events that were written, or whose endpoint is gone."""
    await connection.execute(_SQL["forget"], ids)
