"""Erasing: the janitor goes on with it, since it may be as long as the tables are."""

import asyncpg
import structlog

from dispatcher.db.database import Database
from dispatcher.features.persons import erasure

log = structlog.get_logger(__name__)

# Some seconds of reading.
PAGES_MAX = 20


async def erase(database: Database, _page: int) -> None:
    """Go on a little with an erasure that nobody else is at."""
    try:
        looked = await erasure.look(database, pages=PAGES_MAX)
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError):
        # A row that cannot be erased must not keep everything else from being done.
        log.exception("erasure.failed")
        return
    if looked is not None and looked.finished:
        log.info("erasure.finished", erasure=looked.id, deliveries=looked.deliveries, runs=looked.runs)
