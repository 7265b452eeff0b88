"""The walk: the next state of a run, given the facts. It is pure: the same history gives the same result.

A run is at the nodes of its cursor. Each that has ended (its deliveries are over, its time has come, its event is
there) leaves the cursor, and what its edges lead to is entered; a walk goes on until everything left has to wait.

    entered ─▶ sending    until none of its deliveries is queued
            ─▶ delaying   until its time; an enrolment until its day and hour, which pauses of its sequence move
            ─▶ waiting    until its event, or its time
            ─▶ digesting  until the window is over; or it has joined another run's, and the path ends
            ─▶ (nothing)  branches, joins and delays of no time are passed at once
    arrived ─▶ joining    where several edges lead: until nothing else in the cursor can still come here

A run that is over, or paused, is not walked. When a node fails the run, everything that this walk has begun goes back
to `joining`, which means arrived and not entered: a run that is set to running again goes on from there.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from dispatcher.base.errors import TemplateError
from dispatcher.plans.plan import Branch, Call, Day, Delay, Digest, Join, Node, Send, Wait
from dispatcher.plans.walk.enrolment import GONE, NO_ADDRESS, STOPPED, Pace, to_contact
from dispatcher.plans.walk.journal import Journal
from dispatcher.plans.walk.results import failure, has_ended, result_of_send
from dispatcher.plans.walk.run import (
    Advance,
    DigestItems,
    DigestLeader,
    DigestMember,
    DigestRequest,
    Facts,
    Order,
    Run,
    RunStatus,
    Signal,
    State,
    Visit,
    failed,
)
from dispatcher.plans.walk.walkable import Place, Walkable
from dispatcher.plans.walk.working_time import Working

__all__ = ["Walkable", "advance", "failed"]

TIMEOUT: Final = "timeout"
_NOT_WALKED: Final = frozenset({"paused", "completed", "failed", "cancelled"})


def advance(walkable: Walkable, run: Run, facts: Facts) -> Advance:
    """Go on with a run as far as it can go. Nothing that is handed in is changed.

    Where the answer has digest requests, the same run is to be walked again with their answers among the facts, and the
    first answer dropped: the second has all that was in it.
    """
    if run.status in _NOT_WALKED:
        return Advance(state=run.state, status=run.status, cancels=run.status == "cancelled")
    walkable.begin()
    walk = _Walk(walkable, run, facts)
    walk.go()
    return walk.answer()


class _Walk:
    """A walk of a run."""

    def __init__(self, walkable: Walkable, run: Run, facts: Facts) -> None:
        self._walkable = walkable
        self._run = run
        self._facts = facts
        self._now = facts.now
        self._cursor = dict(run.state.cursor)
        self._journal = Journal(run, is_quiet=walkable.plan.is_sequence)
        self._pace = Pace(run, facts.contact)
        self._working = Working(run.state, facts.now, walkable.plan.timeout_seconds)
        self._arrived: deque[Place] = deque()
        self._orders: list[Order] = []
        self._ordered = 0
        self._digest_requests: list[DigestRequest] = []
        self._taken: list[int] = []
        self._failed: tuple[Place, str] | None = None
        self._is_cut_short = False
        # Why the enrolment ends here.
        self._stopped: str | None = None

    def go(self) -> None:
        """Look at every node of the cursor, and enter what they lead to, until nothing moves."""
        cursor, places = self._cursor, self._walkable.places
        if self._run.contact_id is not None:
            if self._facts.contact is None:
                self._stopped = GONE
                return
            self._pace.keep(self._facts, cursor, self._walkable.plan.nodes)
        if not cursor:
            self._arrive(self._walkable.entry)
        # In the order of the plan: a cursor out of the database has an order of its own.
        for name in sorted(cursor, key=lambda one: places[one].number) if len(cursor) > 1 else tuple(cursor):
            if (look := _LOOK.get(cursor[name].standing)) is not None:
                self._try(look, places[name], cursor[name])
            if self._failed is not None:
                return
        while self._arrived or self._meet():
            place = self._arrived.popleft()
            self._try(_ENTER[type(place.node)], place)
            if self._failed is not None or self._stopped is not None:
                return
            if self._ordered >= self._walkable.bounds.deliveries_max:
                self._cut_short()
                return

    def _try(self, act: Callable[..., None], place: Place, *visit: Visit) -> None:
        """Look at a node, or enter it; the node fails where its texts cannot be rendered."""
        try:
            act(self, place, *visit)
        except TemplateError as fault:
            self._fail(place, f"{fault.field.removeprefix('template.')}: {fault.reason}")

    def _meet(self) -> bool:
        """Enter the joining nodes that no other path can reach any more."""
        free = self._walkable.ready_joins(self._cursor)
        for place in free:
            del self._cursor[place.id]
        self._arrived.extend(free)
        return bool(free)

    def _cut_short(self) -> None:
        """Leave the nodes that are not entered yet to the next walk."""
        for place in self._arrived:
            self._cursor[place.id] = Visit("joining", self._now)
        self._is_cut_short = bool(self._arrived or self._walkable.ready_joins(self._cursor))
        self._arrived.clear()

    # Nodes of the cursor

    def _look_at_delay(self, place: Place, visit: Visit) -> None:
        if visit.until is None or self._now >= visit.until:
            self._succeed(place)

    def _look_at_deliveries(self, place: Place, visit: Visit) -> None:
        results = self._facts.results.get(place.id, ())
        # The day of a step is that on which it was ordered.
        if self._walkable.plan.from_previous:
            self._pace.anchor = visit.since
        is_over = has_ended(results)
        self._working.see(results, ended=is_over)
        if not is_over:
            return
        words = failure(results)
        if words is not None:
            self._fail(place, words)
        elif isinstance(place.node, Call):
            self._succeed_with(place, results[0].data or {}, merges=self._walkable.plan.merges_data)
        else:
            self._succeed_with(place, result_of_send(results))

    def _look_for_event(self, place: Place, visit: Visit) -> None:
        signal = self._signal(place.node)
        if signal is not None:
            self._taken.append(signal.id)
            self._succeed_with(place, signal.data)
        elif visit.until is not None and self._now >= visit.until:
            self._fail(place, TIMEOUT)

    def _signal(self, node: Node) -> Signal | None:
        """The oldest event that a node waits for and no other has taken."""
        if not self._facts.signals or not isinstance(node, Wait):
            return None
        signals = [one for one in self._facts.signals if one.name == node.event and one.id not in self._taken]
        return min(signals, key=lambda one: one.id) if signals else None

    def _look_at_digest(self, place: Place, visit: Visit) -> None:
        match self._facts.digests.get(place.id):
            case DigestItems(items=items):
                self._succeed_with(place, {"count": len(items), "items": list(items)})
            case DigestMember(run=other):
                self._journal.note(place, "skipped", error=f"collected by run {other}")
                self._leave(place, ())
            case DigestLeader(until=until):
                self._cursor[place.id] = Visit("digesting", visit.since, until)
            case None:
                self._cursor[place.id] = visit
                if visit.until is None:
                    self._digest_requests.append(place.action(self._journal.context(), self._run.input))

    # Entering

    def _arrive(self, place: Place) -> None:
        if not place.is_meeting:
            self._arrived.append(place)
        elif place.id not in self._cursor:
            self._cursor[place.id] = Visit("joining", self._now)

    def _enter_delivery(self, place: Place) -> None:
        context = self._journal.context()
        self._journal.note(place, "started", context=context)
        stop_if = self._walkable.stop_if
        if stop_if is not None and stop_if(context):
            self._stopped = STOPPED
            self._cursor[place.id] = Visit("joining", self._now)
            return
        words = self._facts.refused.get(place.id)
        if words is not None:
            self._fail(place, words)
            return
        order = place.action(context)
        if isinstance(place.node, Send) and place.node.contact_kind is not None:
            order = to_contact(order, place.node.contact_kind, self._facts.contact)
        self._orders.append(order)
        if order.ended is not None:
            self._pace.anchor = self._now if self._walkable.plan.from_previous else self._pace.anchor
            self._journal.note(place, "skipped", error=NO_ADDRESS)
            self._leave(place, place.targets)
            return
        self._ordered += len(order.recipients)
        self._cursor[place.id] = Visit("sending", self._now)

    def _enter_day(self, place: Place) -> None:
        until = self._pace.day(place.node, self._pace.anchor) if isinstance(place.node, Day) else self._now
        if until <= self._now:
            self._leave(place, place.targets)
        else:
            self._cursor[place.id] = Visit("delaying", self._now, until)

    def _enter_delay(self, place: Place) -> None:
        node = place.node
        seconds = node.seconds if isinstance(node, Delay) else None
        context = self._journal.context() if seconds is None else None
        self._journal.note(place, "started", context=context)
        until = self._now + seconds if seconds is not None else place.action(context)
        if until <= self._now:
            self._succeed(place)
        else:
            self._cursor[place.id] = Visit("delaying", self._now, until)

    def _enter_branch(self, place: Place) -> None:
        context = self._journal.context()
        self._journal.note(place, "started", context=context)
        taken = place.action(context)
        self._journal.note(place, "succeeded")
        self._leave(place, () if taken is None else (taken,))

    def _enter_join(self, place: Place) -> None:
        self._journal.note(place, "started")
        self._succeed(place)

    def _enter_wait(self, place: Place) -> None:
        self._journal.note(place, "started")
        node = place.node
        seconds = node.timeout_seconds if isinstance(node, Wait) else None
        visit = Visit("waiting", self._now, None if seconds is None else self._now + seconds)
        self._cursor[place.id] = visit
        self._look_for_event(place, visit)

    def _enter_digest(self, place: Place) -> None:
        self._journal.note(place, "started", context=self._journal.context())
        self._look_at_digest(place, Visit("digesting", self._now))

    # Leaving

    def _succeed(self, place: Place, added: Mapping[str, Any] | None = None) -> None:
        self._journal.note(place, "succeeded", added=added)
        self._leave(place, place.targets)

    def _succeed_with(self, place: Place, result: Mapping[str, Any], *, merges: bool = False) -> None:
        if self._walkable.plan.is_sequence:
            self._succeed(place)
            return
        more = result if merges else {}
        self._succeed(place, {**more, place.id: result, place.result: result})

    def _fail(self, place: Place, words: str) -> None:
        """A node has failed: it is passed, or the run fails."""
        if place.node.on_failure != "continue":
            self._fail_run(place, words)
            return
        added = None if self._walkable.plan.is_sequence else {place.error: words}
        self._journal.note(place, "failed", added=added, error=words)
        self._leave(place, place.otherwise if isinstance(place.node, Branch) else place.targets)

    def _leave(self, place: Place, targets: tuple[Place, ...]) -> None:
        self._cursor.pop(place.id, None)
        for target in targets:
            self._arrive(target)
        if targets is not place.targets:
            for one in self._walkable.unreachable(place, self._cursor, self._arrived):
                self._journal.note(one, "skipped")

    def _fail_run(self, place: Place, words: str) -> None:
        """Fail the run. What this walk has begun and not finished is undone, so that it can be begun again."""
        self._failed = (place, words)
        self._journal.note(place, "failed", error=words)
        begun = {one.node for one in self._orders} | {one.node for one in self._digest_requests}
        self._journal.remove_starts(begun)
        visit = self._cursor.get(place.id)
        # A node with deliveries keeps them, to be opened again.
        if visit is None or visit.standing != "sending":
            begun.add(place.id)
        for name in (*begun, *(one.id for one in self._arrived)):
            self._cursor[name] = Visit("joining", self._now)

    # The answer

    def answer(self) -> Advance:
        """The outcome of the walk."""
        if self._stopped is not None:
            return Advance(
                state=self._state(0.0, None),
                status="cancelled",
                error=self._stopped,
                orders=self._orders,
                entries=self._journal.entries,
                cancels=True,
            )
        is_working = self._is_working()
        if self._failed is None:
            self._working.settle(is_working=is_working)
            self._check_deadline()
        if self._failed is not None:
            return self._failure(*self._failed)
        status: RunStatus = "completed"
        if self._cursor:
            status = "running" if is_working else "waiting"
        return Advance(
            state=self._state(self._working.worked_seconds, self._working.since),
            status=status,
            available_at=self._available_at(),
            orders=self._orders,
            digest_requests=self._digest_requests,
            entries=self._journal.entries,
            taken=self._taken,
            anchor=self._pace.anchor,
        )

    def _is_working(self) -> bool:
        return any(visit.standing == "sending" for visit in self._cursor.values())

    def _check_deadline(self) -> None:
        deadline = self._working.deadline()
        if deadline is not None and self._now >= deadline:
            places = self._walkable.places
            sending = [places[name] for name, visit in self._cursor.items() if visit.standing == "sending"]
            words = f"{TIMEOUT}: worked for more than {self._walkable.plan.timeout_seconds:g} seconds"
            self._fail_run(min(sending, key=lambda one: one.number), words)

    def _failure(self, place: Place, words: str) -> Advance:
        # Nothing is ordered, and a replay has the whole time limit again.
        return Advance(
            state=self._state(0.0, None),
            status="failed",
            error=words,
            error_node=place.id,
            entries=self._journal.entries,
            taken=self._taken,
            cancels=any(self._is_under_way(name, visit) for name, visit in self._cursor.items()),
            anchor=self._pace.anchor,
        )

    def _is_under_way(self, name: str, visit: Visit) -> bool:
        return visit.standing == "sending" and not has_ended(self._facts.results.get(name, ()))

    def _state(self, worked_seconds: float, working_since: float | None) -> State:
        before, entries = self._run.state, len(self._journal.entries)
        made = State(
            vars=self._journal.vars,
            cursor=self._cursor,
            entries=before.entries + entries,
            worked_seconds=worked_seconds,
            working_since=working_since,
            paced=self._pace.paced,
            then=None if self._failed or self._stopped else self._pace.then(self._walkable, self._cursor, self._now),
        )
        return before if not entries and made == before else made

    def _available_at(self) -> float | None:
        """When to look at it without being woken: at the first time that is up."""
        if self._digest_requests or self._is_cut_short:
            return self._now
        times = [visit.until for visit in self._cursor.values() if visit.until is not None]
        deadline = self._working.deadline()
        if deadline is not None:
            times.append(deadline)
        return min(times) if times else None


_LOOK: Final[Mapping[str, Callable[[_Walk, Place, Visit], None]]] = {
    "sending": _Walk._look_at_deliveries,
    "delaying": _Walk._look_at_delay,
    "waiting": _Walk._look_for_event,
    "digesting": _Walk._look_at_digest,
}
_ENTER: Final[Mapping[type, Callable[[_Walk, Place], None]]] = {
    Send: _Walk._enter_delivery,
    Call: _Walk._enter_delivery,
    Delay: _Walk._enter_delay,
    Day: _Walk._enter_day,
    Branch: _Walk._enter_branch,
    Join: _Walk._enter_join,
    Wait: _Walk._enter_wait,
    Digest: _Walk._enter_digest,
}
