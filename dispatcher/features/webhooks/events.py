"""Happenings: what has happened and is to be told to endpoints, taken out as deliveries are written for it."""

from collections.abc import Collection, Sequence
from typing import Any

from dispatcher.db.statements import statements
from dispatcher.features.webhooks.rules import ATTEMPTS_MAX, TEMPLATE, Event, Message, is_run_event

_SQL = statements(__name__)

# What never changes of a delivery or a run, by whether it is a run and its id.
Subjects = dict[tuple[bool, int], dict[str, Any]]


async def take(connection: Any, page: int) -> tuple[list[int], list[Event]]:  # noqa: ANN401 - asyncpg's
    """Lock some events; answers the numbers of all, and those that somebody still wants to know."""
    rows = await connection.fetch(_SQL["take"], page)
    wanted = [Event(**dict(row)) for row in rows if row["endpoint_id"] is not None]
    return [row["id"] for row in rows], wanted


async def subjects(connection: Any, events: Collection[Event]) -> Subjects:  # noqa: ANN401 - as above
    """What these are about; what has been deleted is left out."""
    found: Subjects = {}
    for runs, statement in ((True, "runs"), (False, "deliveries")):
        ids = [one.subject for one in events if is_run_event(one.type) is runs]
        rows = await connection.fetch(_SQL[statement], ids) if ids else []
        found |= {(runs, row["id"]): dict(row) for row in rows}
    return found


async def write(connection: Any, messages: Sequence[Message]) -> None:  # noqa: ANN401 - as above
    """Write the deliveries that tell it."""
    if not messages:
        return
    told = [one.event for one in messages]
    await connection.execute(
        _SQL["write"],
        [one.tenant_id for one in told],
        [one.workspace_id for one in told],
        [one.key for one in messages],
        [one.endpoint for one in told],
        [one.endpoint_id for one in told],
        TEMPLATE,
        [one.body for one in messages],
        ATTEMPTS_MAX,
    )


async def forget(connection: Any, ids: Sequence[int]) -> None:  # noqa: ANN401 - as above
    """They are told, or nobody wants to know them any more."""
    await connection.execute(_SQL["forget"], ids)
