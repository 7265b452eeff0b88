"""Simulation: what a trigger would do, step by step, without doing any of it.

It is the walk itself, given facts where each message is sent at once, each function answers, each digest leads and
collects no other run, and each event comes at once, unless the run would go on without it.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from dispatcher.engine.rules.life import success_status
from dispatcher.plans.plan import Branch, Call, Digest, Node, Send, Wait
from dispatcher.plans.simulation.assumptions import Assumptions
from dispatcher.plans.walk.run import (
    Advance,
    DeliveryResult,
    DigestItems,
    DigestLeader,
    DigestState,
    Entry,
    Facts,
    Order,
    Run,
    Signal,
    State,
)
from dispatcher.plans.walk.walk import advance
from dispatcher.plans.walk.walkable import Place, Walkable

Assumed = Mapping[str, Mapping[str, Any]]
_NOTHING: Final[Assumed] = {}


class Step(Struct, kw_only=True):
    """A node that would be visited; or one that would not, because no branch leads there.

    `depends_on` names nodes whose results its texts, or a branch's conditions, read: they are assumed, not known.
    """

    node: str
    step: int
    kind: str
    at: float
    # When it goes on: later than `at` for a delay, a digest, or a wait that comes to nothing.
    until: float | None = None
    order: Order | None = None
    leads_to: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    assumed: str | None = None
    error: str | None = None
    is_skipped: bool = False


def simulate(
    walkable: Walkable,
    input: Mapping[str, Any],  # noqa: A002 - what a run calls it
    now: float,
    assumed: Assumed = _NOTHING,
) -> list[Step]:
    """The simulated run of a trigger. `assumed` has, by node, what functions answer and events bring."""
    simulation = _Simulation(walkable, input, now, assumed)
    while simulation.go_on():
        pass
    return simulation.steps


class _Simulation:
    """A run, and the facts that its walks would be given."""

    def __init__(
        self,
        walkable: Walkable,
        input: Mapping[str, Any],  # noqa: A002 - as above
        now: float,
        assumed: Assumed,
    ) -> None:
        self._walkable = walkable
        self._now = now
        self._assumptions = Assumptions(walkable.plan, assumed)
        self._run = Run(id=0, created_at=now, status="pending", input=input, state=State())
        self._results: dict[str, list[DeliveryResult]] = {}
        self._signals: list[Signal] = []
        self._digests: dict[str, DigestState] = {}
        self._visited: dict[str, Step] = {}
        self._available_at: float | None = None
        # What the branch that was entered last saw.
        self._context: Mapping[str, Any] | None = None
        self.steps: list[Step] = []

    def go_on(self) -> bool:
        """Walk once, and make up the next facts; False when the run is over."""
        facts = Facts(now=self._now, results=self._results, signals=self._signals, digests=self._digests)
        answer = advance(self._walkable, self._run, facts)
        self._apply(answer)
        self._digests |= {one.node: DigestLeader(self._now + one.window_seconds) for one in answer.digest_requests}
        return self._run.status in ("running", "waiting") and self._next_facts()

    def _apply(self, answer: Advance) -> None:
        for entry in answer.entries:
            self._note(entry)
        for order in answer.orders:
            self._visited[order.node].order = order
        for name, visit in answer.state.cursor.items():
            if visit.until is not None and name in self._visited:
                self._visited[name].until = visit.until
        self._available_at = answer.available_at
        self._signals = [one for one in self._signals if one.id not in answer.taken]
        self._run = replace(self._run, status=answer.status, state=answer.state)

    def _note(self, entry: Entry) -> None:
        step = self._visited.get(entry.node)
        if step is None:
            step = self._step(self._walkable.places[entry.node])
            step.is_skipped = entry.event == "skipped"
            self._visited[entry.node] = step
            self.steps.append(step)
        if entry.event == "failed":
            step.error = entry.error
        if isinstance(self._walkable.plan.nodes[entry.node], Branch):
            self._note_choice(step, entry)

    def _note_choice(self, step: Step, entry: Entry) -> None:
        """The edge that a branch takes; whether it can be told is known when its entry succeeds."""
        place = self._walkable.places[entry.node]
        if entry.event == "started":
            self._context = entry.context
        elif entry.event == "succeeded":
            taken = place.action(dict(self._context or {}))
            step.leads_to = () if taken is None else (taken.id,)
        elif entry.event == "failed":
            step.leads_to = tuple(one.id for one in place.otherwise)

    def _step(self, place: Place) -> Step:
        return Step(
            node=place.id,
            step=place.node.step,
            kind=str(type(place.node).__struct_config__.tag),
            at=self._now,
            leads_to=tuple(one.id for one in place.targets),
            depends_on=self._assumptions.depends_on(place.id),
            assumed=self._assumed(place),
        )

    def _assumed(self, place: Place) -> str | None:
        is_given = self._assumptions.is_given(place.id)
        match place.node:
            case Send():
                return "each message is sent"
            case Call():
                return "the function answers" + ("" if is_given else " what is made up here")
            case Wait() if self._comes(place.node, place.id):
                return "the event comes" + ("" if is_given else " with what is made up here")
            case Wait():
                return "the event does not come"
            case Digest():
                return "it is the first of its key, and no other comes"
            case _:
                return None

    def _comes(self, node: Node, name: str) -> bool:
        """Whether the event of a wait comes: it does, unless the run would go on without it."""
        if not isinstance(node, Wait):
            return False
        return self._assumptions.is_given(name) or node.timeout_seconds is None or node.on_failure != "continue"

    def _next_facts(self) -> bool:
        """Deliveries end, then events come, then time passes; False where nothing would ever happen."""
        cursor = self._run.state.cursor
        sending = [name for name, visit in cursor.items() if visit.standing == "sending"]
        if sending:
            self._results |= {name: self._sents(name) for name in sending}
            return True
        places = [self._walkable.places[name] for name, visit in cursor.items() if visit.standing == "waiting"]
        coming = [place for place in places if self._comes(place.node, place.id)]
        if coming:
            self._signals += [self._signal(place) for place in coming]
            return True
        if self._available_at is None:
            return False
        self._now = max(self._now, self._available_at)
        for name, told in self._digests.items():
            if isinstance(told, DigestLeader) and told.until <= self._now:
                self._digests[name] = DigestItems([self._run.input])
        return True

    def _sents(self, name: str) -> list[DeliveryResult]:
        order = self._visited[name].order
        if order is None:
            return []
        is_call = isinstance(self._walkable.plan.nodes[name], Call)
        return [
            DeliveryResult(
                recipient=recipient,
                status=success_status(order.channel),
                message_id=f"made-up-{name}-{number}",
                finished_at=self._now,
                data=self._assumptions.data(name) if is_call else None,
            )
            for number, recipient in enumerate(order.recipients, start=1)
        ]

    def _signal(self, place: Place) -> Signal:
        event = place.node.event if isinstance(place.node, Wait) else ""
        return Signal(place.number, event, self._assumptions.data(place.id))
