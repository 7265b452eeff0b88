"""Streams that the actors share: lanes with their room, rendered deliveries, and the inbox of results."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from anyio import create_memory_object_stream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Struct, field

from channels.contract import Envelope, Licence
from dispatcher.base.clock import Clock
from dispatcher.base.errors import Fenced
from dispatcher.base.metrics import Metrics
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Claimed, Lane, Outcome, Resend, Result
from dispatcher.engine.rules.object_cache import ObjectCache
from dispatcher.engine.rules.pauses import Pauses
from dispatcher.engine.rules.replica_shares import Shares
from dispatcher.engine.slots import Slots
from dispatcher.engine.store.marks import LimitedMark
from dispatcher.engine.tracing.traces import Traces

# The most that `claim.lane_capacity` can be.
LANE_CAPACITY_MAX = 100_000

T = TypeVar("T")


async def unless(event: asyncio.Event, wait: Awaitable[T]) -> T | None:
    """Return what was waited for; None, with the wait cancelled, where the event is set first."""
    waiting, ending = asyncio.ensure_future(wait), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((waiting, ending), return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        waiting.cancel()
        ending.cancel()


class Rendered(Struct, frozen=True, gc=False):
    """A claimed delivery with what it says."""

    item: Claimed
    parts: Mapping[str, str]
    options: Mapping[str, Any]

    def envelope(self, licence: Licence, attempt: int) -> Envelope:
        """Return it ready to go."""
        item = self.item
        return Envelope(
            licence,
            item.id,
            item.tenant_id,
            item.workspace_id,
            item.idempotency_key,
            item.channel,
            item.recipient,
            self.parts,
            self.options,
            attempt,
            item.dated,
            item.expires_at,
            item.traceparent,
        )


class Pipe(Struct, frozen=True):
    """A channel of batches with room for as many as its lanes have deliveries: sending never waits, and a slow lane
    backs up into its own claims only."""

    send: MemoryObjectSendStream[Sequence[Any]]
    receive: MemoryObjectReceiveStream[Sequence[Any]]

    @classmethod
    def of(cls, capacity: int) -> "Pipe":
        """A pipe for lanes with at most so many deliveries under way."""
        return cls(*create_memory_object_stream[Sequence[Any]](capacity))


class LaneState:
    """One lane of one channel: how many deliveries are under way, and how many more may be claimed."""

    def __init__(self, channel: str, lane: Lane, capacity: int, usable: Callable[[], float], slots: Slots) -> None:
        self.channel = channel
        self.lane = lane
        self.capacity = capacity
        self.outstanding = 0
        self.slots = slots
        # Deliveries, by id and token, that give a slot back when their result is written.
        self.slotted: set[tuple[int, int]] = set()
        self.resend = Resend()
        # The last token issued under another `resend`: recovery of what was claimed by then goes by that one.
        self.promised_after = 0
        self.settle_seconds = 60.0
        self.provider = ""
        # The names by which a pause may mean each of its providers.
        self.pausable: Sequence[Sequence[str]] = ()
        # Seconds until its rate limits let a delivery through.
        self.until_usable: Callable[[], float] = lambda: 0.0
        self.pipe = Pipe.of(LANE_CAPACITY_MAX)
        self._usable = usable
        self.object_cache = ObjectCache(0)
        self.room_freed = asyncio.Event()

    def room(self) -> int:
        """Return how many deliveries may be claimed: what fits, and what the token bucket can use soon."""
        return int(max(0, min(self.capacity - self.outstanding, self._usable() - self.outstanding)))

    def is_unmarked(self) -> bool:
        """Return whether something is claimed that has no slot, which it takes directly before its mark."""
        return self.outstanding > self.slots.used[self.lane]

    def send(self, rendered: Sequence[Rendered]) -> None:
        """Hand rendered deliveries to the sender."""
        self.pipe.send.send_nowait(rendered)

    def release(self, ended: Sequence[tuple[int, int]]) -> None:
        """Free the objects that these deliveries, by id and token, have carried."""
        if self.object_cache.carried:
            self.object_cache.release(ended)
            self.room_freed.set()


class Wakes:
    """What ends the sleep of the claimers. A notification names the channels of new transactional deliveries."""

    def __init__(self) -> None:
        self.urgent = asyncio.Event()
        self.others = asyncio.Event()
        self._named: list[str] = []

    def set(self) -> None:
        """Wake both claimers: there may be work in any lane."""
        self.urgent.set()
        self.others.set()

    def name(self, channel: str) -> None:
        """Wake the claimer of transactional deliveries for a channel."""
        if channel not in self._named:
            self._named.append(channel)
        self.urgent.set()

    def named(self) -> Sequence[str]:
        """Return the channels that were named since the last call."""
        named, self._named = self._named, []
        return named


class Lanes:
    """Every lane of every channel, the transactional ones first."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, Lane], LaneState] = {}
        self._freed: list[asyncio.Event] = []

    def add(self, state: LaneState) -> None:
        """Add a lane; lanes are in the order in which they are claimed."""
        self._lanes[state.channel, state.lane] = state
        self._lanes = dict(sorted(self._lanes.items(), key=lambda entry: entry[0][1]))

    def freed(self) -> asyncio.Event:
        """Return a new event, which is set whenever room comes back."""
        self._freed.append(asyncio.Event())
        return self._freed[-1]

    def __iter__(self) -> Iterator[LaneState]:
        return iter(self._lanes.values())

    def __getitem__(self, key: tuple[str, Lane]) -> LaneState:
        return self._lanes[key]

    def of(self, channel: str) -> list[LaneState]:
        """The lanes of one channel."""
        return [state for state in self if state.channel == channel]

    def returned(self, results: Sequence[Result]) -> None:
        """Free the room and the slots of deliveries whose results are durable. Slots that came back with the verdict
        would let more be marked than a kill may leave held."""
        by_lane: dict[tuple[str, Lane], list[tuple[int, int]]] = {}
        for item, _ in results:
            by_lane.setdefault((item.channel, item.lane), []).append((item.id, item.token))
        for key, ended in by_lane.items():
            state = self._lanes[key]
            state.outstanding -= len(ended)
            slotted = state.slotted.intersection(ended)
            state.slotted -= slotted
            state.release(ended)
            state.slots.give_back(state.lane, len(slotted))
        for event in self._freed:
            event.set()


