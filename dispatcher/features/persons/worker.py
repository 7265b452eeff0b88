"""The chore that continues open erasures. It is run by the janitor, in steps, since one may read whole tables."""

import asyncpg
import structlog

from dispatcher.db.database import Database
from dispatcher.features.persons import erasure

log = structlog.get_logger(__name__)

# Some seconds of reading.
PAGES_MAX = 20


async def erase(database: Database, _page: int) -> None:
    """Continue an open erasure that no other process is working on."""
    try:
        now = await erasure.advance(database, pages=PAGES_MAX)
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError):
        # A row that cannot be erased must not stop the other chores.
        log.exception("erasure.failed")
        return
    if now is not None and now.finished:
        log.info("erasure.finished", erasure=now.id, deliveries=now.deliveries, runs=now.runs)
