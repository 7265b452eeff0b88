"""The connection pool, and the one place where a failure of Postgres is told from a bug and retried."""

import asyncio
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Self, TypeVar

import asyncpg
import structlog

from dispatcher.base.errors import ConfigError, DatabaseUnavailable, Fault, UnsafeDatabase
from dispatcher.config.settings import Database as Settings
from dispatcher.db import cells  # noqa: F401 - defines what 57T01 and 57T02 are raised as
from dispatcher.db.array_types import set_array_types
from dispatcher.db.health.failover import FailoverWatch
from dispatcher.db.joint_looks import JointLooks, until_poll
from dispatcher.db.renaming import CONNECTION
from dispatcher.db.statements import statements
from dispatcher.db.timestamps import set_timestamp_codec

log = structlog.get_logger(__name__)

_SQL = statements(__name__)

T = TypeVar("T")

POSTGRES_MIN = 150_000
# Per connection; asyncpg's default.
STATEMENTS_CACHED_MAX = 100
BACKOFF_FIRST_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 5.0

# The one startup parameter that poolers accept.
NAME = "application_name"
# The session's own planner settings. Queue tables swing between empty and millions of rows faster than statistics
# follow, and a plan that was cached while the table was empty scans it whole later: the hot statements have exactly
# one good plan each, by index, so the others are switched off. JIT never pays for statements this small. It is
# switched off by its cost: asyncpg sets `jit` for the session, and when it finds `off` in a transaction it leaves `off`
# in the session, where a pooler's next client would have it.
SESSION = {
    NAME: "dispatcher",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit_above_cost": "-1",
    "timezone": "UTC",
}

# Failures that pass: lost connections, a server that starts, stops or fails over, serialization, deadlock, a lock
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
# pgbouncer's answer to any other startup parameter.
REFUSED_BY_POOLER = "unsupported startup parameter"
SUPPORT = "pgbouncer does from 1.21 on, with max_prepared_statements"
PASSING_OR_CANCELLED: tuple[type[BaseException], ...] = (asyncio.CancelledError, *PASSING)


