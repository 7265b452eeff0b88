"""What a delivery takes: bytes of tables, indexes and log, CPU on both sides, its deletion, and connections."""

from msgspec import Struct

from bench import outbox
from bench.cases.throughput import SETTINGS
from bench.measure import Measure, beside, median
from bench.process import Dispatcher, dispatching
from bench.server import Connection, Server
from dispatcher.config.settings import Api, Database

DELIVERIES = 200_000
ROUNDS = 3

# A wait of this process for its connections: those of its two pools, and what listens.
CONNECTIONS_MAX = Database().pool_max + Api().connections + 1
METHOD = (
    "{deliveries} text messages with a template of 90 characters and three variables, inserted by one statement, "
    "drained by one process on the blackhole channel, vacuumed; {rounds} rounds, medians. "
)
LINES = (
    (
        "bytes",
        "B/delivery",
        "finished",
        "while it waits",
        "waiting",
        "All tables and indexes, with the room for updates.",
    ),
    ("state", "B/delivery", "state", "deliveries", "content", "delivery_state with its indexes, beside deliveries."),
    ("indexes", "B/delivery", "indexes", "all", "finished", "The indexes of both tables."),
    ("log", "B/delivery", "drain_log", "its INSERT", "insert_log", "Write-ahead log of sending, after a checkpoint."),
    ("cpu", "us/delivery", "worker", "Postgres", "postgres", "CPU of the process, beside that of Postgres."),
    ("insert", "us/delivery", "insert", "deleting", "delete", "CPU of Postgres for inserting and for deleting."),
    ("vacuum", "us/delivery", "vacuum", "sending", "postgres", "CPU of Postgres for one VACUUM after all were sent."),
    (
        "connections",
        "connections",
        "connections",
        "its pools",
        "pools",
        "Connections of the process under load, at most.",
    ),
)


class Sizes(Struct):
    """What one round has found, each for one delivery."""

    waiting: float
    finished: float
    content: float
    state: float
    indexes: float
    insert_log: float
    drain_log: float
    worker: float
    postgres: float
    insert: float
    delete: float
    vacuum: float
    connections: float
    pools: float = CONNECTIONS_MAX


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Fill, drain, vacuum and delete, and look after each."""
    found = [await _round(server, deliveries) for _ in range(rounds)]
    method = METHOD.format(deliveries=deliveries, rounds=rounds)

    def middle(field: str) -> float:
        return median(float(getattr(one, field)) for one in found)

    return [
        beside(f"sizing.{name}", unit, middle(field), reference, middle(beneath), f"{what} {method}")
        for name, unit, field, reference, beneath, what in LINES
    ]


async def _round(server: Server, deliveries: int) -> Sizes:
    async with outbox.outbox(server) as (url, connection):
        usage = _Usage(server, connection, deliveries)
        await usage.since()
        await outbox.fill(connection, "sms", deliveries)
        insert, insert_log = await usage.since()
        await outbox.settle(connection)
        waiting = await _sizes(connection)
        async with dispatching(url, **SETTINGS) as process:
            await process.started(connection)
            await usage.since()
            worker = process.cpu_seconds()
            connections = await _drained(process, connection)
            worker = process.cpu_seconds() - worker
            postgres, drain_log = await usage.since()
        await outbox.require_sent(connection, "sms", deliveries)
        await usage.since()
        await connection.execute("VACUUM (ANALYZE) dispatcher.deliveries, dispatcher.delivery_state")
        vacuum, _ = await usage.since()
        content, state, indexes = await _sizes(connection)
        await usage.since()
        await connection.execute("DELETE FROM dispatcher.deliveries")
        delete, _ = await usage.since()
    return Sizes(
        waiting=(waiting[0] + waiting[1]) / deliveries,
        finished=(content + state) / deliveries,
        content=content / deliveries,
        state=state / deliveries,
        indexes=indexes / deliveries,
        insert_log=insert_log,
        drain_log=drain_log,
        worker=worker / deliveries * 1e6,
        postgres=postgres,
        insert=insert,
        delete=delete,
        vacuum=vacuum,
        connections=connections,
    )


class _Usage:
    """CPU of the server and bytes of its log, for one delivery, since it was asked last."""

    def __init__(self, server: Server, connection: Connection, deliveries: int) -> None:
        self._server = server
        self._connection = connection
        self._deliveries = deliveries
        self._cpu = self._log = 0.0

    async def since(self) -> tuple[float, float]:
        """Microseconds of CPU, and bytes."""
        cpu = self._server.cpu_seconds()
        log = float(await self._connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))
        used = (cpu - self._cpu) / self._deliveries * 1e6, (log - self._log) / self._deliveries
        self._cpu, self._log = cpu, log
        return used


async def _sizes(connection: Connection) -> tuple[int, int, int]:
    """Bytes of deliveries and of delivery_state, each with its indexes, and of the indexes of both."""
    row = await connection.fetchrow(
        """
        SELECT pg_total_relation_size('dispatcher.deliveries'), pg_total_relation_size('dispatcher.delivery_state'),
               pg_indexes_size('dispatcher.deliveries') + pg_indexes_size('dispatcher.delivery_state')
        """
    )
    assert row is not None  # noqa: S101 - it selects one row
    return row[0], row[1], row[2]


async def _drained(process: Dispatcher, connection: Connection) -> int:
    """Return when all were sent: the most connections that others than we had to the database."""
    most = 0

    async def over() -> bool:
        nonlocal most
        now = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
        most = max(most, int(now))
        return await outbox.is_drained(connection, "sms")

    await process.until(over, "all are sent", 600.0)
    return most
