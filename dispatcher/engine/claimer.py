"""The claimer: finds the lanes that have something due and takes as much as each has room for.

There are two in each epoch. One claims from the transactional lanes, the other from the rest: a claim of a thousand
bulk deliveries takes a busy Postgres 10 to 50 ms, and nothing transactional waits for it.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from dispatcher.base import fault_points
from dispatcher.base.errors import Fenced
from dispatcher.config.settings import Claim as Settings
from dispatcher.engine.rules.life import POISON_STEPS, Claimed, Lane, Lost, Outcome, PoisonStep
from dispatcher.engine.store import claims, instances, suppression
from dispatcher.engine.streams import Epoch, LaneState, Wakes, unless

log = structlog.get_logger(__name__)

# Small claims cost as much as large ones: below this share of a full one, wait a moment for more room.
ROOM_SHARE_MIN = 0.5
ROOM_WAIT_SECONDS = 0.02
# While some lanes are busy, the others are looked at this often.
LOOK_SECONDS = 0.01
# Found busy for this long without a pause, inserts need not notify any more.
BUSY_SECONDS = 0.25
# An insert that looked for idle dispatchers just before we said that we are may commit just after our last look.
SETTLE_SECONDS = (0.02, 0.08, 0.3)


class Timing(Protocol):
    """What may put claimed deliveries off to another time."""

    def concerns(self, batch: Sequence[Claimed]) -> bool:
        """Whether any delivery of a batch, all of one lane, has to be looked up."""

    async def put_off(self, batch: Sequence[Claimed]) -> Mapping[int, Outcome]:
        """Return what becomes of those that may not go now, by id. It waits while Postgres is away."""


class Claimer:
    """Claims from some lanes for one epoch: `woken` ends its sleep, `send` hands batches to the renderer."""

    # Whether its lanes are the transactional ones.
    urgent = False

    def __init__(self, epoch: Epoch, settings: Settings, wakes: Wakes, send: Callable[[list[Claimed]], None]) -> None:
        self._epoch = epoch
        self._database = epoch.database
        self._lanes = [state for state in epoch.lanes if (state.lane is Lane.TRANSACTIONAL) is self.urgent]
        self.settings = settings
        self._wakes = wakes
        self._woken = wakes.urgent if self.urgent else wakes.others
        self._freed = epoch.lanes.freed()
        self._send = send
        # What may put deliveries off; None: nothing does.
        self.timing: Timing | None = None
        # Lanes that may have more than was taken.
        self._hot: set[LaneState] = set()
        self._looked_at = float("-inf")
        # The last look has seen deliveries whose owners have died.
        self._recovered = False
        self._stopped = False
        self._claimed_at: dict[LaneState, float] = {}
        self._busy_since: float | None = None
        self._worked_at = float("-inf")
        self._notified = True
        self._settling = 0

    async def run(self) -> None:
        """Claim until stopped; sleep only when nothing was due or nothing had room."""
        while not self._stopped:
            self._woken.clear()
            self._freed.clear()
            try:
                wait = await self._database.persist("claim", self.run_once)
            except Fenced:
                # Another epoch has tokens again; what is in flight in this one still ends.
                self._epoch.fenced.set()
                return
            if wait > 0:
                await self._sleep(wait)

    def stop(self) -> None:
        """Claim no more. A claim under way ends by itself: cut off, it would count as an owner's death."""
        self._stopped = True
        self._woken.set()

    async def run_once(self) -> float:
        """Go over the lanes once; return the seconds until there may be more to do without a wake-up."""
        if self._epoch.fenced.is_set():
            raise Fenced
        claimed = 0
        for state in self._first():
            if not self._epoch.is_stopped(state):
                claimed += await self._claim(state)
        wait = float("inf")
        now = self._epoch.clock.monotonic()
        look = not self._hot or now - self._looked_at >= LOOK_SECONDS
        found = 0
        if look:
            self._looked_at = now
            due, wait = await self._look()
            for state in due:
                found += await self._claim(state)
            found += await self._claim_more()
        if claimed or found:
            await self._work()
        # A look that came after the last claim and found nothing needs no other.
        if found or (claimed and (self._hot or not look)):
            return 0.0
        if not look:
            return LOOK_SECONDS
        if any(state.room() > 0 and not self._epoch.is_stopped(state) for state in self._hot):
            return ROOM_WAIT_SECONDS
        if self._hot and now - self._worked_at < BUSY_SECONDS:
            # Full lanes wake us when they have room; the others may get work meanwhile.
            return min(wait, LOOK_SECONDS)
        # Lanes that stay full (a hung channel) are no reason to keep the others from waking us.
        return await self._rest(min(wait, self._usable_after()))

    def _first(self) -> Iterable[LaneState]:
        """Return the lanes to claim from without a look."""
        return sorted(self._hot, key=lambda state: state.lane)

    async def _claim_more(self) -> int:
        """Claim after a look what no lane has; return the number."""
        return 0

    def _usable_after(self) -> float:
        """Return the seconds until a rate limit that keeps a lane from claiming lets a delivery through."""
        waits = [
            max(state.until_usable(), LOOK_SECONDS)
            for state in self._hot
            if state.outstanding < state.capacity and not self._epoch.is_stopped(state)
        ]
        return min(waits, default=float("inf"))

    async def _look(self) -> tuple[list[LaneState], float]:
        """Return the other lanes with due deliveries, and the seconds until the next lane has one."""
        asked = [state for state in self._lanes if state not in self._hot and not self._epoch.is_stopped(state)]
        # A lane without room cannot be asked now: count on more until a claim of it falls short.
        self._hot.update(state for state in asked if state.room() <= 0)
        asked = [state for state in asked if state.room() > 0]
        due, wait = await self._due(asked)
        return sorted(due, key=lambda state: state.lane), wait

    async def _due(self, asked: Sequence[LaneState]) -> tuple[list[LaneState], float]:
        """Return those of these lanes with due deliveries, and the seconds until the next one has some."""
        found, self._recovered = await claims.due(self._database, [(state.channel, state.lane) for state in asked])
        due = [self._epoch.lanes[lane.channel, lane.lane] for lane in found if lane.due]
        wait = min((lane.wait_seconds for lane in found if not lane.due), default=float("inf"))
        return due, max(wait, 0.001)

    async def _claim(self, state: LaneState) -> int:
        """Claim from a lane as much as it has room for; return the number."""
        now = self._epoch.clock.monotonic()
        batch_max = self._epoch.precedence.portion(self.settings.batch_max, state.lane)
        count = min(state.room(), batch_max)
        enough = ROOM_SHARE_MIN * min(batch_max, state.capacity)
        recent = now - self._claimed_at.get(state, float("-inf")) < ROOM_WAIT_SECONDS
        if count <= 0 or (count < enough and recent):
            self._hot.add(state)
            return 0
        token = self._epoch.tokens.issue()
        self._claimed_at[state] = now
        with self._epoch.metrics.claim_seconds.time():
            if fault_points.ARMED:
                fault_points.passing("claim.asked")
            batch = await claims.claim(self._database, self._epoch.number, _wanted(state, token, count))
            if fault_points.ARMED:
                fault_points.passing("claim.taken")
        (self._hot.add if len(batch) == count else self._hot.discard)(state)
        if batch:
            self._epoch.tokens.claimed(token, len(batch))
            await self._take(state, batch, now)
        return len(batch)

    async def _take(self, state: LaneState, batch: list[Claimed], began: float) -> None:
        """Hand on what a claim, begun then, has taken."""
        if self._epoch.traces is not None:
            batch = self._epoch.traces.claimed(batch, began)
        state.outstanding += len(batch)
        self._epoch.metrics.claim_size.observe(len(batch))
        if batch[0].watched:
            batch = await self._allowed(batch)
        if batch and self.timing is not None and self.timing.concerns(batch):
            batch = self._in_time(batch, await self.timing.put_off(batch))
        if batch:
            self._send(batch)

    async def _allowed(self, batch: list[Claimed]) -> list[Claimed]:
        """Return those whose addresses are not suppressed. The others are ended here: nothing is left to write."""
        database = self._database
        why = await database.persist("suppressions", lambda: suppression.reasons(database, batch))
        if not why:
            return batch
        await database.persist("suppressions", lambda: suppression.skip(database, why))
        for item in batch:
            if item.id in why:
                self._epoch.inbox.put(item, Lost())
        self._epoch.metrics.barred.labels(batch[0].channel).inc(len(why))
        return [item for item in batch if item.id not in why]

    def _in_time(self, batch: list[Claimed], put_off: Mapping[int, Outcome]) -> list[Claimed]:
        for item in batch:
            if (outcome := put_off.get(item.id)) is not None:
                self._epoch.inbox.put(item, outcome)
        return [item for item in batch if item.id not in put_off]

    async def _work(self) -> None:
        """Note that there was work. After a while of it without a pause, inserts need not notify us."""
        now = self._worked_at = self._epoch.clock.monotonic()
        self._busy_since = self._busy_since or now
        if self._notified and now - self._busy_since > BUSY_SECONDS:
            await instances.ask_to_be_woken(self._database, self._epoch.number, False, urgent=self.urgent)
            self._notified = False

    async def _rest(self, wait: float) -> float:
        """Return the seconds to sleep when nothing is due: ask to be woken, look once more, and then sleep."""
        self._busy_since = None
        if not self._notified:
            await instances.ask_to_be_woken(self._database, self._epoch.number, True, urgent=self.urgent)
            self._notified = True
            self._settling = 0
            return 0.0
        if self._settling < len(SETTLE_SECONDS):
            self._settling += 1
            return min(wait, SETTLE_SECONDS[self._settling - 1])
        return self._resting(wait)

    def _resting(self, wait: float) -> float:
        """Return the seconds to sleep unless woken."""
        poll = self.settings.poll_seconds
        jitter = random.uniform(-1, 1) * self.settings.poll_jitter  # noqa: S311 - spreads the polls of replicas
        return min(wait, poll * (1 + jitter))

    async def _sleep(self, seconds: float) -> None:
        """Sleep until woken: by new work, or by room where lanes lacked it."""
        woken = unless(self._woken, self._freed.wait()) if self._hot else self._woken.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(woken, seconds)


