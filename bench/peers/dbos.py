"""dbos as a peer: workflows filled by its own enqueue, drained by its own worker in a process of its own.

Filled beforehand, since that is its best: what is drained from a queue was inserted before the clock starts. Started
and walked at once, each workflow begins with that insert, and costs a tenth more CPU.
"""

import asyncio
from importlib.util import find_spec

from bench.measure import BenchError
from bench.peers import worker
from bench.server import Connection, Server, connected

WORKFLOW = "email_delay_sms"
QUEUE = "workflows"


def available() -> bool:
    """It is an extra: `pip install dispatcher[bench]`."""
    return find_spec("dbos") is not None


async def fill(url: str, workflows: int) -> None:
    """Install its schema, and enqueue workflows without arguments by its own function."""
    if not available():
        raise BenchError("dbos is not installed: pip install 'dispatcher[bench]'")
    from dbos import DBOS  # noqa: PLC0415 - an extra

    await asyncio.to_thread(DBOS.migrate, url)
    async with connected(url) as connection:
        await connection.execute(
            "SELECT dbos.enqueue_workflow(workflow_name => $1, queue_name => $2) FROM generate_series(1, $3::int)",
            WORKFLOW,
            QUEUE,
            workflows,
        )
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")


async def drain(server: Server, url: str, workflows: int) -> tuple[float, float, float]:
    """Walk them all; answers the seconds from first claim to last outcome, and CPU seconds of worker and server."""
    cpu = await worker.cpu_seconds(server, "bench.peers.dbos_worker", url, str(workflows))
    async with connected(url) as connection:
        return await _seconds(connection, workflows), *cpu


async def _seconds(connection: Connection, workflows: int) -> float:
    """From its own rows, which have the time of claim and outcome; every workflow must have succeeded."""
    [(milliseconds, filled, succeeded)] = await connection.fetch(
        """
        SELECT max(completed_at) - min(started_at_epoch_ms), count(*), count(*) FILTER (WHERE status = 'SUCCESS')
          FROM dbos.workflow_status
        """
    )
    if not filled == succeeded == workflows:
        raise BenchError(f"dbos completed {succeeded} of {filled} workflows, and was to do {workflows}")
    return float(milliseconds) / 1e3
