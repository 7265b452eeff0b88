"""The one pool, and the one place where trouble with Postgres is told from a bug and tried again."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import asyncpg
import structlog

from dispatcher.config import Database as Settings
from dispatcher.errors import DatabaseUnavailable, UnsafeDatabase
from dispatcher.store.lookout import Lookout
from dispatcher.store.queries import statements
from dispatcher.store.times import say_times

log = structlog.get_logger(__name__)

T = TypeVar("T")

POSTGRES_MIN = 150_000
BACKOFF_FIRST_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 5.0

# The session's own planner settings. Queue tables swing between empty and millions of rows faster than statistics
# follow, and a plan that was cached while the table was empty scans it whole later: the hot statements have exactly
# one good plan each, by index, so the others are switched off. JIT never pays for statements this small.
SESSION = {
    "application_name": "dispatcher",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "timezone": "UTC",
}

# Trouble that passes: lost connections, a server that starts, stops or fails over, serialization, deadlock, a lock
# time-out, too many connections. Everything else is a bug and crashes. (asyncpg's InterfaceError is both: `connection`
# makes a ConnectionError of it where the session was lost.)
PASSING: tuple[type[Exception], ...] = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InternalClientError,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
)
PASSING_OR_CANCELLED: tuple[type[BaseException], ...] = (asyncio.CancelledError, *PASSING)


class Database:
    """A pool that discards what was cancelled, and says since when Postgres has been away."""

    def __init__(self, settings: Settings, url: str, session: Mapping[str, str] = SESSION) -> None:
        self._settings = settings
        self._pool: asyncpg.Pool[asyncpg.Record] = asyncpg.create_pool(
            url,
            min_size=0,
            max_size=settings.pool_max,
            timeout=settings.connect_seconds_max,
            command_timeout=settings.statement_seconds_max,
            server_settings={**session, "statement_timeout": str(int(settings.statement_seconds_max * 1000))},
            init=self._admit,
            # Nothing here leaves session state behind; asyncpg's reset would be one more round trip a statement.
            reset=_leave_as_it_is,
        )
        self.lookout = Lookout(self._pool.expire_connections)
        self.away_since: float | None = None

    async def open(self) -> None:
        """Make the pool usable. No connection is made yet: a database that is away keeps nobody from starting."""
        await self._pool

    async def close(self) -> None:
        """Let connections go, by force where one does not answer."""
        try:
            await asyncio.wait_for(self._pool.close(), timeout=self._settings.connect_seconds_max)
        except PASSING:
            self._pool.terminate()

    async def watch(self) -> None:
        """From now on no connection is used before it was seen where it leads."""
        async with self.connection() as connection:
            await self.lookout.watch(connection)

    async def look(self) -> None:
        """See where a connection leads that we have had for a while: a pooler may have exchanged what is behind it."""
        async with self.connection() as connection:
            await self.lookout.look(connection)

    async def _admit(self, connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
        await say_times(connection)
        await self.lookout.admit(connection)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """A connection of one's own for a while. One that was cancelled or failed in mid-flight is not given back."""
        connection = await connecting(self._pool.acquire())
        try:
            yield connection
        except asyncpg.InterfaceError as fault:
            # Nobody else uses this connection: but for arguments that do not fit (a ValueError, a bug of ours) this is
            # how a session that was just cut off looks, whether it knows already that it is closed or not.
            if isinstance(fault, ValueError):
                raise
            _discard(connection)
            raise ConnectionResetError(str(fault)) from fault
        except PASSING_OR_CANCELLED:
            _discard(connection)
            raise
        finally:
            # One that was cut off may have gone from the pool by itself: its work is done or failed all the same.
            with suppress(asyncpg.InterfaceError, asyncpg.InternalClientError):
                await asyncio.shield(self._pool.release(connection))

    async def fetch(self, query: str, *arguments: object) -> Sequence[Any]:
        """Rows of one autocommit statement, run once."""
        async with self.connection() as connection:
            return await connection.fetch(query, *arguments)  # type: ignore[no-any-return] # asyncpg's pool is generic

    async def fetch_while(self, holds: Callable[[], bool], query: str, *arguments: object) -> Sequence[Any] | None:
        """The same. None, and nothing is run, where the condition no longer holds once there is a connection."""
        async with self.connection() as connection:
            return await connection.fetch(query, *arguments) if holds() else None

    async def value(self, query: str, *arguments: object) -> Any:  # noqa: ANN401 - whatever the column holds
        """The first column of the first row, or None."""
        rows = await self.fetch(query, *arguments)
        return rows[0][0] if rows else None

    async def fetch_unwritten(self, query: str, *arguments: object) -> Sequence[Any] | None:
        """Rows of one statement that may write nothing; None where it comes to writing."""
        async with self.connection() as connection:
            try:
                async with connection.transaction(readonly=True):
                    return await connection.fetch(query, *arguments)  # type: ignore[no-any-return] # as above
            except asyncpg.ReadOnlySQLTransactionError:
                return None

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """What may fail alone. Here whatever fails does; inside a transaction it takes a savepoint."""
        yield

    async def persist(self, what: str, operation: Callable[[], Awaitable[T]]) -> T:
        """Run an operation that may be run twice until Postgres has taken it."""
        wait = BACKOFF_FIRST_SECONDS
        while True:
            try:
                result = await operation()
            except PASSING as trouble:
                self.note_trouble(what, trouble)
                await asyncio.sleep(wait * random.uniform(0.8, 1.2))  # noqa: S311 - spreads retries, hides nothing
                wait = min(wait * 2, BACKOFF_MAX_SECONDS)
            else:
                self.note_health()
                return result

    def note_trouble(self, what: str, trouble: BaseException) -> None:
        """Remember since when Postgres has been away; the first failure is a warning, the rest are not repeated."""
        if self.away_since is None:
            self.away_since = time.monotonic()
            log.warning("database.away", during=what, error=type(trouble).__name__, detail=str(trouble)[:200])

    def note_health(self) -> None:
        """Postgres answered."""
        if self.away_since is not None:
            log.info("database.back", away_seconds=round(time.monotonic() - self.away_since, 3))
            self.away_since = None

    async def require_safety(self) -> None:
        """Refuse a server on which no promise holds."""
        row = (await self.persist("safety", lambda: self.fetch(statements("instances")["safety"])))[0]
        if not row["fsync"]:
            raise UnsafeDatabase("fsync is off: a crash of the server would forget what was sent")
        if row["standby"]:
            raise UnsafeDatabase("the server is a standby, which cannot be written")
        if row["version"] < POSTGRES_MIN:
            raise UnsafeDatabase(f"the server is version {row['version'] // 10_000}; 15 to 18 are supported")


def _discard(connection: Any) -> None:  # noqa: ANN401 - the pool's proxy has no type of its own
    """End a session in an unknown state. One that was cut off has gone from the pool by itself."""
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


async def connecting(attempt: Awaitable[T]) -> T:
    """Whatever Postgres answers to a connection (starting, no such database, not now) is one kind of trouble."""
    try:
        return await attempt
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as refused:
        raise DatabaseUnavailable(str(refused)) from refused


async def _leave_as_it_is(connection: object) -> None:
    """Keep the session as it is."""
