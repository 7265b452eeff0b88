"""Settling: enrolments whose step was sent go on in one statement, as their last walk has said; they are not walked."""

import structlog
from msgspec import Struct

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.runs.walk.walking import DATA_FAULTS

log = structlog.get_logger(__name__)

_SQL = statements(__name__)


class Settled(Struct, frozen=True):
    """The counts of a round: enrolments that went on, and those of them that are completed.

    `youngest` is the wake up to which all were looked at: those that are left are for walks. None: there are more.
    """

    runs: int
    completed: int
    youngest: int | None


async def settle(database: Database, wakes_max: int) -> Settled:
    """Move enrolments on whose step was sent. A state that cannot be read is left to a walk, which refuses it."""
    try:
        return Settled(*(await database.fetch(_SQL["settle"], wakes_max))[0])
    except DATA_FAULTS as fault:
        log.warning("walk.not_settled", error=type(fault).__name__)
        return Settled(0, 0, None)
