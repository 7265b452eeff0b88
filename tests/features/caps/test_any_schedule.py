"""The mark under caps and a pure model agree on any schedule of writes, marks, results, cancellations and time."""

import random
from collections.abc import Sequence

import pytest
from msgspec import Struct, field

from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Again, Back, Claimed, Failed, Held, Outcome, Succeeded
from tests.features.caps.stage import Capped

HOUR = 3_600.0
PEOPLE = ("+491701", "+491702", "+491703")
TOPICS = ("news", None)
STEPS = 40


class Limit(Struct, frozen=True):
    """A cap of the model."""

    messages: int
    seconds: float
    topic: str | None = None


LIMITS = {"daily": Limit(3, 24 * HOUR), "hourly": Limit(2, HOUR), "news": Limit(1, 5 * HOUR, "news")}


class Message(Struct):
    """A delivery of the model. `at` is the time of its last mark; `counts`: something of it left, or may have."""

    to: str
    topic: str | None
    at: float = float("-inf")
    counts: bool = False


class Model(Struct):
    """The reference: what was marked when, in plain lists."""

    now: float = 0.0
    messages: dict[int, Message] = field(default_factory=dict)

    def mark(self, ids: Sequence[int]) -> list[int]:
        """Mark these in their order; answers those that had room."""
        return [one for one in ids if self._has_room(one)]

    def _has_room(self, delivery: int) -> bool:
        message = self.messages[delivery]
        for limit in LIMITS.values():
            if limit.topic in (None, message.topic) and self._used(delivery, limit) >= limit.messages:
                message.counts = False
                return False
        message.at, message.counts = self.now, True
        return True

    def _used(self, delivery: int, limit: Limit) -> int:
        to = self.messages[delivery].to
        return sum(
            other.counts and other.to == to and other.at > self.now - limit.seconds
            for number, other in self.messages.items()
            if number != delivery and limit.topic in (None, other.topic)
        )


class Schedule:
    """One schedule, played on both sides."""

    def __init__(self, capped: Capped, seed: int) -> None:
        self.capped = capped
        self.model = Model()
        self.dice = random.Random(seed)  # noqa: S311 - a schedule that can be played again
        self.marked: list[Claimed] = []
        self.tried = 0
        self.refused = 0

    async def step(self) -> None:
        """Do one thing."""
        await self.dice.choices((self.send, self.settle, self.cancel, self.wait), (5, 4, 1, 2))[0]()

    async def send(self) -> None:
        """Write some, and mark all that is due."""
        for _ in range(self.dice.randint(0, 4)):
            to, topic = self.dice.choice(PEOPLE), self.dice.choice(TOPICS)
            (one,) = await self.capped.write(to, topic=topic)
            self.model.messages[one] = Message(to, topic)
        items = await self.capped.claim()
        given = self.dice.sample(items, len(items))
        found = await self.capped.mark(given)
        assert found == self.model.mark([item.id for item in items])
        self.tried += len(items)
        self.refused += len(items) - len(found)
        self.marked += [item for item in items if item.id in found]

    async def settle(self) -> None:
        """Write results of some that are marked."""
        some = self.dice.sample(self.marked, min(len(self.marked), self.dice.randint(0, 4)))
        results = [(item, self._outcome()) for item in some]
        await self.capped.scene.flush(*results)
        for item, outcome in results:
            self.marked.remove(item)
            never_called = isinstance(outcome, Back) and await self._attempts(item) == 0
            self.model.messages[item.id].counts = not (isinstance(outcome, Failed) or never_called)

    def _outcome(self) -> Outcome:
        outcomes = (Succeeded("p"), Failed("550"), Again(0.0, "busy"), Back(0.0, "not called"), Held("unknown: x"))
        return self.dice.choices(outcomes, (4, 2, 3, 3, 1))[0]

    async def _attempts(self, item: Claimed) -> int:
        return int((await self.capped.scene.row(item.id))["attempt"])

    async def cancel(self) -> None:
        """Cancel something."""
        if self.model.messages:
            one = self.dice.choice(list(self.model.messages))
            cancel = "SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')"
            if await self.capped.scene.value(cancel, one) == "cancelled":
                self.model.messages[one].counts = False

    async def wait(self) -> None:
        """Let time pass."""
        seconds = self.dice.choice((0.3, 0.9, 3.0, 10.0)) * HOUR
        self.model.now += seconds
        await self.capped.age(seconds)


@pytest.mark.parametrize("seed", range(6))
async def test_the_mark_and_the_model_agree(database: Database, seed: int) -> None:
    capped = await Capped.open(database)
    for name, limit in LIMITS.items():
        await capped.cap(limit.messages, limit.seconds, name, topics=[limit.topic] if limit.topic else [])
    schedule = Schedule(capped, seed)
    for _ in range(STEPS):
        await schedule.step()
    assert 0 < schedule.refused < schedule.tried
