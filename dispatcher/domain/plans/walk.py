"""The walk: what becomes of a run, given what the world says. It is pure, and the same history gives the same result.

A run is at the nodes of its cursor. Each that has ended (its deliveries are over, its time has come, its event is
there) leaves the cursor, and what its edges lead to is entered; a walk goes on until everything left has to wait.

    entered ─▶ sending    until none of its deliveries is queued
            ─▶ delaying   until its time
            ─▶ waiting    until its event, or its time
            ─▶ digesting  until the window is over; or it has joined another run's and the path ends
            ─▶ (nothing)  branches, joins and delays of no time are passed at once
    arrived ─▶ joining    where several edges lead: until nothing else in the cursor can still come here

A run that is over in whatever way is not walked. When a node fails the run, everything that this walk has not finished
goes back to `joining`, which means arrived and not entered: a run that is set to running again goes on from there.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from dispatcher.domain.plans import results
from dispatcher.domain.plans.plan import Branch, Call, Delay, Digest, Join, Send, Wait
from dispatcher.domain.plans.run import (
    Advance,
    Collected,
    Entry,
    EventName,
    Facts,
    Joined,
    Leading,
    Order,
    Run,
    RunStatus,
    Signal,
    State,
    Visit,
    Wish,
)
from dispatcher.domain.plans.walkable import Place, Walkable
from dispatcher.domain.plans.working import Working
from dispatcher.errors import TemplateError

__all__ = ["Walkable", "advance", "failed"]

TIMEOUT: Final = "timeout"
_ENDED: Final = frozenset({"completed", "failed", "cancelled"})


def advance(walkable: Walkable, run: Run, facts: Facts) -> Advance:
    """Go on with a run as far as it can go. Nothing that is handed in is changed."""
    state = run.state
    if run.status in _ENDED:
        return Advance(state=state, status=run.status, cancels=run.status == "cancelled")
    if run.status == "paused":
        return Advance(state=_paused(state, facts.now), status="paused")
    walk = _Walk(walkable, run, facts)
    walk.go()
    return walk.result()


def _paused(state: State, now: float) -> State:
    """A run that is paused does not work: the time until it goes on is nobody's."""
    if state.working_since is None:
        return state
    working = Working(state, now, None)
    working.stop()
    return State(vars=state.vars, cursor=state.cursor, entries=state.entries, worked_seconds=working.worked_seconds)


def failed(run: Run, words: str) -> Advance:
    """A run that cannot be walked at all, whatever its plan says."""
    return Advance(state=run.state, status="failed", error=words, cancels=True)


