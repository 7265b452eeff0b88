"""Instances: the epochs under which pipelines claim, their heartbeats, and the recovery of what dead ones held."""

import os
from collections.abc import Sequence

from msgspec import Struct

from dispatcher.db.database import Database
from dispatcher.db.statements import statements

_SQL = statements(__name__)


class Beat(Struct, frozen=True):
    """The heartbeat of an instance, as it was read."""

    epoch: int
    beat: int
    lease_seconds: float
    name: str
    config_hash: str


class Yielded(Struct, frozen=True):
    """A channel from which an instance may not claim, and an instance that has another provider for it."""

    channel: str
    instance: str
    fingerprint: str


class Recovered(Struct, frozen=True):
    """The result of one page of recovery."""

    claims: int
    requeued: int
    retried: int
    held: int
    poisoned: int


async def join(database: Database, me: Beat, version: str, channels: Sequence[str] = ()) -> None:
    """Make an epoch durable. Not to be repeated under the same epoch."""
    await database.fetch(
        _SQL["join"], me.epoch, me.lease_seconds, os.getpid(), me.name, version, me.config_hash, channels
    )


async def beat(database: Database, epoch: int, config_hash: str, unready: Sequence[str] = ()) -> int:
    """Renew the heartbeat, with the configuration in force and the unready channels. Return the number of instances;
    0 where the epoch is gone."""
    return int(await database.value(_SQL["beat"], epoch, config_hash, unready) or 0)


async def agree(database: Database, epoch: int, fingerprints: Sequence[str]) -> list[Yielded]:
    """Say what an epoch has for its channels, in their order; answers those from which it may not claim."""
    return [Yielded(*found) for found in await database.fetch(_SQL["agree"], epoch, fingerprints)]


async def yielded(database: Database) -> list[tuple[str, str]]:
    """The channels that instances yield, each after the instance's name."""
    return [(row["name"], row["channel"]) for row in await database.fetch(_SQL["yielded"])]


async def beats(database: Database) -> list[Beat]:
    """Return the heartbeats of all instances."""
    return [Beat(*found) for found in await database.fetch(_SQL["others"])]


async def look(database: Database) -> tuple[list[Beat], bool]:
    """Return the heartbeats of all instances, and whether there may be claims without one."""
    rows = await database.fetch(_SQL["orphaned"])
    return [Beat(*found[1:]) for found in map(tuple, rows)], not rows or rows[0]["orphaned"]


async def ask_to_be_woken(database: Database, epoch: int, wanted: bool, *, urgent: bool = False) -> None:
    """Ask inserts to notify while an instance is idle: those of transactional deliveries, or all others."""
    await database.fetch(_SQL["idle_urgent" if urgent else "idle"], epoch, wanted)


async def ask_to_be_woken_for_runs(database: Database, epoch: int, *, wanted: bool) -> None:
    """Triggers and wakes notify only while some idle walker wants it."""
    await database.fetch(_SQL["idle_walker"], epoch, wanted)


async def fence(database: Database, epoch: int, lock_milliseconds_max: int) -> bool:
    """Take an epoch away: from then on none of its marks succeeds. False where it was gone."""
    return bool(await database.value(_SQL["fence"], epoch, lock_milliseconds_max))


async def recover(database: Database, page: int) -> Recovered:
    """Recover up to a page of claims that have no live instance."""
    return Recovered(*(await database.fetch(_SQL["recover"], page))[0])
