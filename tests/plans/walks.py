"""Plans, runs and a world for them: what the tests of the walk have in common."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec.structs import replace

from dispatcher.plans.plan import Edge, Plan, Send
from dispatcher.plans.texts import Bounds
from dispatcher.plans.walk.run import (
    Advance,
    DeliveryResult,
    DigestState,
    Entry,
    Facts,
    Order,
    Run,
    Signal,
    State,
    decode_state,
    encode_state,
)
from dispatcher.plans.walk.walk import Walkable, advance

Ways = Mapping[str, Sequence[str | tuple[str, str | None]]]


def plan(nodes: Mapping[str, Any], ways: Ways | None = None, entry: str | None = None, **more: Any) -> Plan:
    """A plan; without ways its nodes stand in a line."""
    names = list(nodes)
    if ways is None:
        ways = {name: [following] for name, following in pairwise(names)}
    edges = {
        name: tuple(Edge(*one) if isinstance(one, tuple) else Edge(one) for one in several)
        for name, several in ways.items()
    }
    return Plan(name="plan", entry=entry or names[0], nodes=nodes, edges=edges, **more)


def send(step: int, *to: str, **more: Any) -> Send:
    """A send on a channel of no matter."""
    given: dict[str, Any] = {"channel": "sms", "to": to or ("ann",), "parts": {"body": "Hello"}} | more
    return Send(step=step, **given)


def stored(state: State) -> State:
    """A state as the database gives it back: in an order of its own."""
    shuffled = msgspec.json.encode(msgspec.to_builtins(state), order="sorted")
    return decode_state(shuffled)


def sent(who: str = "ann", status: str = "sent", **more: Any) -> DeliveryResult:
    """A delivery that has ended."""
    given: dict[str, Any] = {"message_id": f"m-{who}", "finished_at": 1_000.0} if status == "sent" else {}
    return DeliveryResult(recipient=who, status=status, **(given | more))


class World:
    """One run, walked: it has the time, deliveries, events and digests, and keeps everything that happened."""

    def __init__(self, given: Plan, input: Mapping[str, Any] | None = None, bounds: Bounds = Bounds()) -> None:  # noqa: A002, B008 - the run's name for it; it is frozen
        self.plan = given
        self.walkable = Walkable(given, bounds)
        self.now = 1_000.0
        self.run = Run(id=1, created_at=0.0, status="pending", input=input or {}, state=State())
        self.deliveries: dict[str, list[DeliveryResult]] = {}
        self.signals: list[Signal] = []
        self.digests: dict[str, DigestState] = {}
        self.orders: list[Order] = []
        self.log: list[Entry] = []
        self.answer: Advance | None = None

    def facts(self) -> Facts:
        """What the world says now."""
        return Facts(now=self.now, results=self.deliveries, signals=self.signals, digests=self.digests)

    def look(self) -> Advance:
        """A walk whose transaction was lost."""
        return advance(self.walkable, self.run, self.facts())

    def walk(self) -> Advance:
        """A walk, and all that it answers written down."""
        return self.keep(self.look())

    def keep(self, answer: Advance) -> Advance:
        """Write down what a walk answers."""
        for order in answer.orders:
            assert order.node not in self.deliveries, "ordered twice"
            self.deliveries[order.node] = [DeliveryResult(recipient=one, status="queued") for one in order.recipients]
        if answer.cancels:
            self._cancel()
        self.orders += answer.orders
        self.log += answer.entries
        self.signals = [one for one in self.signals if one.id not in answer.taken]
        self.run = replace(self.run, status=answer.status, state=stored(answer.state))
        assert answer.state.entries == len(self.log)
        self.answer = answer
        return answer

    def _cancel(self) -> None:
        for node, several in self.deliveries.items():
            self.deliveries[node] = [
                replace(one, status="skipped", error="cancelled: its run") if one.status == "queued" else one
                for one in several
            ]

    def ends(self, node: str, status: str = "sent", place: int = 0, **more: Any) -> None:
        """One delivery of a node ends."""
        several = self.deliveries[node]
        several[place] = sent(several[place].recipient, status, **more)

    def replay(self) -> None:
        """As `replay_run` does it."""
        for node in self.run.state.cursor:
            self.deliveries[node] = [
                DeliveryResult(recipient=one.recipient, status="queued")
                if one.status == "failed" or (one.error or "").startswith("cancelled: its run")
                else one
                for one in self.deliveries.get(node, ())
            ]
            if not self.deliveries[node]:
                del self.deliveries[node]
        self.run = replace(self.run, status="running")

    def events(self, node: str) -> list[str]:
        """The log entries of a node."""
        return [one.event for one in self.log if one.node == node]

    def cursor(self) -> dict[str, str]:
        """Where it is, and how."""
        return {name: visit.standing for name, visit in self.run.state.cursor.items()}

    @property
    def vars(self) -> Mapping[str, Any]:
        """What was added."""
        return self.run.state.vars


__all__ = ["World", "decode_state", "encode_state", "plan", "send", "sent", "stored"]