class _Walk:
    """One walk of one run."""

    __slots__ = (
        "_arrived",
        "_context",
        "_cursor",
        "_entries",
        "_facts",
        "_failed",
        "_now",
        "_orders",
        "_places",
        "_run",
        "_taken",
        "_vars",
        "_walkable",
        "_wishes",
        "_working",
    )

    def __init__(self, walkable: Walkable, run: Run, facts: Facts) -> None:
        self._walkable = walkable
        self._places = walkable.places
        self._run = run
        self._facts = facts
        self._now = facts.now
        self._vars = run.state.vars
        self._cursor = dict(run.state.cursor)
        self._context: dict[str, Any] | None = None
        self._arrived: deque[Place] = deque()
        self._entries: list[Entry] = []
        self._orders: list[Order] = []
        self._wishes: list[Wish] = []
        self._taken: list[int] = []
        self._failed: tuple[str, str] | None = None
        self._working = Working(run.state, facts.now, walkable.plan.timeout_seconds)

    def go(self) -> None:
        """Look at every node of the cursor, and enter what they lead to, until nothing moves."""
        cursor = self._cursor
        if not cursor:
            self._arrive(self._walkable.entry)
        elif len(cursor) == 1:
            self._look(*next(iter(cursor.items())))
        else:
            places = self._places
            for name in sorted(cursor, key=lambda one: places[one].number):
                self._look(name, cursor[name])
                if self._failed:
                    return
        self._enter_arrived()

    def _enter_arrived(self) -> None:
        """Enter everything that was arrived at, first come first; then the meetings that nothing can come to."""
        arrived = self._arrived
        while arrived or self._meet():
            place = arrived.popleft()
            _ENTER[type(place.node)](self, place)
            if self._failed:
                return

    def _meet(self) -> bool:
        """Take up those that wait for others and have nobody left to wait for."""
        joining = [name for name, visit in self._cursor.items() if visit.standing == "joining"]
        if not joining:
            return False
        to_come = 0
        for name in self._cursor:
            to_come |= self._places[name].below
        free = [place for place in (self._places[name] for name in joining) if not place.bit & to_come]
        for place in sorted(free, key=lambda one: one.number):
            del self._cursor[place.id]
            self._arrived.append(place)
        return bool(free)

    # What has become of the nodes of the cursor

    def _look(self, name: str, visit: Visit) -> None:
        place = self._places[name]
        match visit.standing:
            case "sending":
                self._look_at_deliveries(place)
            case "delaying":
                if visit.until is None or self._now >= visit.until:
                    self._succeed(place)
            case "waiting":
                self._look_for_event(place, visit)
            case "digesting":
                self._look_at_digest(place, visit)
            case "joining":
                pass

    def _look_at_deliveries(self, place: Place) -> None:
        sents = self._facts.results.get(place.id, ())
        if not results.has_ended(sents):
            self._working.under_way(sents)
            return
        self._working.ended(sents)
        words = results.failure(sents)
        if words is not None:
            self._fail(place, words)
        elif isinstance(place.node, Call):
            data = results.of_call(sents)
            added = {place.id: data, place.result: data}
            self._succeed(place, {**data, **added} if self._walkable.plan.merges_data else added)
        else:
            result = results.of_send(sents)
            self._succeed(place, {place.id: result, place.result: result})

    def _look_for_event(self, place: Place, visit: Visit) -> None:
        node = place.node
        signal = self._signal(node.event) if isinstance(node, Wait) else None
        if signal is not None:
            self._taken.append(signal.id)
            self._succeed(place, {place.id: signal.data, place.result: signal.data})
        elif visit.until is not None and self._now >= visit.until:
            self._fail(place, TIMEOUT)

    def _signal(self, event: str) -> Signal | None:
        """The oldest event of that name that nobody has taken."""
        signals = [one for one in self._facts.signals if one.name == event and one.id not in self._taken]
        return min(signals, key=lambda one: one.id) if signals else None

    def _look_at_digest(self, place: Place, visit: Visit) -> None:
        match self._facts.digests.get(place.id):
            case Collected(items=items):
                result = {"count": len(items), "items": items}
                self._succeed(place, {place.id: result, place.result: result})
            case Joined(run=other):
                self._note(place, "skipped", error=f"collected by run {other}")
                self._leave(place, ())
            case Leading(until=until):
                self._cursor[place.id] = Visit("digesting", visit.since, until)
            case None:
                self._cursor[place.id] = visit
                if visit.until is None:
                    self._wish(place)

    def _wish(self, place: Place) -> None:
        try:
            self._wishes.append(place.ready.wish(self._see(), self._run.input))
        except TemplateError as fault:
            self._fail(place, _words(fault))

    # Entering

    def _arrive(self, place: Place) -> None:
        if not place.is_meeting:
            self._arrived.append(place)
        elif place.id not in self._cursor:
            self._cursor[place.id] = Visit("joining", self._now)

    def _enter_delivery(self, place: Place) -> None:
        context = self._see()
        self._note(place, "started", context)
        try:
            self._orders.append(place.ready.order(context))
        except TemplateError as fault:
            self._fail(place, _words(fault))
        else:
            self._cursor[place.id] = Visit("sending", self._now)

    def _enter_delay(self, place: Place) -> None:
        node = place.node
        seconds = node.seconds if isinstance(node, Delay) else None
        self._note(place, "started", self._see() if seconds is None else None)
        try:
            until = self._now + seconds if seconds is not None else place.ready.of(self._see())
        except TemplateError as fault:
            self._fail(place, _words(fault))
            return
        if until <= self._now:
            self._succeed(place)
        else:
            self._cursor[place.id] = Visit("delaying", self._now, until)

    def _enter_branch(self, place: Place) -> None:
        context = self._see()
        self._note(place, "started", context)
        try:
            taken = place.ready.taken(context)
        except TemplateError as fault:
            self._fail(place, _words(fault))
            return
        self._note(place, "succeeded")
        self._leave(place, (taken,) if taken is not None else ())

    def _enter_join(self, place: Place) -> None:
        self._note(place, "started")
        self._succeed(place)

    def _enter_wait(self, place: Place) -> None:
        self._note(place, "started")
        node = place.node
        seconds = node.timeout_seconds if isinstance(node, Wait) else None
        visit = Visit("waiting", self._now, None if seconds is None else self._now + seconds)
        self._cursor[place.id] = visit
        self._look_for_event(place, visit)

    def _enter_digest(self, place: Place) -> None:
        self._note(place, "started", self._see())
        visit = Visit("digesting", self._now)
        self._cursor[place.id] = visit
        self._look_at_digest(place, visit)

    # Leaving

    def _succeed(self, place: Place, added: Mapping[str, Any] | None = None) -> None:
        self._note(place, "succeeded", added=added)
        if added:
            self._add(added)
        self._leave(place, place.targets)

    def _fail(self, place: Place, words: str) -> None:
        """A node has failed: it is passed, or the run fails."""
        if place.node.on_failure != "continue":
            self._fail_run(place, words)
            return
        added = {f"step_{place.node.step}_error": words}
        self._note(place, "failed", added=added, error=words)
        self._add(added)
        if isinstance(place.node, Branch):
            self._leave(place, place.otherwise)
        else:
            self._leave(place, place.targets)

    def _fail_run(self, place: Place, words: str) -> None:
        """It stops here: what this walk has begun is undone, so that it can be begun anew."""
        self._failed = (place.id, words)
        self._note(place, "failed", error=words)
        begun = {one.node for one in self._orders} | {one.node for one in self._wishes}
        self._entries = [one for one in self._entries if one.event != "started" or one.node not in begun]
        visit = self._cursor.get(place.id)
        if visit is None or visit.standing != "sending":
            begun.add(place.id)
        for name in (*begun, *(one.id for one in self._arrived)):
            self._cursor[name] = Visit("joining", self._now)
        self._orders, self._wishes = [], []

    def _leave(self, place: Place, targets: tuple[Place, ...]) -> None:
        self._cursor.pop(place.id, None)
        for target in targets:
            self._arrive(target)
        if targets is not place.targets:
            self._skip(place)

    def _skip(self, place: Place) -> None:
        """Note what nothing can come to any more, now that this node has not led there."""
        alive = 0
        for name in self._cursor:
            alive |= self._places[name].bit | self._places[name].below
        for one in self._arrived:
            alive |= one.bit | one.below
        skipped = place.below & ~alive
        while skipped:
            lowest = skipped & -skipped
            self._note(self._walkable.by_number[lowest.bit_length() - 1], "skipped")
            skipped ^= lowest

    # What is kept

    def _see(self) -> dict[str, Any]:
        """The context, as it is now. It is never changed: what is added makes another."""
        if self._context is None:
            self._context = {**self._run.input, **self._vars}
        return self._context

    def _add(self, added: Mapping[str, Any]) -> None:
        self._vars = {**self._vars, **added}
        self._context = None

    def _note(
        self,
        place: Place,
        event: EventName,
        context: Mapping[str, Any] | None = None,
        added: Mapping[str, Any] | None = None,
        error: str | None = None,
    ) -> None:
        self._entries.append(
            Entry(node=place.id, step=place.node.step, event=event, context=context, added=added, error=error)
        )

    # The answer

    def result(self) -> Advance:
        """What it comes to."""
        is_working = any(visit.standing == "sending" for visit in self._cursor.values())
        if self._failed is None and is_working:
            self._working.go_on()
            self._check_deadline()
        if self._failed is not None:
            return self._failure(*self._failed)
        if not is_working:
            self._working.stop()
        status: RunStatus = "completed"
        if self._cursor:
            status = "running" if is_working else "waiting"
        return Advance(
            state=self._state(self._working.worked_seconds, self._working.since),
            status=status,
            available_at=self._available_at(),
            orders=self._orders,
            wishes=self._wishes,
            entries=self._entries,
            taken=self._taken,
        )

    def _check_deadline(self) -> None:
        deadline = self._working.deadline()
        if deadline is not None and self._now >= deadline:
            sending = (name for name, visit in self._cursor.items() if visit.standing == "sending")
            place = min((self._places[name] for name in sending), key=lambda one: one.number)
            self._fail_run(place, f"{TIMEOUT}: worked for more than {self._walkable.plan.timeout_seconds:g} seconds")

    def _failure(self, node: str, words: str) -> Advance:
        # Whoever goes on with it has all the time again.
        return Advance(
            state=self._state(0.0, None),
            status="failed",
            error=words,
            error_node=node,
            entries=self._entries,
            taken=self._taken,
            cancels=any(self._is_under_way(name, visit) for name, visit in self._cursor.items()),
        )

    def _is_under_way(self, name: str, visit: Visit) -> bool:
        return visit.standing == "sending" and not results.has_ended(self._facts.results.get(name, ()))

    def _state(self, worked_seconds: float, working_since: float | None) -> State:
        before = self._run.state
        made = State(
            vars=self._vars,
            cursor=self._cursor,
            entries=before.entries + len(self._entries),
            worked_seconds=worked_seconds,
            working_since=working_since,
        )
        return before if made == before else made

    def _available_at(self) -> float | None:
        """When to look at it without being woken: at the first time that is up."""
        if self._wishes:
            return self._now
        times = [visit.until for visit in self._cursor.values() if visit.until is not None]
        deadline = self._working.deadline()
        if deadline is not None:
            times.append(deadline)
        return min(times) if times else None


def _words(fault: TemplateError) -> str:
    return f"{fault.field.removeprefix('template.')}: {fault.reason}"


_ENTER: Final[Mapping[type, Callable[[_Walk, Place], None]]] = {
    Send: _Walk._enter_delivery,
    Call: _Walk._enter_delivery,
    Delay: _Walk._enter_delay,
    Branch: _Walk._enter_branch,
    Join: _Walk._enter_join,
    Wait: _Walk._enter_wait,
    Digest: _Walk._enter_digest,
}
