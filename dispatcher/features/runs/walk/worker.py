"""The walker: takes up runs that are due or woken, a batch in one transaction, and writes what their walks come to."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import asyncpg
import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from dispatcher.base import fault_points
from dispatcher.base.breaks import Breaks, with_breaks
from dispatcher.base.clock import Clock
from dispatcher.base.errors import CallLost, NeedsWorker
from dispatcher.base.metrics import Metrics
from dispatcher.base.worker_process import Offload
from dispatcher.config.settings import Walk as Settings
from dispatcher.db.database import PASSING, Database
from dispatcher.features.runs.walk import walking
from dispatcher.features.runs.walk.idling import Idling
from dispatcher.features.runs.walk.walking import Frozen, Place, Taken, Template
from dispatcher.liquid.render_limits import EVENT_LOOP_LIMITS
from dispatcher.liquid.worker_functions import QUICK_SECONDS
from dispatcher.plans import worker_functions
from dispatcher.plans.texts import Bounds
from dispatcher.plans.walk.run import Advance, DigestLeader, DigestState, Facts
from dispatcher.plans.walk.used_variables import select_variables
from dispatcher.plans.walk.walk import Walkable, advance, failed

log = structlog.get_logger(__name__)

# A plan is some kilobytes, and what it was compiled to some more.
PLANS_CACHED_MAX = 500
# A run can come from one digest to another without waiting; each round asks the database about all that were reached.
ROUNDS_MAX = 1_000
# Taken up so often without coming further, a run is no accident's victim.
TAKES_MAX = 5
# Suspects are walked alone, so many after each batch: what is well does not wait for them.
SUSPECTS_MAX = 20
# Walked before others on the loop have their turn: answers over HTTP, the pipeline. One walk may take as long.
TURN_SECONDS_MAX = 0.005
# Runs are walked here for so long; those whose texts take longer are left to the worker process.
EVENT_LOOP_BOUNDS = Bounds(limits=EVENT_LOOP_LIMITS)
MOVING = ("pending", "running", "waiting")
# Faults of one run's data, which it must answer for alone: the others of its batch walk on without it.
OF_DATA: tuple[type[Exception], ...] = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    msgspec.MsgspecError,
    UnicodeError,
    OverflowError,
    RecursionError,
)
WORDS_MAX = 300


class _Walk(Struct):
    """A run on its way: what it is told, and what that comes to."""

    taken: Taken
    facts: Facts
    came: Advance | None = None
    # It is left to the worker process.
    is_slow: bool = False

    def places(self) -> Iterator[tuple[tuple[int, str], Place]]:
        """The stored templates of what it orders, by run and node."""
        if self.came is not None:
            yield from _places(self.taken, self.came)


def _places(taken: Taken, came: Advance) -> Iterator[tuple[tuple[int, str], Place]]:
    for order in came.orders:
        if order.template is not None:
            yield (taken.run.id, order.node), (taken.tenant_id, taken.workspace_id, order.template, order.channel)


def _frozen(walked: Sequence[tuple[Taken, Advance]], templates: Mapping[Place, Template]) -> list[Frozen]:
    """Each order with the version of its template that is published now, and with what that reads."""
    frozen = []
    for taken, came in walked:
        places = dict(_places(taken, came))
        for order in came.orders:
            place = places.get((taken.run.id, order.node))
            template = None if place is None else templates[place]
            variables = order.variables if template is None else select_variables(order.variables, template.reads)
            frozen.append(Frozen(taken, order, None if template is None else template.version_id, variables))
    return frozen


class Walked(Struct, frozen=True):
    """What a round did: so many runs were taken up, and so many deliveries ordered."""

    runs: int
    deliveries: int

    def __add__(self, other: "Walked") -> "Walked":
        return Walked(self.runs + other.runs, self.deliveries + other.deliveries)


Take = Callable[[Any], Awaitable[Sequence[Any]]]


async def _take_suspect(connection: Any) -> Sequence[Any]:  # noqa: ANN401 - as below
    return await walking.take_suspect(connection, TAKES_MAX)


class Walker:
    """Walks for one process. `woken` ends its sleep; `ordered` tells the claimer that there is work."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        current: Callable[[], int | None],
        clock: Clock,
        metrics: Metrics,
        ordered: Callable[[], None],
        woken: asyncio.Event,
    ) -> None:
        self._database = database
        self.settings = settings
        self._current = current
        self._metrics = metrics
        self._ordered = ordered
        self._woken = woken
        self._offload = Offload()
        # Versions of which a walk took too long here, and whose turn the last slow walk was.
        self._slow_versions: set[int] = set()
        self._slow_tenant = ""
        self._stopped = False
        # Set when it walks no more.
        self.ended = asyncio.Event()
        self._plans: OrderedDict[int, Walkable] = OrderedDict()
        self._idling = Idling(database, clock)

    async def run(self) -> None:
        """Walk until stopped; sleep only when nothing was due."""
        while not self._stopped:
            self._woken.clear()
            wait = await self._database.persist("walk", self._round)
            if wait > 0:
                try:
                    await asyncio.wait_for(self._woken.wait(), wait)
                except TimeoutError:
                    continue
        self.ended.set()

    def stop(self) -> None:
        """Walk no more. A walk under way ends as it does."""
        self._stopped = True
        self._woken.set()

    async def _round(self) -> float:
        """Walk once. Answers how long there will be nothing to do, unless somebody wakes us."""
        epoch = self._current()
        if epoch is None:
            return self.settings.poll_seconds
        walked = await self.run_once(epoch)
        if walked.deliveries:
            self._ordered()
        if walked.runs:
            await self._idling.work(epoch)
            if walked.runs < self.settings.batch_max:
                # For company: under load a walk of a few runs costs nearly what one of a hundred does.
                await asyncio.sleep(self.settings.linger_seconds)
            return 0.0
        return await self._idling.rest(epoch, self.settings.poll_seconds)

    async def run_once(self, epoch: int) -> Walked:
        """Take up one batch, some suspects, and a slow run."""
        count = self.settings.batch_max
        walked = await self._walk(epoch, lambda connection: walking.take(connection, count))
        for _ in range(SUSPECTS_MAX):
            suspect = await self._walk(epoch, _take_suspect, alone=True)
            walked += suspect
            if not suspect.runs or self._stopped:
                break
        return walked + await self._walk(epoch, self._take_slow, alone=True)

    async def _take_slow(self, connection: Any) -> Sequence[Any]:  # noqa: ANN401 - the pool's connection carries no types of ours
        rows = await walking.take_slow(connection, self._slow_tenant)
        if rows:
            self._slow_tenant = rows[0]["tenant_id"]
        return rows

    async def _walk(self, epoch: int, take: Take, *, alone: bool = False) -> Walked:
        """Walk a batch, or one run alone, and see to the note of it where that fails."""
        taken: list[int] = []
        try:
            return await self._transaction(epoch, take, taken, alone=alone)
        except CallLost as fault:
            log.warning("walk.lost", error=str(fault), runs=len(taken))
            await self._database.persist("walk", lambda: walking.suspect_ours(self._database, epoch))
            return Walked(len(taken), 0)
        except OF_DATA as fault:
            await self._answer_for(epoch, taken, fault)
            return Walked(len(taken), 0)
        except PASSING:
            await self._database.persist("walk", lambda: walking.put_down(self._database, epoch))
            raise
        except Exception:
            await self._database.persist("walk", lambda: walking.suspect_ours(self._database, epoch))
            raise

    async def _answer_for(self, epoch: int, taken: Sequence[int], fault: Exception) -> None:
        """What one of them has cannot be read or written. Which one, each shows alone."""
        words = ascii(str(fault))[1:-1][:WORDS_MAX]
        log.warning("walk.refused", error=type(fault).__name__, detail=words, runs=len(taken))
        if len(taken) > 1:
            await self._database.persist("walk", lambda: walking.suspect_ours(self._database, epoch))
            return
        words = f"data: {words}"
        for _ in await self._database.persist("walk", lambda: walking.refuse(self._database, epoch, words)):
            self._metrics.runs.labels("failed").inc()

    async def _transaction(self, epoch: int, take: Take, noted: list[int], *, alone: bool) -> Walked:
        async with self._database.transaction() as connection:
            rows = await take(connection)
            if not rows:
                return Walked(0, 0)
            noted += [row["id"] for row in rows]
            # Committed before the walk: a run that kills its walker is found by what it leaves here.
            died = await walking.note(self._database, epoch, noted)
            if died:
                # One of these runs was its walker's death, whoever that was: from now on each is walked alone.
                suspects = await walking.suspect(connection, died)
                log.warning("walk.died", runs=len(suspects))
                await walking.write(connection, epoch, ())
                return Walked(len(rows), 0)
            if fault_points.ARMED:
                fault_points.passing("walk.noted")
            batch = [walking.opened(row) async for row in with_breaks(rows)]
            now = await walking.forget_wakes(connection, noted)
            walked, frozen = await self._walk_all(connection, batch, now, alone=alone)
            await walking.write_orders(connection, frozen, now)
            await walking.write(connection, epoch, walked)
            if fault_points.ARMED:
                fault_points.passing("walk.before_commit")
        if fault_points.ARMED:
            fault_points.passing("walk.committed")
        self._count(walked)
        return Walked(len(batch), sum(len(one.order.recipients) for one in frozen))

    # What the domain is told, and what it says

    async def _walk_all(
        self,
        connection: Any,  # noqa: ANN401 - the pool's connection carries no types of ours
        batch: Sequence[Taken],
        now: float,
        *,
        alone: bool,
    ) -> tuple[list[tuple[Taken, Advance]], list[Frozen]]:
        """Walk those that are not at rest, and freeze what they order. Alone, a run may take its time."""
        walks = await self._told(connection, [taken for taken in batch if taken.run.status in MOVING], now)
        templates: dict[Place, Template] = {}
        again = walks
        while again:
            breaks = Breaks(TURN_SECONDS_MAX)
            for walk in again:
                await self._walk_one(connection, walk, alone=alone)
                await breaks.take()
            again = await self._refuse(connection, again, templates)
        slow = [walk.taken.run.id for walk in walks if walk.is_slow]
        if slow:
            await walking.mark_slow(connection, slow)
        walked = [(walk.taken, walk.came) for walk in walks if walk.came is not None]
        return walked, _frozen(walked, templates)

    async def _told(self, connection: Any, moving: Sequence[Taken], now: float) -> list[_Walk]:  # noqa: ANN401 - as above
        """What the world says to each."""
        await self._load(connection, {taken.version_id for taken in moving})
        sending = [
            (taken.run.id, node)
            for taken in moving
            for node, visit in taken.run.state.cursor.items()
            if visit.standing == "sending"
        ]
        results = await walking.results(connection, sending)
        # Also of those that do not wait for one: the node that does may be reached now.
        listening = [taken.run.id for taken in moving if self._plans[taken.version_id].waits_for_events]
        signals = await walking.signals(connection, listening)
        return [
            _Walk(
                taken,
                Facts(
                    now=now,
                    results=results.get(taken.run.id, {}),
                    signals=signals.get(taken.run.id, ()),
                    digests=await self._due_digests(connection, taken, now),
                ),
            )
            for taken in moving
        ]

    async def _walk_one(self, connection: Any, walk: _Walk, *, alone: bool) -> None:  # noqa: ANN401 - as above
        """Walk one run, asking the database for each digest that it comes to."""
        taken = walk.taken
        for _ in range(ROUNDS_MAX):
            try:
                walk.came = await self._advance(walk, alone=alone)
            except NeedsWorker:
                walk.came, walk.is_slow = None, True
                return
            except CallLost:
                raise
            except Exception as fault:  # a fault of ours in one run keeps no other from walking
                log.exception("walk.failed", run_id=taken.run.id)
                walk.came = failed(taken.run, f"walk: {type(fault).__name__}")
                return
            digests = dict(walk.facts.digests)
            for request in walk.came.digest_requests:
                if request.node not in digests:
                    digests[request.node] = await walking.enter_digest(connection, taken, request)
            if len(digests) == len(walk.facts.digests):
                return
            walk.facts = replace(walk.facts, digests=digests)
        walk.came = failed(taken.run, f"walk: more than {ROUNDS_MAX} digests")

    async def _advance(self, walk: _Walk, *, alone: bool) -> Advance:
        taken, facts = walk.taken, walk.facts
        plan, version = self._plans[taken.version_id], taken.version_id
        try:
            if version not in self._slow_versions:
                return advance(plan, taken.run, facts)
        except NeedsWorker:
            self._slow_versions.add(version)
        if not alone:
            raise NeedsWorker
        walked = await self._offload.call(taken.tenant_id, worker_functions.walk, version, plan.plan, taken.run, facts)
        if walked.cpu_seconds < QUICK_SECONDS:
            self._slow_versions.discard(version)
        return walked.came

    async def _refuse(
        self,
        connection: Any,  # noqa: ANN401 - as above
        walks: Sequence[_Walk],
        templates: dict[Place, Template],
    ) -> list[_Walk]:
        """Find what stored templates stand at; answers those that have ordered what cannot be frozen.

        They have to go another way: a delivery would stay without its template for ever, and no replay could mend it.
        """
        asked = {key: place for walk in walks for key, place in walk.places()}
        templates |= await walking.published(connection, set(asked.values()) - templates.keys())
        missing = {key: place for key, place in asked.items() if place not in templates}
        if not missing:
            return []
        words = await walking.unpublished(connection, dict.fromkeys(missing.values()))
        again = []
        for walk in walks:
            # Each node once: what it has ordered all the same is a fault of ours, and no reason to ask for ever.
            refused = {
                key[1]: words[place]
                for key, place in walk.places()
                if key in missing and key[1] not in walk.facts.refused
            }
            if refused:
                walk.facts = replace(walk.facts, refused={**walk.facts.refused, **refused})
                again.append(walk)
        return again

    async def _due_digests(self, connection: Any, taken: Taken, now: float) -> dict[str, DigestState]:  # noqa: ANN401 - as above
        due: dict[str, DigestState] = {}
        for node, visit in taken.run.state.cursor.items():
            if visit.standing == "digesting" and visit.until is not None:
                if visit.until <= now:
                    due[node] = await walking.collect_digest(connection, taken.run.id, node)
                else:
                    due[node] = DigestLeader(visit.until)
        return due

    async def _load(self, connection: Any, versions: set[int]) -> None:  # noqa: ANN401 - as above
        """Have these versions at hand."""
        missing = versions - self._plans.keys()
        for version in versions - missing:
            self._plans.move_to_end(version)
        if missing:
            for version, plan in (await walking.plans(connection, missing)).items():
                self._plans[version] = Walkable(plan, EVENT_LOOP_BOUNDS)
        while len(self._plans) > max(PLANS_CACHED_MAX, len(versions)):
            forgotten, _ = self._plans.popitem(last=False)
            self._slow_versions.discard(forgotten)

    def _count(self, walked: Sequence[tuple[Taken, Advance]]) -> None:
        for _, came in walked:
            if came.status in ("completed", "failed"):
                self._metrics.runs.labels(came.status).inc()
