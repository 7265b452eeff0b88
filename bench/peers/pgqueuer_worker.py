"""pgqueuer's worker process: says when it is ready, drains no-op jobs on word, says when it is done, ends on word."""

import sys
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

from bench.peers.pgqueuer import ENTRYPOINT
from bench.peers.worker import DONE, READY, say


async def drain(url: str, batch: int) -> None:
    """One consumer on a connection of its own, as its documentation advises; no rolling up of logs meanwhile."""
    connection = await asyncpg.connect(url)
    worker = PgQueuer.from_asyncpg_connection(connection)

    @worker.entrypoint(ENTRYPOINT)
    async def nothing(job: Job) -> None:
        pass

    await worker.qm.run(
        batch_size=batch,
        mode=QueueExecutionMode.drain,
        dequeue_timeout=timedelta(seconds=0.1),
        log_aggregation_interval=timedelta(0),
    )
    await connection.close()


def main() -> None:
    """The parent reads our CPU at both words."""
    say(READY)
    uvloop.run(drain(sys.argv[1], int(sys.argv[2])))
    say(DONE)


if __name__ == "__main__":
    main()
