"""Bounded waits on conditions: a test states what it waits for, and fails with that when it does not come."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.scene import Connection

STEP_SECONDS = 0.01
SECONDS_MAX = 20.0
STANDSTILL = 6


async def until(holds: Callable[[], Awaitable[object] | object], what: str, seconds: float = SECONDS_MAX) -> Any:
    """Wait for something to hold and answer it."""
    # Steps, since a machine may stand still; where a look takes long itself, the clock ends it.
    last = time.monotonic() + STANDSTILL * seconds
    for _ in range(int(seconds / STEP_SECONDS)):
        if time.monotonic() > last:
            break
        found = holds()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        await asyncio.sleep(STEP_SECONDS)
    raise AssertionError(f"not within {seconds} s: {what}")


async def until_heeded(connection: Connection) -> None:
    """Wait until each open pause has lasted as long as a dispatcher may take to heed it."""
    aged = "SELECT bool_and(now() - since > interval '1 s') FROM dispatcher.pauses WHERE ended_at IS NULL"
    await until(lambda: connection.fetchval(aged), "the pauses have lasted a second")


async def until_blocked(connection: Connection, count: int = 1, seconds: float = 0.0) -> None:
    """Wait until so many statements of the test's database wait for a lock, and were begun so long ago."""
    waiting = """SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()
                    AND clock_timestamp() - query_start >= make_interval(secs => $1)"""

    async def blocked() -> bool:
        # Its own transaction would go on showing the first answer.
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        return int(await connection.fetchval(waiting, seconds)) >= count

    await until(blocked, f"{count} wait for a lock")


async def until_waits(connection: Connection, waiting: Connection) -> None:
    """Wait until just this connection's statement waits for a lock."""

    async def waits() -> bool:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        asked = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1"
        return bool(await connection.fetchval(asked, waiting.get_server_pid()))

    await until(waits, "it waits for a lock")
