"""The walker: takes up runs that are due or woken, a batch in one transaction, and writes what their walks come to."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg
import msgspec
import structlog
from msgspec import Struct

from dispatcher import faultpoints
from dispatcher.clock import Clock
from dispatcher.config import Walk as Settings
from dispatcher.domain.plans.freezing import cut
from dispatcher.domain.plans.run import Advance, Collected, Facts, Joined, Leading
from dispatcher.domain.plans.walk import Walkable, advance, failed
from dispatcher.metrics import Metrics
from dispatcher.store import instances, walking
from dispatcher.store.database import PASSING, Database
from dispatcher.store.walking import Frozen, Place, Taken

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
        async with self._database.connection() as connection, connection.transaction():
            rows = await (walking.take(connection, count) if count else walking.take_suspect(connection, TAKES_MAX))
            if not rows:
                return Walked(0, 0)
            noted += [row["id"] for row in rows]
            # Committed before the walk: a run that kills its walker is found by what it leaves here.
            died = await walking.note(self._database, epoch, noted)
            if faultpoints.ARMED:
                faultpoints.passing("walk.noted")
            if died:
                # One of these runs was its walker's death, whoever that was: from now on each is walked alone.
                suspects = await walking.suspect(connection, died)
                log.warning("walk.died", runs=len(suspects))
                await walking.write(connection, epoch, ())
                return Walked(len(rows), 0)
            batch = [walking.opened(row) for row in rows]
            now = await walking.forget_wakes(connection, noted)
            walked = await self._advance(connection, batch, now)
            frozen = await self._freeze(connection, walked)
            await walking.write_orders(connection, frozen, now)
            await walking.write(connection, epoch, walked)
            if faultpoints.ARMED:
                faultpoints.passing("walk.before_commit")
        if faultpoints.ARMED:
            faultpoints.passing("walk.committed")
        self._count(walked)
        return Walked(len(batch), sum(len(one.order.recipients) for one in frozen))

    # What the domain is told, and what it says

    async def _advance(self, connection: Any, batch: Sequence[Taken], now: float) -> list[tuple[Taken, Advance]]:  # noqa: ANN401 - the pool's connection carries no types of ours
        """Walk those that are not at rest."""
        moving = [taken for taken in batch if taken.run.status in ("pending", "running", "waiting")]
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
        walked = []
        for taken in moving:
            digests = await self._due_digests(connection, taken, now)
            facts = Facts(
                now=now,
                results=results.get(taken.run.id, {}),
                signals=signals.get(taken.run.id, ()),
                digests=digests,
            )
            walked.append((taken, await self._walk_one(connection, taken, facts)))
        return walked

    async def _walk_one(self, connection: Any, taken: Taken, facts: Facts) -> Advance:  # noqa: ANN401 - as above
        """Walk one run, asking the database for each digest that it comes to."""
        walkable = self._plans[taken.version_id]
        digests: dict[str, Leading | Joined | Collected] = dict(facts.digests)
        for _ in range(ROUNDS_MAX):
            told = Facts(now=facts.now, results=facts.results, signals=facts.signals, digests=digests)
            try:
                came = advance(walkable, taken.run, told)
            except Exception as fault:  # a fault of ours in one run keeps no other from walking
                log.exception("walk.failed", run_id=taken.run.id)
                return failed(taken.run, f"walk: {type(fault).__name__}")
            new = [wish for wish in came.wishes if wish.node not in digests]
            if not new:
                return came
            for wish in new:
                digests[wish.node] = await walking.enter_digest(connection, taken, wish)
        return failed(taken.run, f"walk: more than {ROUNDS_MAX} digests")

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

    async def _freeze(self, connection: Any, walked: Sequence[tuple[Taken, Advance]]) -> list[Frozen]:  # noqa: ANN401 - as above
        """Each order with the version of its template that is published now, and with what that reads."""
        asked: dict[tuple[int, str], Place] = {}
        for taken, came in walked:
            for order in came.orders:
                if order.template is not None:
                    asked[taken.run.id, order.node] = taken.tenant_id, taken.workspace_id, order.template, order.channel
        templates = await walking.published(connection, dict.fromkeys(asked.values()))
        frozen = []
        for taken, came in walked:
            for order in came.orders:
                place = asked.get((taken.run.id, order.node))
                template = None if place is None else templates.get(place)
                variables = order.variables if template is None else cut(order.variables, template.reads)
                frozen.append(Frozen(taken, order, None if template is None else template.version_id, variables))
        return frozen

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