class UrgentClaimer(Claimer):
    """Claims from the transactional lanes. What is inserted there names its channel, and is claimed without a look."""

    urgent = True

    def __init__(self, epoch: Epoch, settings: Settings, wakes: Wakes, send: Callable[[list[Claimed]], None]) -> None:
        super().__init__(epoch, settings, wakes, send)
        # It sleeps until it is woken: the other claimer's polls look at its lanes as well.
        self.rests = False

    async def run_once(self) -> float:
        self.rests = False
        return await super().run_once()

    def _first(self) -> Iterable[LaneState]:
        named = self._wakes.named()
        return [state for state in self._lanes if state in self._hot or state.channel in named]

    async def _claim(self, state: LaneState) -> int:
        with self._epoch.precedence.claiming(state):
            return await super()._claim(state)

    def _resting(self, wait: float) -> float:
        self.rests = True
        return wait

    def to_poll(self) -> list[LaneState]:
        """Return the lanes that the other claimer is to look at."""
        lanes = self._lanes if self.rests else ()
        return [state for state in lanes if state.room() > 0 and not self._epoch.is_stopped(state)]


class OtherClaimer(Claimer):
    """Claims from the normal and bulk lanes, and what was recovered; it polls for both claimers."""

    def __init__(
        self,
        epoch: Epoch,
        settings: Settings,
        wakes: Wakes,
        send: Callable[[list[Claimed]], None],
        urgent: UrgentClaimer,
    ) -> None:
        super().__init__(epoch, settings, wakes, send)
        self._beside = urgent
        self._recovered_looked_at = float("-inf")
        # The open claims of deliveries whose owners have died often.
        self._recovered_tokens: dict[tuple[str, PoisonStep], int] = {}

    async def _claim(self, state: LaneState) -> int:
        await self._epoch.precedence.give()
        return await super()._claim(state)

    async def _due(self, asked: Sequence[LaneState]) -> tuple[list[LaneState], float]:
        due, wait = await super()._due([*asked, *self._beside.to_poll()])
        mine = [state for state in due if state.lane is not Lane.TRANSACTIONAL]
        if len(mine) < len(due):
            self._wakes.urgent.set()
        return mine, wait

    async def _claim_more(self) -> int:
        """Claim deliveries whose owners have died, of each channel the next few, once the last few have ended."""
        now = self._epoch.clock.monotonic()
        if not self._recovered or now - self._recovered_looked_at < self.settings.poll_seconds:
            return 0
        tokens = self._epoch.tokens
        self._recovered_tokens = {key: token for key, token in self._recovered_tokens.items() if token in tokens.open}
        free = [s for s in self._lanes if s.lane is Lane.NORMAL and s.room() > 0 and not self._epoch.is_stopped(s)]
        asked = [(state.channel, step) for state in free for step in POISON_STEPS]
        found = await claims.recovered_due(self._database, [key for key in asked if key not in self._recovered_tokens])
        if not found and not self._recovered_tokens:
            # They are not due: look again at the next poll only.
            self._recovered_looked_at = now
        if found:
            # The next few are claimed when these have ended, which is soon, and not at the next poll.
            self._settling = 0
        return sum([await self._take_recovered(*key) for key in found])

    async def _take_recovered(self, channel: str, step: PoisonStep) -> int:
        token = self._recovered_tokens[channel, step] = self._epoch.tokens.issue()
        state = self._epoch.lanes[channel, Lane.NORMAL]
        wanted = _wanted(state, token, state.room())
        began = self._epoch.clock.monotonic()
        batch = await claims.claim_recovered(self._database, self._epoch.number, wanted, step)
        if batch:
            self._epoch.tokens.claimed(token, len(batch))
        for lane in Lane:
            some = [item for item in batch if item.lane is lane]
            if some:
                await self._take(self._epoch.lanes[channel, lane], some, began)
        return len(batch)


def claimers(
    epoch: Epoch, settings: Settings, wakes: Wakes, send: Callable[[list[Claimed]], None]
) -> tuple[UrgentClaimer, OtherClaimer]:
    """Return the claimers of an epoch."""
    urgent = UrgentClaimer(epoch, settings, wakes, send)
    return urgent, OtherClaimer(epoch, settings, wakes, send, urgent)


def _wanted(state: LaneState, token: int, count: int) -> claims.Wanted:
    return claims.Wanted(state.channel, state.lane, count, token, state.resend, state.settle_seconds)
