"""pgqueuer's worker for retries: jobs ask for their next attempt by `RetryRequested`, until none is left."""

import sys
from datetime import timedelta
from pathlib import Path

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.errors import RetryRequested
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

from bench.peers.worker import DONE, READY, say
from bench.retrying.peer_jobs import Jobs
from bench.retrying.peers import ENTRYPOINT, POLL_SECONDS

# Jobs that are due at the same time are fewer.
BATCH = 100


async def drain(url: str, jobs: Jobs) -> None:
    """One consumer on a connection of its own; it ends when no job is left, due or not."""
    connection = await asyncpg.connect(url)
    worker = PgQueuer.from_asyncpg_connection(connection)

    @worker.entrypoint(ENTRYPOINT)
    async def call(job: Job) -> None:
        wait = jobs.attempt(int(job.payload or b"0"))
        if wait is not None:
            raise RetryRequested(delay=timedelta(seconds=wait))

    await worker.qm.run(
        batch_size=BATCH,
        mode=QueueExecutionMode.drain,
        dequeue_timeout=timedelta(seconds=POLL_SECONDS),
        log_aggregation_interval=timedelta(0),
    )
    await connection.close()


def main() -> None:
    """Drain what was filled, and leave what was measured."""
    url, began, seed, path = sys.argv[1:5]
    jobs = Jobs(float(began), int(seed))
    say(READY)
    uvloop.run(drain(url, jobs))
    jobs.write(Path(path))
    say(DONE)


if __name__ == "__main__":
    main()
