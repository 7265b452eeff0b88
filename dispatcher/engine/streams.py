"""What the actors share: lanes with their room, rendered deliveries, and the inbox of results."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from anyio import create_memory_object_stream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Struct

from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Claimed, Lane, Outcome, Resend, Result
from dispatcher.engine.rules.object_cache import ObjectCache
from dispatcher.engine.rules.pauses import Pauses
from dispatcher.engine.rules.replica_shares import Shares
from dispatcher.engine.slots import Slots

# The most that `claim.lane_capacity` can be.
LANE_CAPACITY_MAX = 100_000


class Rendered(Struct, frozen=True, gc=False):
    """A claimed delivery with what it says."""

    item: Claimed
    parts: Mapping[str, str]
    options: Mapping[str, Any]


class Pipe(Struct, frozen=True):
    """A bounded channel of batches.

    A claim never takes more deliveries than its lane has room for, and a batch holds one at least, so a buffer of as
    many batches as the lanes have deliveries is never full: who sends does not wait, and a slow lane backs up into its
    own claims and nowhere else.
    """

    send: MemoryObjectSendStream[Sequence[Any]]
    receive: MemoryObjectReceiveStream[Sequence[Any]]

    @classmethod
    def of(cls, capacity: int) -> "Pipe":
        """A pipe for lanes that have so many deliveries at most under way."""
        return cls(*create_memory_object_stream[Sequence[Any]](capacity))


class LaneState:
    """One lane of one channel: how many of its deliveries are under way, and how many more may be."""

    def __init__(self, channel: str, lane: Lane, capacity: int, usable: Callable[[], float], slots: Slots) -> None:
        self.channel = channel
        self.lane = lane
        self.capacity = capacity
        self.outstanding = 0
        self.slots = slots
        # What gives its slot back when its result is written, by delivery and token.
        self.slotted: set[tuple[int, int]] = set()
        self.resend = Resend()
        # The last token issued before `resend` became what it is: what was claimed by then is recovered by another.
        self.promised_after = 0
        self.settle_seconds = 60.0
        self.provider = ""
        # How long until its limits let anything through, where they are what leaves no room.
        self.until_usable: Callable[[], float] = lambda: 0.0
        self.pipe = Pipe.of(LANE_CAPACITY_MAX)
        self._usable = usable
        # The stored objects that its deliveries carry. The bound is the configuration's.
        self.object_cache = ObjectCache(0)
        self.room_freed = asyncio.Event()

    def room(self) -> int:
        """How many deliveries may be claimed: what fits, and what the token bucket can use soon."""
        return int(max(0, min(self.capacity - self.outstanding, self._usable() - self.outstanding)))

    def through(self, ended: Sequence[tuple[int, int]]) -> None:
        """These deliveries, by id and token, carry nothing any more."""
        if self.object_cache.carried:
            self.object_cache.release(ended)
            self.room_freed.set()


class Lanes:
    """Every lane of every channel, the transactional ones first; `freed` tells the claimer when room came back."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, Lane], LaneState] = {}
        self.freed = asyncio.Event()

    def add(self, state: LaneState) -> None:
        """Take a lane in; lanes are kept in the order in which they are claimed."""
        self._lanes[state.channel, state.lane] = state
        self._lanes = dict(sorted(self._lanes.items(), key=lambda entry: entry[0][1]))

    def __iter__(self) -> Iterator[LaneState]:
        return iter(self._lanes.values())

    def __getitem__(self, key: tuple[str, Lane]) -> LaneState:
        return self._lanes[key]

    def of(self, channel: str) -> list[LaneState]:
        """The lanes of one channel."""
        return [state for state in self if state.channel == channel]

    def returned(self, results: Sequence[Result]) -> None:
        """These deliveries are through, durably: their room is free again, and their slots are.

        A slot that came back with the verdict would let more be marked than a kill may leave held.
        """
        through: dict[tuple[str, Lane], list[tuple[int, int]]] = {}
        for item, _ in results:
            through.setdefault((item.channel, item.lane), []).append((item.id, item.token))
        for key, ended in through.items():
            state = self._lanes[key]
            state.outstanding -= len(ended)
            slotted = state.slotted.intersection(ended)
            state.slotted -= slotted
            state.through(ended)
            state.slots.give_back(state.lane, len(slotted))
        self.freed.set()


class Inbox:
    """Results on their way to the flusher. It takes each at once; who makes more waits for room before it marks."""

    def __init__(self, high_water: int) -> None:
        self.high_water = high_water
        self.waiting: list[Result] = []
        self.flushing = 0
        self.closed = False
        self.filled = asyncio.Event()
        self._emptied = asyncio.Event()

    def put(self, item: Claimed, outcome: Outcome) -> None:
        """Hand in one result."""
        self.waiting.append((item, outcome))
        self.filled.set()

    def close(self) -> None:
        """No further result will come: flush what is here and end."""
        self.closed = True
        self.filled.set()

    def take(self, count: int) -> list[Result]:
        """Take up to `count` results out to be written; `done` says that they are."""
        taken = self.waiting[:count]
        del self.waiting[:count]
        self.flushing += len(taken)
        return taken

    def done(self, count: int) -> None:
        """So many of the taken ones are written."""
        self.flushing -= count
        self._emptied.set()

    async def room(self) -> None:
        """Return when there is room for more results: while Postgres is away nothing is marked, so nothing is sent."""
        while len(self.waiting) + self.flushing >= self.high_water:
            self._emptied.clear()
            await self._emptied.wait()


class Tokens:
    """The claims of this epoch: a token for each, and how many of its deliveries have no result yet."""

    # An epoch of 39 bits and a counter of 24 make a positive bigint.
    COUNTER_BITS = 24
    EPOCH_BITS = 39

    def __init__(self, epoch: int) -> None:
        self._base = epoch << self.COUNTER_BITS
        self._count = 0
        self.open: dict[int, int] = {}

    @property
    def last(self) -> int:
        """The newest token."""
        return self._base | self._count

    def spent_out(self) -> bool:
        """True when the counter is used up: then a new epoch is needed."""
        return self._count >= (1 << self.COUNTER_BITS) - 1

    def issue(self) -> int:
        """A token that was never issued before."""
        self._count += 1
        return self._base | self._count

    def claimed(self, token: int, deliveries: int) -> None:
        """A claim took so many."""
        if deliveries:
            self.open[token] = deliveries

    def settle(self, results: Sequence[Result]) -> list[int]:
        """Count results off; answers the tokens that are complete with them. They stay open until they are closed."""
        complete: list[int] = []
        for token, count in Counter(item.token for item, _ in results).items():
            self.open[token] = self.open.get(token, 0) - count
            if self.open[token] <= 0:
                complete.append(token)
        return complete

    def close(self, tokens: Sequence[int]) -> None:
        """The results of these are written."""
        for token in tokens:
            self.open.pop(token, None)


class Epoch(Struct, frozen=True, eq=False):
    """What the actors of one epoch have in common."""

    number: int
    database: Database
    lanes: Lanes
    inbox: Inbox
    tokens: Tokens
    clock: Clock
    metrics: Metrics
    shares: Shares
    pauses: Callable[[], Pauses]
    # Set by whoever finds our row gone: nothing is claimed or marked any more, and calls under way may still end, since
    # what they say is evidence.
    fenced: asyncio.Event
    # The channels from which we may not claim, since another replica has another provider for them, or may have.
    blocked: set[str]

    def is_stopped(self, state: LaneState) -> bool:
        """Whether a lane's channel is not ours to send from now, or somebody has paused it."""
        return state.channel in self.blocked or self.pauses().stops(state.channel, state.provider)
