"""procrastinate's worker for retries: jobs fail with their wait, and a strategy of its own kind schedules the next."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from procrastinate import BaseRetryStrategy, RetryDecision
from procrastinate.jobs import Job

from bench.peers.worker import DONE, READY, say
from bench.retrying.peer_jobs import Jobs
from bench.retrying.peers import POLL_SECONDS, TASK, procrastinate_app

# Jobs that are due at the same time are fewer.
CONCURRENCY = 100


class AgainError(Exception):
    """This attempt has failed, and the next one is due after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Strategy(BaseRetryStrategy):
    """Retry when the job says so."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Return when the next attempt is due."""
        del job
        if not isinstance(exception, AgainError):
            return None
        return RetryDecision(retry_in={"microseconds": round(exception.seconds * 1e6)})


async def drain(url: str, jobs: Jobs, count: int) -> None:
    """One worker that is stopped when all jobs have ended: one that does not wait ends before what is due later."""
    app = procrastinate_app(url)
    over = asyncio.Event()

    @app.task(name=TASK, retry=Strategy())
    async def call(number: int) -> None:
        wait = jobs.attempt(number)
        if jobs.done.ended == count:
            over.set()
        if wait is not None:
            raise AgainError(wait)

    async with app.open_async():
        working = asyncio.create_task(
            app.run_worker_async(
                concurrency=CONCURRENCY, fetch_job_polling_interval=POLL_SECONDS, install_signal_handlers=False
            )
        )
        await asyncio.wait((working, asyncio.create_task(over.wait())), return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


def main() -> None:
    """Drain what was filled, and leave what was measured."""
    url, began, seed, path, count = sys.argv[1:]
    jobs = Jobs(float(began), int(seed))
    say(READY)
    asyncio.run(drain(url, jobs, int(count)))
    jobs.write(Path(path))
    say(DONE)


if __name__ == "__main__":
    main()
