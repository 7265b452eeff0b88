"""Batches: runs that are due or woken are taken up in one transaction, which writes what their walks come to."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import anyio
import structlog
from msgspec import Struct
from msgspec.structs import replace

from dispatcher.base import fault_points
from dispatcher.base.clock import Clock
from dispatcher.base.errors import CallLost, NeedsWorker
from dispatcher.base.loop_yielder import LoopYielder, yielding
from dispatcher.base.metrics import Metrics
from dispatcher.base.worker_process import Offload
from dispatcher.db.database import PASSING, Database
from dispatcher.features.runs.walk import enrolments, walking
from dispatcher.features.runs.walk.enrolments import Enrolments
from dispatcher.features.runs.walk.walking import (
    DATA_FAULTS,
    Connection,
    Frozen,
    Hand,
    Row,
    Taken,
    Template,
    TemplateKey,
)
from dispatcher.liquid.render_limits import EVENT_LOOP_LIMITS
from dispatcher.liquid.worker_functions import QUICK_SECONDS
from dispatcher.plans import worker_functions
from dispatcher.plans.texts import Bounds
from dispatcher.plans.walk.node_actions import contact_fields
from dispatcher.plans.walk.run import Advance, DigestLeader, DigestState, Facts, Order
from dispatcher.plans.walk.used_variables import contact_names, select_variables
from dispatcher.plans.walk.walk import Walkable, advance, failed

log = structlog.get_logger(__name__)

# A plan is some kilobytes, and what it was compiled to some more.
PLANS_CACHED_MAX = 500
# A run can come from one digest to another without waiting; each round asks the database about all that were reached.
ROUNDS_MAX = 1_000
# A run that was taken up so often without progress is not the victim of an accident: it becomes a dead letter.
CRASHES_MAX = 5
# Walks block the event loop for so long before HTTP and the pipeline may run. A single walk may take as long.
BLOCK_SECONDS_MAX = 0.005
# The limits of walks in this process; a run with texts that take longer is left to the worker process.
EVENT_LOOP_BOUNDS = Bounds(limits=EVENT_LOOP_LIMITS)
ABANDON_SECONDS_MAX = 1.0
WALKABLE_STATUSES = ("pending", "running", "waiting")
ERROR_CHARACTERS_MAX = 300


class _Walk(Struct):
    """A run that is being walked: its facts, and how it advances."""

    taken: Taken
    facts: Facts
    came: Advance | None = None
    # It is left to the worker process.
    is_slow: bool = False

    def template_keys(self) -> dict[str, TemplateKey]:
        """Return the stored templates of its orders, by node."""
        keys = {} if self.came is None else {one.node: _template_key(self.taken, one) for one in self.came.orders}
        return {node: key for node, key in keys.items() if key is not None}


def _template_key(taken: Taken, order: Order) -> TemplateKey | None:
    return None if order.template is None else (taken.tenant_id, taken.workspace_id, order.template, order.channel)


def _frozen(taken: Taken, order: Order, templates: Mapping[TemplateKey, Template]) -> Frozen:
    """Return an order with the published version of its template, and with the variables that this version reads."""
    key = _template_key(taken, order)
    if key is None:
        return Frozen(taken, order, None, order.variables)
    variables = select_variables(order.variables, templates[key].reads)
    if taken.run.contact_id is not None and "contact" in variables:
        variables["contact"] = contact_fields(variables["contact"], contact_names(templates[key].reads))
    return Frozen(taken, order, templates[key].version_id, variables)


class Walked(Struct, frozen=True):
    """The counts of a round: runs taken up, deliveries ordered."""

    runs: int
    deliveries: int

    def __add__(self, other: "Walked") -> "Walked":
        return Walked(self.runs + other.runs, self.deliveries + other.deliveries)


Take = Callable[[Connection], Awaitable[Sequence[Row]]]


class BatchWalker:
    """A hand of the walker: it walks one batch at a time, and knows the plans that it has walked."""

    def __init__(self, database: Database, number: int, clock: Clock, metrics: Metrics) -> None:
        self._database = database
        self._number = number
        self._clock = clock
        self._metrics = metrics
        self._offload = Offload()
        # Versions of which a walk took too long here, and the tenant of the last slow walk.
        self._slow_versions: set[int] = set()
        self._slow_tenant = ""
        self._plans: OrderedDict[int, Walkable] = OrderedDict()

    async def walk_batch(self, epoch: int, most: int, youngest: int) -> Walked:
        """Walk runs that are due or were woken, up to a number of each lane; of bulk, by wakes up to the `youngest`."""
        return await self._walk(self._hand(epoch), lambda connection: walking.take_batch(connection, most, youngest))

    async def walk_crashed(self, epoch: int) -> Walked:
        """Walk one run that has crashed its walker, alone."""
        take = partial(walking.take, argument=CRASHES_MAX, statement="take_crashed")
        return await self._walk(self._hand(epoch), take, alone=True)

    async def walk_slow(self, epoch: int) -> Walked:
        """Walk one slow run, alone."""
        return await self._walk(self._hand(epoch), self._take_slow, alone=True)

    def _hand(self, epoch: int) -> Hand:
        return Hand(epoch, self._number)

    async def _take_slow(self, connection: Connection) -> Sequence[Row]:
        rows = await walking.take(connection, self._slow_tenant, "take_slow")
        if not rows and self._slow_tenant:
            rows = await walking.take(connection, "", "take_slow")
        if rows:
            self._slow_tenant = rows[0]["tenant_id"]
        return rows

    async def _walk(self, hand: Hand, take: Take, *, alone: bool = False) -> Walked:
        """Walk a batch, or one run alone. If that fails, count the crash or delete the record of the walk."""
        taken: list[int] = []
        try:
            return await self._transaction(hand, take, taken, alone=alone)
        except CallLost as fault:
            log.warning("walk.lost", error=str(fault), runs=len(taken))
            await self._database.persist("walk", lambda: walking.count_own_crash(self._database, hand))
            return Walked(len(taken), 0)
        except DATA_FAULTS as fault:
            await self._refuse_data(hand, taken, fault)
            return Walked(len(taken), 0)
        except asyncio.CancelledError:
            # The other hand has crashed, or this epoch is over: these runs are not at fault.
            with anyio.move_on_after(ABANDON_SECONDS_MAX, shield=True), suppress(*PASSING):
                await walking.abandon_walk(self._database, hand)
            raise
        except PASSING:
            await self._database.persist("walk", lambda: walking.abandon_walk(self._database, hand))
            raise
        except Exception:
            await self._database.persist("walk", lambda: walking.count_own_crash(self._database, hand))
            raise

    async def _refuse_data(self, hand: Hand, taken: Sequence[int], fault: Exception) -> None:
        """Refuse a run with data that cannot be read or written; in a batch, first have each run walked alone."""
        words = ascii(str(fault))[1:-1][:ERROR_CHARACTERS_MAX]
        log.warning("walk.refused", error=type(fault).__name__, detail=words, runs=len(taken))
        if len(taken) > 1:
            await self._database.persist("walk", lambda: walking.count_own_crash(self._database, hand))
            return
        words = f"data: {words}"
        for run in await self._database.persist("walk", lambda: walking.refuse(self._database, hand, words)):
            self._metrics.count_run("failed", is_enrolment=run.is_enrolment)

    async def _transaction(self, hand: Hand, take: Take, noted: list[int], *, alone: bool) -> Walked:
        async with self._database.transaction() as connection:
            rows = await take(connection)
            if not rows:
                return Walked(0, 0)
            began = self._clock.monotonic()
            noted += [row["id"] for row in rows]
            # Committed before the walk: a run that kills its walker is found by what it leaves here.
            died = await walking.record_walk(self._database, hand, noted)
            if died:
                # One of these runs has crashed its walker: from now on each is walked alone.
                crashed = await walking.count_crashes(connection, died)
                log.warning("walk.died", runs=len(crashed))
                await walking.write(connection, hand, ())
                return Walked(len(rows), 0)
            if fault_points.ARMED:
                fault_points.passing("walk.noted")
            now = await walking.delete_wakes(connection, noted)
            found = await enrolments.load(connection, rows)
            batch = [
                walking.read_run(row, found.contacts.get(row["contact_id"]))
                async for row in yielding(rows)
                if row["id"] not in found.parked
            ]
            walked, frozen = await self._walk_all(connection, batch, found, now, alone=alone)
            await walking.write_orders(connection, frozen, now)
            await walking.write(connection, hand, walked)
            if fault_points.ARMED:
                fault_points.passing("walk.before_commit")
        if fault_points.ARMED:
            fault_points.passing("walk.committed")
        self._metrics.walk_seconds.observe(self._clock.monotonic() - began)
        self._metrics.walk_size.observe(len(rows))
        self._count(walked)
        return Walked(len(rows), sum(len(one.order.recipients) for one in frozen))

    async def _walk_all(
        self,
        connection: Connection,
        batch: Sequence[Taken],
        found: Enrolments,
        now: float,
        *,
        alone: bool,
    ) -> tuple[list[tuple[Taken, Advance]], list[Frozen]]:
        """Walk the runs that can move, and freeze their orders. A run that is walked alone may be slow."""
        moving = [taken for taken in batch if taken.run.status in WALKABLE_STATUSES]
        walks = await self._facts(connection, moving, found, now)
        templates: dict[TemplateKey, Template] = {}
        again = walks
        while again:
            breaks = LoopYielder(BLOCK_SECONDS_MAX)
            for walk in again:
                await self._walk_one(connection, walk, alone=alone)
                await breaks.take()
            again = await self._refuse(connection, again, templates)
        slow = [walk.taken.run.id for walk in walks if walk.is_slow]
        if slow:
            await walking.mark_slow(connection, slow)
        walked = [(walk.taken, walk.came) for walk in walks if walk.came is not None]
        return walked, [_frozen(taken, order, templates) for taken, came in walked for order in came.orders]

    async def _facts(
        self, connection: Connection, moving: Sequence[Taken], found: Enrolments, now: float
    ) -> list[_Walk]:
        """Return a walk for each run, with the facts that it may wait for."""
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
                    contact=found.contacts.get(taken.run.contact_id or 0),
                    pauses=found.pauses.get(taken.workflow_id, ()),
                ),
            )
            for taken in moving
        ]

    async def _walk_one(self, connection: Connection, walk: _Walk, *, alone: bool) -> None:
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
        self, connection: Connection, walks: Sequence[_Walk], templates: dict[TemplateKey, Template]
    ) -> list[_Walk]:
        """Find the published versions of templates; return the walks whose orders have none, to be walked again.

        A delivery of such an order would stay without its template for ever, and no replay could mend it.
        """
        asked = {key for walk in walks for key in walk.template_keys().values()}
        templates |= await walking.published(connection, asked - templates.keys())
        missing = asked - templates.keys()
        words = await walking.unpublished(connection, missing)
        again = []
        for walk in walks:
            known = walk.facts.refused
            # Each node once: an order that it repeats all the same is a fault of ours, and no reason to ask for ever.
            refused = {
                node: words[key] for node, key in walk.template_keys().items() if key in missing and node not in known
            }
            if refused:
                walk.facts = replace(walk.facts, refused={**known, **refused})
                again.append(walk)
        return again

    async def _due_digests(self, connection: Connection, taken: Taken, now: float) -> dict[str, DigestState]:
        due: dict[str, DigestState] = {}
        for node, visit in taken.run.state.cursor.items():
            if visit.standing == "digesting" and visit.until is not None:
                if visit.until <= now:
                    due[node] = await walking.collect_digest(connection, taken.run.id, node)
                else:
                    due[node] = DigestLeader(visit.until)
        return due

    async def _load(self, connection: Connection, versions: set[int]) -> None:
        """Load the plans of these versions into the cache."""
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
        for taken, came in walked:
            if came.status in ("completed", "failed"):
                self._metrics.count_run(came.status, is_enrolment=taken.run.contact_id is not None)