class Database:
    """A pool that discards cancelled connections, and knows since when Postgres has been away.

    Where `listen_url` is set, `url` leads through a pooler in transaction mode: each transaction may run in another
    session of Postgres, which other clients use before and after it. So every statement runs in a transaction that
    begins with our settings as SET LOCAL, and no statement is prepared unless the pooler supports it
    (`pooler_prepares`).
    """

    def __init__(self, settings: Settings, url: str, session: Mapping[str, str] = SESSION) -> None:
        self._settings = settings
        wanted = {**session, "statement_timeout": str(int(settings.statement_seconds_max * 1000))}
        self._is_pooled = bool(settings.listen_url)
        # What begins a transaction, in one message.
        self.begin = _begin(wanted) if self._is_pooled else "BEGIN"
        self._pool: asyncpg.Pool[asyncpg.Record] = asyncpg.create_pool(
            url,
            min_size=0,
            max_size=settings.pool_max,
            timeout=settings.connect_seconds_max,
            command_timeout=settings.statement_seconds_max,
            server_settings={NAME: wanted[NAME]} if self._is_pooled else wanted,
            statement_cache_size=0 if self._is_pooled and not settings.pooler_prepares else STATEMENTS_CACHED_MAX,
            init=self._admit,
            connection_class=CONNECTION,
            # Nothing here leaves session state behind; asyncpg's reset would be one more round trip a statement.
            reset=_keep_session,
        )
        self.failover = FailoverWatch(self._pool.expire_connections)
        self.away_since: float | None = None
        self._looks = JointLooks(self.fetch)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Make the pool usable. No connection is made yet, so a process can start while its database is away."""
        await self._pool

    async def close(self) -> None:
        """Close all connections, by force where the server does not answer."""
        try:
            await asyncio.wait_for(self._pool.close(), timeout=self._settings.connect_seconds_max)
        except PASSING:
            self._pool.terminate()

    async def watch(self) -> None:
        """From now on check where each connection leads before it is used."""
        async with self.session() as connection:
            await self.failover.watch(connection)

    async def check_cluster(self) -> None:
        """Check where an old connection leads: a pooler may have exchanged the server behind it."""
        async with self.session() as connection:
            await self.failover.check(connection)

    async def _admit(self, connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
        await set_timestamp_codec(connection)
        set_array_types(connection)
        if self._settings.pooler_prepares:
            await _require_kept_statements(connection)
        await self.failover.admit(connection)

    def connection(self) -> AbstractAsyncContextManager[Any]:
        """Return a connection for single statements; through a pooler, all of them are in one transaction."""
        return self.transaction() if self._is_pooled else self.session()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with self.session() as connection, within(connection, self.begin):
            yield connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Yield a connection. If its work is cancelled or fails in mid-flight, it is not given back to the pool."""
        connection = await connecting(self._pool.acquire())
        try:
            yield connection
        except asyncpg.InterfaceError as fault:
            # Except for wrong arguments (a ValueError, a bug of ours) the session was just cut off.
            if isinstance(fault, ValueError):
                raise
            _discard(connection)
            raise ConnectionResetError(str(fault)) from fault
        except PASSING_OR_CANCELLED:
            _discard(connection)
            raise
        finally:
            # A connection that was cut off may have left the pool by itself. (It shields itself from a cancellation.)
            with suppress(asyncpg.InterfaceError, asyncpg.InternalClientError):
                await self._pool.release(connection)

    async def fetch(self, query: str, *arguments: object) -> Sequence[Any]:
        """Return the rows of one autocommit statement, run once."""
        async with self.connection() as connection:
            return await connection.fetch(query, *arguments)  # type: ignore[no-any-return] # asyncpg's pool is generic

    async def write(self, query: str, *arguments: object) -> int:
        """Return the number of rows that one autocommit statement has written, run once."""
        async with self.connection() as connection:
            return int(str(await connection.execute(query, *arguments)).rpartition(" ")[2])

    async def fetch_while(self, holds: Callable[[], bool], query: str, *arguments: object) -> Sequence[Any] | None:
        """As `fetch`. None, and nothing is run, if the condition no longer holds once there is a connection."""
        async with self.connection() as connection:
            return await connection.fetch(query, *arguments) if holds() else None

    async def value(self, query: str, *arguments: object) -> Any:  # noqa: ANN401 - whatever the column holds
        """Return the first column of the first row, or None."""
        rows = await self.fetch(query, *arguments)
        return rows[0][0] if rows else None

    async def look(self, question: str) -> Any:  # noqa: ANN401 - as above
        """Return the answer to a SELECT of one value, asked together with what others ask at the same time."""
        return await self._looks.value(question)

    async def until_work(self, what: str, question: str, woken: asyncio.Event, poll_seconds: float) -> None:
        """Return when woken, or when a poll answers a question with true."""
        while True:
            try:
                await asyncio.wait_for(woken.wait(), until_poll(poll_seconds))
            except TimeoutError:
                if await self.persist(what, lambda: self.look(question)):
                    return
            else:
                return

    async def fetch_read_only(self, query: str, *arguments: object) -> Sequence[Any] | None:
        """Return the rows of one statement that may write nothing; None if it tries to write."""
        begin = f"{self.begin}; SET LOCAL transaction_read_only = on"
        try:
            async with self.session() as connection, within(connection, begin):
                return await connection.fetch(query, *arguments)  # type: ignore[no-any-return] # as above
        except asyncpg.ReadOnlySQLTransactionError:
            return None

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Yield; inside a transaction, what fails within is undone alone. Here each statement is its own."""
        yield

    async def persist(self, what: str, operation: Callable[[], Awaitable[T]]) -> T:
        """Run an operation that may be run twice, until Postgres has taken it."""
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
        """Remember that Postgres answered."""
        if self.away_since is not None:
            log.info("database.back", away_seconds=round(time.monotonic() - self.away_since, 3))
            self.away_since = None

    async def require_safety(self) -> None:
        """Raise UnsafeDatabase if the server cannot keep what it commits."""
        row = (await self.persist("safety", lambda: self.fetch(_SQL["safety"])))[0]
        if not row["fsync"]:
            raise UnsafeDatabase("fsync is off: a crash of the server would forget what was sent")
        if row["standby"]:
            raise UnsafeDatabase("the server is a standby, which cannot be written")
        if row["version"] < POSTGRES_MIN:
            raise UnsafeDatabase(f"the server is version {row['version'] // 10_000}; 15 to 18 are supported")
        if not row["as_asked"]:
            raise _behind_pooler("it ignores startup parameters")


@asynccontextmanager
async def within(
    connection: Any,  # noqa: ANN401 - the pool's connection carries no types of ours
    begin: str,
    end: str = "COMMIT",
    undo: str = "ROLLBACK",
) -> AsyncIterator[None]:
    """A transaction from `begin` to its commit, or a savepoint.

    After a cancellation or a failure that passes nothing more is sent: `session` discards the connection, and the
    transaction ends with it.
    """
    try:
        await connection.execute(begin)
        yield
    except PASSING_OR_CANCELLED:
        raise
    except BaseException:
        await connection.execute(undo)
        raise
    if await connection.execute(end) == "ROLLBACK":
        raise RuntimeError("a statement had failed, so nothing was done: put what may fail into `savepoint`")


def _begin(session: Mapping[str, str]) -> str:
    """Return what begins a transaction, with the settings that a session of our own would have."""
    settings = (f"SET LOCAL {name} = '{value}'" for name, value in session.items() if name != NAME)
    return "; ".join(("BEGIN", *settings))


def _discard(connection: Any) -> None:  # noqa: ANN401 - the pool's proxy has no type of its own
    with suppress(asyncpg.InterfaceError):
        connection.terminate()


async def connecting(attempt: Awaitable[T]) -> T:
    """Return the connection. Raises DatabaseUnavailable for every refusal (starting, no such database, not now)."""
    try:
        return await attempt
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as refused:
        require_no_pooler(refused)
        raise DatabaseUnavailable(str(refused)) from refused


async def _require_kept_statements(connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Raise ConfigError unless the server has a prepared statement under the name that we gave it.

    A pooler that supports prepared statements gives them names of its own. Without that, another client of the same
    session that uses the same name would execute our statement.
    """
    name = f"dispatcher_{secrets.token_hex(8)}"
    async with connection.transaction():
        known = await connection.prepare(_SQL["is_prepared"], name=name)
        if await known.fetchval(name):
            words = "must be false: the pooler does not support prepared statements"
            raise ConfigError([Fault("database.pooler_prepares", f"{words} ({SUPPORT})")])


def require_no_pooler(refused: Exception) -> None:
    """Raise ConfigError where a pooler refuses the settings that a session begins with."""
    if isinstance(refused, asyncpg.ProtocolViolationError) and REFUSED_BY_POOLER in str(refused):
        raise _behind_pooler(str(refused)) from refused


def _behind_pooler(why: str) -> ConfigError:
    words = f"must be a URL of Postgres itself, for LISTEN and migrations: a pooler answered ({why})"
    return ConfigError([Fault("database.listen_url", words)])


async def _keep_session(connection: object) -> None:
    """Reset nothing."""
