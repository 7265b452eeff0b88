"""Expansion and closing of campaign runs, as the worker asks Postgres for them."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dispatcher.db.database import Database
from dispatcher.db.statements import statements

_SQL = statements(__name__)
# The question whether there is anything to close, to expand or to look after.
IS_WANTED = _SQL["wanted"]


class TakenBack(Struct, frozen=True):
    """Jobs whose owner was dead: how many are queued again, and how many were given up."""

    queued: int
    dead: int


class Progress(Struct, frozen=True):
    """The open campaign runs by status, their deliveries by state, and the jobs that wait for their expansion."""

    jobs_waiting: int
    runs: Mapping[str, int]
    deliveries: Mapping[str, int]


async def close(database: Database, page: int) -> int:
    """Count results of up to so many jobs, and close what is done; return how many jobs had any."""
    return int(await database.value(_SQL["close"], page))


async def lock(database: Database, epoch: int, ahead_max: int) -> int | None:
    """Lock a job of a run that has room; return its id."""
    found = await database.value(_SQL["lock"], epoch, ahead_max)
    return None if found is None else int(found)


async def expand(connection: Any, epoch: int, job_id: int) -> int | None:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Write the deliveries of a job; return how many, None where the job is another's."""
    found = await connection.fetchval(_SQL["expand"], job_id, epoch)
    return None if found is None else int(found)


async def fail(database: Database, epoch: int, job_id: int, reason: str, delay_seconds: float) -> str:
    """Note that an expansion has failed; return queued, dead or lost."""
    return str(await database.value(_SQL["fail"], job_id, epoch, reason, delay_seconds))


async def take_back(database: Database, epoch: int, lock_seconds: float, page: int) -> TakenBack:
    """Take back jobs whose owner is dead."""
    (row,) = await database.fetch(_SQL["take_back"], epoch, lock_seconds, page)
    return TakenBack(row["queued"], row["dead"])


async def release(database: Database, epoch: int) -> None:
    """Free the jobs that an instance has locked and not expanded."""
    await database.fetch(_SQL["release"], epoch)


async def space(database: Database) -> None:
    """Give what is written of runs whose rate was changed its new times."""
    await database.fetch(_SQL["space"])


async def skip_cancelled(database: Database, page: int) -> int:
    """Skip deliveries of cancelled runs; return how many."""
    return int(await database.value(_SQL["skip_cancelled"], page))


async def count_deferred(database: Database, ahead_max: int) -> None:
    """Look up how much of runs without room waits for a later time."""
    await database.fetch(_SQL["count_deferred"], ahead_max)


async def check_counters(database: Database) -> int | None:
    """Compare the counters of one finished run with its deliveries; return how many jobs were wrong."""
    found = await database.value(_SQL["check_counters"])
    return None if found is None else int(found)


async def is_wanted(database: Database) -> bool:
    """Whether there is anything to close, to expand or to look after."""
    return bool(await database.value(IS_WANTED))


async def some_open(database: Database) -> bool:
    """Whether any run is open."""
    return bool(await database.value(_SQL["open"]))


async def progress(database: Database, counted_max: int) -> Progress:
    """Return what is open, the waiting jobs counted up to a bound."""
    (row,) = await database.fetch(_SQL["progress"], counted_max)
    runs = {status: row[status] for status in ("queued", "running")}
    states = ("intended", "expanded", "sent", "failed", "skipped", "held")
    return Progress(row["jobs_waiting"], runs, {state: row[state] for state in states})
