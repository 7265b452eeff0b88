"""The walker: takes up runs that are due or woken, a batch in one transaction, and writes what their walks come to."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import asyncpg
import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from dispatcher import faultpoints
from dispatcher.clock import Clock
from dispatcher.config import Walk as Settings
from dispatcher.domain.plans.freezing import cut
from dispatcher.domain.plans.run import Advance, Collected, Facts, Joined, Leading
from dispatcher.domain.plans.walk import Walkable, advance, failed
from dispatcher.metrics import Metrics
from dispatcher.store import instances, walking
from dispatcher.store.database import PASSING, Database
from dispatcher.store.walking import Frozen, Place, Taken, Template

log = structlog.get_logger(__name__)

# A plan is some kilobytes, and what it was compiled to some more.
PLANS_KEPT_MAX = 500
# A run can come from one digest to another without waiting; each round asks the database about all that were reached.
ROUNDS_MAX = 1_000
# Found busy for this long without a pause, triggers and wakes need not notify any more.
BUSY_SECONDS = 0.25
# Whoever looked for idle walkers just before we said that we are may commit just after our last look.
SETTLE_SECONDS = (0.02, 0.08, 0.3)
# What is due and cannot be taken is locked by somebody, who may take long.
LOCKED_SECONDS = 0.05
# Taken up so often without coming further, a run is no accident's victim.
TAKES_MAX = 5
# Suspects are walked alone, so many after each batch: what is well does not wait for them.
SUSPECTS_MAX = 20
# Walked before others on the loop have their turn: answers over HTTP, the pipeline. Each takes some 50 us.
WALKS_MAX = 50
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
            variables = order.variables if template is None else cut(order.variables, template.reads)
            frozen.append(Frozen(taken, order, None if template is None else template.version_id, variables))
    return frozen


class Walked(Struct, frozen=True):
    """What a round did: so many runs were taken up, and so many deliveries ordered."""

    runs: int
    deliveries: int


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
        self._clock = clock
        self._metrics = metrics
        self._ordered = ordered
        self._woken = woken
        self._stopped = False
        # Set when it walks no more.
        self.ended = asyncio.Event()
        self._plans: OrderedDict[int, Walkable] = OrderedDict()
        # The epoch that has asked to be woken.
        self._asking: int | None = None
        self._busy_since: float | None = None
        self._settling = 0

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
            await self._work(epoch)
            if walked.runs < self.settings.batch_max:
                # For company: under load a walk of a few runs costs nearly what one of a hundred does.
                await asyncio.sleep(self.settings.linger_seconds)
            return 0.0
        return await self._rest(epoch)

    async def run_once(self, epoch: int) -> Walked:
        """Take up one batch, and some suspects."""
        walked = await self._walk(epoch, self.settings.batch_max)
        for _ in range(SUSPECTS_MAX):
            suspect = await self._walk(epoch, 0)
            walked = Walked(walked.runs + suspect.runs, walked.deliveries + suspect.deliveries)
            if not suspect.runs or self._stopped:
                break
        return walked

    async def _walk(self, epoch: int, count: int) -> Walked:
        """Walk a batch, or a suspect where none is counted, and see to the note of it where that fails."""
        taken: list[int] = []
        try:
            return await self._transaction(epoch, count, taken)
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

    async def _transaction(self, epoch: int, count: int, noted: list[int]) -> Walked:
        async with self._database.transaction() as connection:
            rows = await (walking.take(connection, count) if count else walking.take_suspect(connection, TAKES_MAX))
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
            if faultpoints.ARMED:
                faultpoints.passing("walk.noted")
            batch = [walking.opened(row) for row in rows]
            now = await walking.forget_wakes(connection, noted)
            walked, frozen = await self._walk_all(connection, batch, now)
            await walking.write_orders(connection, frozen, now)
            await walking.write(connection, epoch, walked)
            if faultpoints.ARMED:
                faultpoints.passing("walk.before_commit")
        if faultpoints.ARMED:
            faultpoints.passing("walk.committed")
        self._count(walked)
        return Walked(len(batch), sum(len(one.order.recipients) for one in frozen))

    # What the domain is told, and what it says

    async def _walk_all(
        self,
        connection: Any,  # noqa: ANN401 - the pool's connection carries no types of ours
        batch: Sequence[Taken],
        now: float,
    ) -> tuple[list[tuple[Taken, Advance]], list[Frozen]]:
        """Walk those that are not at rest, and freeze what they order."""
        walks = await self._told(connection, [taken for taken in batch if taken.run.status in MOVING], now)
        templates: dict[Place, Template] = {}
        again = walks
        while again:
            for number, walk in enumerate(again, 1):
                await self._walk_one(connection, walk)
                if number % WALKS_MAX == 0:
                    await asyncio.sleep(0)
            again = await self._refuse(connection, again, templates)
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
        listening = [taken.run.id for taken in moving if self._plans[taken.version_id].listens]
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

    async def _walk_one(self, connection: Any, walk: _Walk) -> None:  # noqa: ANN401 - as above
        """Walk one run, asking the database for each digest that it comes to."""
        taken = walk.taken
        for _ in range(ROUNDS_MAX):
            try:
                walk.came = advance(self._plans[taken.version_id], taken.run, walk.facts)
            except Exception as fault:  # a fault of ours in one run keeps no other from walking
                log.exception("walk.failed", run_id=taken.run.id)
                walk.came = failed(taken.run, f"walk: {type(fault).__name__}")
                return
            digests = dict(walk.facts.digests)
            for wish in walk.came.wishes:
                if wish.node not in digests:
                    digests[wish.node] = await walking.enter_digest(connection, taken, wish)
            if len(digests) == len(walk.facts.digests):
                return
            walk.facts = replace(walk.facts, digests=digests)
        walk.came = failed(taken.run, f"walk: more than {ROUNDS_MAX} digests")

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

    async def _due_digests(self, connection: Any, taken: Taken, now: float) -> dict[str, Leading | Joined | Collected]:  # noqa: ANN401 - as above
        due: dict[str, Leading | Joined | Collected] = {}
        for node, visit in taken.run.state.cursor.items():
            if visit.standing == "digesting" and visit.until is not None:
                if visit.until <= now:
                    due[node] = await walking.collect_digest(connection, taken.run.id, node)
                else:
                    due[node] = Leading(visit.until)
        return due

    async def _load(self, connection: Any, versions: set[int]) -> None:  # noqa: ANN401 - as above
        """Have these versions at hand."""
        missing = versions - self._plans.keys()
        for version in versions - missing:
            self._plans.move_to_end(version)
        if missing:
            for version, plan in (await walking.plans(connection, missing)).items():
                self._plans[version] = Walkable.of(plan)
        while len(self._plans) > max(PLANS_KEPT_MAX, len(versions)):
            self._plans.popitem(last=False)

    def _count(self, walked: Sequence[tuple[Taken, Advance]]) -> None:
        for _, came in walked:
            if came.status in ("completed", "failed"):
                self._metrics.runs.labels(came.status).inc()

    # Being woken

    async def _work(self, epoch: int) -> None:
        """Busy for a while: nobody has to wake us."""
        now = self._clock.monotonic()
        self._settling = 0
        if self._busy_since is None:
            self._busy_since = now
        elif self._asking == epoch and now - self._busy_since > BUSY_SECONDS:
            await instances.ask_to_be_woken_for_runs(self._database, epoch, wanted=False)
            self._asking = None

    async def _rest(self, epoch: int) -> float:
        """Nothing was due: ask to be woken, look once more, and say how long to sleep."""
        self._busy_since = None
        if self._asking != epoch:
            await instances.ask_to_be_woken_for_runs(self._database, epoch, wanted=True)
            self._asking = epoch
            self._settling = 0
            return SETTLE_SECONDS[0]
        self._settling += 1
        due = await walking.next_due(self._database)
        wait = self.settings.poll_seconds
        if due is not None:
            wait = min(wait, due if due > 0 else LOCKED_SECONDS)
        return min(wait, SETTLE_SECONDS[self._settling]) if self._settling < len(SETTLE_SECONDS) else wait
