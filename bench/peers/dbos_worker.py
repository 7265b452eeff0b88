"""dbos's worker process: says when it is ready, walks workflows of no-op steps on word, says when all have ended."""

import sys
from itertools import count
from threading import Event

from dbos import DBOS, DBOSConfig

from bench.peers.dbos import QUEUE, WORKFLOW
from bench.peers.worker import DONE, READY, say

# Its best, in workflows a second, medians of three rounds in turn on one busy machine, with wide swings. First
# series: 385 with this, 262 with nothing set, 272 with 20 at once on threads without bound; with the rest as here, 273
# on 4 threads, 321 on 8, 238 as coroutines on 8. Second: 367 with this, 389 on 8 threads (one round 203), 362 on
# 12, 342 on 32 with a larger pool. On 8, asking each connection whether it lives before its use cost a tenth; LISTEN or
# none, and arguments pickled or as JSON, made no difference that could be told from noise.
THREADS = 16
# A claim takes this many, less those that a thread walks: what waits for a thread does not count, so each look at the
# queue claims about as many again, and threads never wait for one.
CLAIMED_MAX = 500
POLL_SECONDS = 0.1
END_SECONDS_MAX = 60


def configure(url: str) -> None:
    """Threads, not coroutines; its pool of 20 connections suffices for 16 and what it does beside them."""
    config: DBOSConfig = {
        "name": "workflows-peer",
        "system_database_url": url,
        "application_version": "1",
        "log_level": "ERROR",
        "max_executor_threads": THREADS,
        "db_engine_kwargs": {"pool_pre_ping": False},
    }
    DBOS(config=config)


def register(workflows: int) -> Event:
    """The workflow; the event is set when the last step of the last one ran."""
    numbers = count(1)
    ended = Event()

    @DBOS.step()
    def email() -> None:
        pass

    @DBOS.step()
    def sms() -> None:
        if next(numbers) == workflows:
            ended.set()

    @DBOS.workflow(name=WORKFLOW)
    def walk() -> None:
        email()
        DBOS.sleep(0)  # it returns at once: of a delay of nothing it writes nothing
        sms()

    return ended


def main() -> None:
    """The parent reads our CPU at both words. Registering the queue is what begins the work."""
    workflows = int(sys.argv[2])
    configure(sys.argv[1])
    ended = register(workflows)
    DBOS.launch()
    say(READY)
    DBOS.register_queue(QUEUE, worker_concurrency=CLAIMED_MAX, polling_interval_sec=POLL_SECONDS)
    ended.wait()
    # The last outcomes are still being written; this waits for them.
    DBOS.destroy(workflow_completion_timeout_sec=END_SECONDS_MAX)
    say(DONE)


if __name__ == "__main__":
    main()
