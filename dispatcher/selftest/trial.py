"""The trial: a database, providers, a proxy and replicas of its own, disturbed as planned, and the report."""

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
from msgspec import Struct, field

from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.db.schema import migrator
from dispatcher.selftest.audit import Audit, Tally, Violation
from dispatcher.selftest.campaigns.audit import RunTally, audit_runs
from dispatcher.selftest.campaigns.feed import CampaignFeed
from dispatcher.selftest.database_state import DatabaseState
from dispatcher.selftest.director import Director, Progress
from dispatcher.selftest.feed import Feed
from dispatcher.selftest.kills import Kills
from dispatcher.selftest.plan import (
    ANSWER_MILLISECONDS_MAX,
    CLASSES,
    MARKED_MAX,
    Plan,
    configuration,
    through,
    upstream,
    with_database,
)
from dispatcher.selftest.programs import Provider
from dispatcher.selftest.proxy import Proxy
from dispatcher.selftest.replicas import ReplicaSet

CHECK_SECONDS_MAX = 300.0
SLOWEST_SHOWN_MAX = 5


class Seconds(Struct, frozen=True):
    p50: float = 0.0
    max: float = 0.0
    missing: int = 0

    @classmethod
    def of(cls, found: list[float | None]) -> "Seconds":
        ended = sorted(one for one in found if one is not None)
        if not ended:
            return cls(missing=len(found))
        return cls(round(ended[len(ended) // 2], 3), round(ended[-1], 3), len(found) - len(ended))


class Disturbed(Struct):
    kills: dict[str, int]
    points: dict[str, int]
    cuts: dict[str, int]
    # Marked rows without a result at a kill, over both classes: on average, and at most.
    in_flight_average: float
    in_flight_max: int
    recovery_seconds: Seconds
    exit_seconds: Seconds
    # The recoveries that took longest, with what they were from.
    slowest: list[str]
    fenced: int


class Report(Struct):
    passed: bool
    plan: Plan
    seconds: float
    providers: dict[str, Tally]
    disturbed: Disturbed
    violations: list[Violation]
    # With --campaign.
    runs: list[RunTally] = field(default_factory=list)
    # The folder of logs and files, and the database, with --keep.
    kept: dict[str, str] = field(default_factory=dict)


@asynccontextmanager
async def _own_database(url: str, keep: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield the URL of a new database with our schema on a server, which is dropped afterwards."""
    name = f"dispatcher_selftest_{uuid4().hex[:12]}"
    await _execute(url, f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        await migrator.migrate(with_database(url, name))
        yield with_database(url, name)
    finally:
        if not keep():
            await _execute(url, f"DROP DATABASE {name} WITH (FORCE)")


async def _execute(url: str, statement: str) -> None:
    admin = await asyncpg.connect(url, timeout=10)
    try:
        await admin.execute(statement)
    finally:
        await admin.close()


async def trial(plan: Plan, url: str, show: Callable[[Progress], None], keep: bool = False) -> Report:
    """Run a plan on a server. What it starts and makes is removed afterwards, unless `keep` is true."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="dispatcher-selftest-"))
    report: Report | None = None

    def is_kept() -> bool:
        return keep and report is not None

    try:
        async with AsyncExitStack() as stack:
            own = await stack.enter_async_context(_own_database(url, is_kept))
            settings = Settings(pool_max=8, statement_seconds_max=CHECK_SECONDS_MAX)
            database = await stack.enter_async_context(Database(settings, own))
            providers = {name: Provider(folder / f"{name}.ledger", _arguments(name, plan.seed)) for name in CLASSES}
            for one in providers.values():
                await stack.enter_async_context(one)
            config = configuration(plan, {name: one.port for name, one in providers.items()})
            (folder / "dispatcher.toml").write_text(config, encoding="utf-8")
            proxy = await stack.enter_async_context(Proxy("127.0.0.1", upstream(own)))
            director, kills = await _run(plan, folder, own, proxy, database, show)
            found = Audit(database, kills.disturbed())
            await _audit(found, plan, providers)
            report = _report(plan, time.monotonic() - began, found, director, kills, folder)
            if plan.campaign:
                report.runs, broken = await audit_runs(database, found.tallies)
                report.violations += broken
                report.passed = not report.violations
            if keep:
                report.kept = {"folder": str(folder), "database": own}
    finally:
        if not is_kept():
            shutil.rmtree(folder, ignore_errors=True)
    return report


def _arguments(name: str, seed: int) -> list[str]:
    common = ["--seed", str(seed), "--delay-ms-max", str(ANSWER_MILLISECONDS_MAX)]
    return [*common, "--dedupe"] if name == "keyed" else common


async def _run(
    plan: Plan, folder: Path, own: str, proxy: Proxy, database: Database, show: Callable[[Progress], None]
) -> tuple[Director, Kills]:
    rng = random.Random(plan.seed)  # noqa: S311 - the same seed, the same trial
    state = DatabaseState(database)
    kills = Kills(state)
    replicas = ReplicaSet(plan, folder, through(own, proxy.port), kills, rng)
    feed = CampaignFeed(database, plan) if plan.campaign else Feed(database)
    director = Director(plan, replicas, state, feed, kills, proxy, rng=rng, show=show)
    try:
        await director.run()
    finally:
        await replicas.end()
    return director, kills


async def _audit(audit: Audit, plan: Plan, providers: Mapping[str, Provider]) -> None:
    for place, (name, provider) in enumerate(providers.items()):
        messages = len(range(place, plan.messages, len(providers)))
        may_hold = name == "keyless" and plan.kills > 0
        await audit.compare(name, provider.entries(), messages, may_hold)
    await audit.check()


def _slowest(kills: Kills) -> list[str]:
    ended = [(kill.recovered_seconds, kill) for kill in kills.list if kill.recovered_seconds is not None]
    ended.sort(key=lambda one: -one[0])
    return [f"{seconds:.1f} s: {kill.replica}, {kill.what or kill.kind}" for seconds, kill in ended[:SLOWEST_SHOWN_MAX]]


def _report(plan: Plan, seconds: float, audit: Audit, director: Director, kills: Kills, folder: Path) -> Report:
    violations = [*audit.violations, *(Violation(one, 1) for one in kills.unasked)]
    in_flight = [sum(kill.in_flight.values()) for kill in kills.list]
    fenced = sum(path.read_bytes().count(b'"instance.fenced"') for path in folder.glob("replica-*.log"))
    disturbed = Disturbed(
        kills=dict(Counter(kill.kind for kill in kills.list)),
        points=dict(Counter(kill.what.partition(":")[0] for kill in kills.list if kill.kind == "point")),
        cuts=dict(director.cuts),
        in_flight_average=round(sum(in_flight) / len(in_flight), 1) if in_flight else 0.0,
        in_flight_max=max((max(kill.in_flight.values(), default=0) for kill in kills.list), default=0),
        recovery_seconds=Seconds.of(
            [kill.recovered_seconds for kill in kills.list if kill.kind != "term" and not kill.survived]
        ),
        exit_seconds=Seconds.of([kill.exit_seconds for kill in kills.list if kill.kind == "term"]),
        slowest=_slowest(kills),
        fenced=fenced,
    )
    return Report(not violations, plan, round(seconds, 1), audit.tallies, disturbed, violations)


__all__ = ["MARKED_MAX", "Report", "trial"]
