"""pgqueuer and procrastinate on the same schedule of failures: filled and worked off by their own means."""

import tempfile
import time
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import BenchError
from bench.peers import worker
from bench.retrying.peer_jobs import DUE_PER_SECOND, Attempts, read
from bench.retrying.schedule import DUE_AT_ONCE, due_seconds
from bench.server import Server, connected

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.types import JSONValue

ENTRYPOINT = TASK = "retry"
# How often they look without being woken: as often as the dispatcher.
POLL_SECONDS = 1.0
# The jobs are written, and the worker runs, before the first is due; so many are written a second at least.
LEAD_SECONDS = 4.0
FILL_PER_SECOND = 1_000


def available() -> bool:
    """They are an extra: `pip install dispatcher[bench]`."""
    return find_spec("pgqueuer") is not None and find_spec("procrastinate") is not None


def procrastinate_app(url: str) -> "App":
    """procrastinate on this database."""
    from procrastinate import App, PsycopgConnector  # noqa: PLC0415 - an extra

    return App(connector=PsycopgConnector(conninfo=url))


async def pgqueuer(server: Server, jobs: int, seed: int) -> Attempts:
    """One run of pgqueuer."""
    from pgqueuer.db import AsyncpgDriver  # noqa: PLC0415 - an extra
    from pgqueuer.queries import Queries  # noqa: PLC0415 - an extra

    async with server.database() as url:
        began = _begin(jobs)
        async with connected(url) as connection:
            queries = Queries(AsyncpgDriver(connection))
            await queries.install()
            await connection.execute(queries.qbe.build_optimize_autovacuum_query())
            for numbers in _slices(jobs):
                names = [str(number).encode() for number in numbers]
                delay = timedelta(seconds=began + due_seconds(numbers[0], DUE_PER_SECOND) - time.time())
                count = len(names)
                await queries.enqueue([ENTRYPOINT] * count, list(names), [0] * count, [delay] * count)
        return await _work(server, "bench.retrying.pgqueuer_worker", jobs, began, url, str(began), str(seed))


async def procrastinate(server: Server, jobs: int, seed: int) -> Attempts:
    """One run of procrastinate."""
    async with server.database() as url:
        began = _begin(jobs)
        app = procrastinate_app(url)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            for numbers in _slices(jobs):
                due = datetime.fromtimestamp(began + due_seconds(numbers[0], DUE_PER_SECOND), UTC)
                jobs_due: list[dict[str, JSONValue]] = [{"number": number} for number in numbers]
                deferrer = app.configure_task(TASK, schedule_at=due)
                await deferrer.batch_defer_async(*jobs_due)
        module = "bench.retrying.procrastinate_worker"
        return await _work(server, module, jobs, began, url, str(began), str(seed))


def _begin(jobs: int) -> float:
    return time.time() + LEAD_SECONDS + jobs / FILL_PER_SECOND


def _slices(jobs: int) -> list[range]:
    """The numbers of the jobs that are due at the same time."""
    return [range(first, min(first + DUE_AT_ONCE, jobs)) for first in range(0, jobs, DUE_AT_ONCE)]


async def _work(server: Server, module: str, jobs: int, began: float, *arguments: str) -> Attempts:
    if time.time() > began - LEAD_SECONDS / 2:
        raise BenchError(f"{module}: the jobs were not written in time")
    with tempfile.TemporaryDirectory(prefix="dispatcher-bench-") as folder:
        path = Path(folder) / "attempts.json"
        await worker.cpu_seconds(server, module, *arguments, str(path), str(jobs))
        done = read(path)
    if done.ended != jobs:
        raise BenchError(f"{module} ended {done.ended} of {jobs} jobs")
    return done