class Precedence:
    """Transactional deliveries go first: while one is on its way to its mark, no other work begins, and while they
    come, other work is done in small portions, so that what is under way ends soon.

    Each of its steps would wait for a turn on busy processors: beside a campaign its p99 was 20 to 30 ms, and is 10.
    Without the portions it is 20.
    """

    # No work waits longer than this, however many come.
    WAIT_SECONDS = 0.001
    WAITS_MAX = 10
    # One that is not marked so long after its claim waits for something else, such as a rate limit.
    MARK_SECONDS = 0.02
    # So long after the last one was claimed they are still said to come.
    COMING_SECONDS = 0.25
    # Other deliveries in one claim, mark or flush meanwhile.
    PORTION = 200

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._claims = 0
        self._claimed_at: dict[str, tuple[LaneState, float]] = {}

    @contextmanager
    def claiming(self, state: LaneState) -> Iterator[None]:
        """Be on the way from here on, with what is claimed from a transactional lane."""
        self._claims += 1
        try:
            yield
        finally:
            self._claims -= 1
            self._claimed_at[state.channel] = state, self._monotonic()

    def is_taken(self) -> bool:
        """Return whether a transactional delivery is on its way to its mark."""
        since = self._monotonic() - self.MARK_SECONDS
        return self._claims > 0 or any(at > since and state.is_unmarked() for state, at in self._claimed_at.values())

    def is_coming(self) -> bool:
        """Return whether a transactional delivery was claimed just now."""
        since = self._monotonic() - self.COMING_SECONDS
        return any(at > since for _, at in self._claimed_at.values())

    def portion(self, count: int, lane: Lane = Lane.BULK) -> int:
        """Return how many of so many deliveries of a lane may be done in one statement."""
        return count if lane is Lane.TRANSACTIONAL or not self.is_coming() else min(count, self.PORTION)

    async def rest(self, worked_seconds: float) -> None:
        """Rest for as long as other work took that has no portions, where transactional deliveries come."""
        if self.is_coming():
            await self._sleep(worked_seconds)

    async def give(self, lane: Lane = Lane.BULK) -> None:
        """Return when work of a lane may begin."""
        for _ in range(self.WAITS_MAX):
            if lane is Lane.TRANSACTIONAL or not self.is_taken():
                return
            await self._sleep(self.WAIT_SECONDS)


