"""pgqueuer as a peer: filled by its own enqueue, drained by its own worker in a process of its own."""

from importlib.util import find_spec

from bench.measure import BenchError
from bench.peers import worker
from bench.server import Connection, Server, connected

# What it is asked to do: nothing.
ENTRYPOINT = "sms"
# Its best: in one run 2,000 jobs a second with its default of 10, 19,600 with this, 20,000 with 2,000 and 14,700 with
# 5,000.
BATCH = 1_000
ENQUEUE_BATCH = 10_000


def available() -> bool:
    """It is an extra: `pip install dispatcher[bench]`."""
    return find_spec("pgqueuer") is not None


async def fill(url: str, jobs: int) -> None:
    """Install its schema with all tables logged and its own autovacuum advice, and enqueue jobs without a payload."""
    if not available():
        raise BenchError("pgqueuer is not installed: pip install 'dispatcher[bench]'")
    from pgqueuer.db import AsyncpgDriver  # noqa: PLC0415 - an extra
    from pgqueuer.queries import Queries  # noqa: PLC0415 - an extra

    async with connected(url) as connection:
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await connection.execute(queries.qbe.build_optimize_autovacuum_query())
        for start in range(0, jobs, ENQUEUE_BATCH):
            count = min(ENQUEUE_BATCH, jobs - start)
            await queries.enqueue([ENTRYPOINT] * count, [None] * count, [0] * count)
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")


async def drain(server: Server, url: str, jobs: int) -> tuple[float, float, float]:
    """Drain them; answers the seconds from first pick to last log line, and CPU seconds of worker and server."""
    cpu = await worker.cpu_seconds(server, "bench.peers.pgqueuer_worker", url, str(BATCH))
    async with connected(url) as connection:
        return await _seconds(connection, jobs), *cpu


async def _seconds(connection: Connection, jobs: int) -> float:
    """From its own log, which has the time at which each statement began; every job must have succeeded."""
    [(first, last, succeeded)] = await connection.fetch(
        """
        SELECT min(created) FILTER (WHERE status = 'picked'), max(created) FILTER (WHERE status = 'successful'),
               count(*) FILTER (WHERE status = 'successful')
          FROM pgqueuer_log
        """
    )
    if succeeded != jobs:
        raise BenchError(f"pgqueuer did {succeeded} of {jobs} jobs")
    return float((last - first).total_seconds())