class Inbox:
    """Results on their way to the flusher. Putting never waits; senders wait for `room` before they mark."""

    def __init__(self, high_water: int) -> None:
        self.high_water = high_water
        self.waiting: list[Result] = []
        self.flushing = 0
        self.closed = False
        self.filled = asyncio.Event()
        self._emptied = asyncio.Event()

    @property
    def pending(self) -> int:
        """The number of results that are not written."""
        return len(self.waiting) + self.flushing

    def put(self, item: Claimed, outcome: Outcome) -> None:
        """Add one result."""
        self.waiting.append((item, outcome))
        self.filled.set()

    def close(self) -> None:
        """Flush what is here and end: no further result will come."""
        self.closed = True
        self.filled.set()

    def put_urgent_first(self, count: int) -> int:
        """Put results of transactional deliveries among the first `count` before the others; return their number."""
        urgent: list[Result] = []
        others: list[Result] = []
        for result in self.waiting[:count]:
            (urgent if result[0].lane is Lane.TRANSACTIONAL else others).append(result)
        self.waiting[:count] = urgent + others
        return len(urgent)

    def take(self, count: int) -> list[Result]:
        """Take up to `count` results to write; `done` reports them written."""
        taken = self.waiting[:count]
        del self.waiting[:count]
        self.flushing += len(taken)
        return taken

    def done(self, count: int) -> None:
        """Count results that are written."""
        self.flushing -= count
        self._emptied.set()

    async def room(self) -> None:
        """Return when there is room for more results: while Postgres is away nothing is marked, so nothing is sent."""
        while self.pending >= self.high_water:
            self._emptied.clear()
            await self._emptied.wait()


class Tokens:
    """The claims of this epoch: a token for each, and its number of deliveries without a result."""

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

    def issue(self) -> int:
        """Return a token that was never issued before; raise Fenced where all are used: a new epoch is needed."""
        if self._count >= (1 << self.COUNTER_BITS) - 1:
            raise Fenced("every token of this epoch was used")
        self._count += 1
        return self.last

    def claimed(self, token: int, deliveries: int) -> None:
        """Open a token for the deliveries that its claim took."""
        if deliveries:
            self.open[token] = deliveries

    def settle(self, results: Sequence[Result]) -> list[int]:
        """Return the tokens that these results complete. They stay open until `close`."""
        complete: list[int] = []
        for token, count in Counter([item.token for item, _ in results]).items():
            self.open[token] = self.open.get(token, 0) - count
            if self.open[token] <= 0:
                complete.append(token)
        return complete

    def close(self, tokens: Sequence[int]) -> None:
        """Forget tokens whose results are written."""
        for token in tokens:
            self.open.pop(token, None)


class Epoch(Struct, frozen=True, eq=False):
    """The streams that the actors of one epoch share."""

    number: int
    database: Database
    lanes: Lanes
    inbox: Inbox
    tokens: Tokens
    clock: Clock
    metrics: Metrics
    shares: Shares
    pauses: Callable[[], Pauses]
    precedence: Precedence
    # The mark of a batch that a limit of its recipients may be about.
    limited: Callable[[Sequence[Claimed]], LimitedMark | None]
    # Set when our row is gone: nothing is claimed or marked any more. Calls under way may end, and give evidence.
    fenced: asyncio.Event
    # The channels from which we may not claim, since another replica has, or may have, another provider for them.
    blocked: set[str]
    # None: nothing is traced.
    traces: Traces | None = None
    # The channels that had no connection to their provider when one was needed last, and when that was.
    unready: dict[str, float] = field(default_factory=dict)

    def note_ready(self, channel: str, *, ready: bool) -> None:
        """Note whether a channel has a connection to its provider."""
        self.metrics.channel_ready.labels(channel).set(ready)
        if ready:
            self.unready.pop(channel, None)
        else:
            self.unready[channel] = self.clock.monotonic()

    def is_stopped(self, state: LaneState) -> bool:
        """Return whether a lane's channel is blocked or paused."""
        return state.channel in self.blocked or self.pauses().stops(state.channel, state.pausable)
