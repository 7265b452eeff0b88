"""The claimer: finds the lanes that have something due and takes as much as each has room for."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import structlog

from dispatcher.base import fault_points
from dispatcher.base.errors import Fenced
from dispatcher.config.settings import Claim as Settings
from dispatcher.db.database import PASSING
from dispatcher.engine.rules.life import POISON_STEPS, Claimed, Lane, Lost, Outcome, PoisonStep
from dispatcher.engine.store import claims, instances, suppression
from dispatcher.engine.streams import Epoch, LaneState, unless

log = structlog.get_logger(__name__)

# Small claims cost as much as large ones: below this share of a full one, wait a moment for more room.
ROOM_SHARE_MIN = 0.5
ROOM_WAIT_SECONDS = 0.02
# While some lanes are busy, the others are looked at this often, and the transactional ones during a claim, too.
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
    """Claims for one epoch. `woken` ends its sleep; `send` hands batches to the renderer."""

    def __init__(
        self, epoch: Epoch, settings: Settings, woken: asyncio.Event, send: Callable[[list[Claimed]], None]
    ) -> None:
        self._epoch = epoch
        self._database = epoch.database
        self._lanes = epoch.lanes
        self.settings = settings
        self._woken = woken
        self._send = send
        # What may put deliveries off; None: nothing does.
        self.timing: Timing | None = None
        # Lanes that may have more than was taken.
        self._hot: set[LaneState] = set()
        self._looked_at = float("-inf")
        self._recovered_looked_at = float("-inf")
        # The open claims of deliveries whose owners have died often.
        self._recovered_tokens: dict[tuple[str, PoisonStep], int] = {}
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
            self._lanes.freed.clear()
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
        for state in sorted(self._hot, key=lambda state: state.lane):
            if not self._epoch.is_stopped(state):
                claimed += await self._claim(state)
        wait = float("inf")
        now = self._epoch.clock.monotonic()
        look = not self._hot or now - self._looked_at >= LOOK_SECONDS
        if look:
            self._looked_at = now
            due, wait = await self._look()
            for state in due:
                claimed += await self._claim(state)
            claimed += await self._claim_recovered()
        if claimed:
            await self._work()
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
        keys = [(state.channel, state.lane) for state in asked if state.room() > 0]
        found = await claims.due(self._database, keys)
        due = [self._lanes[lane.channel, lane.lane] for lane in found if lane.due]
        wait = min((lane.wait_seconds for lane in found if not lane.due), default=float("inf"))
        return sorted(due, key=lambda state: state.lane), max(wait, 0.001)

    async def _claim(self, state: LaneState) -> int:
        """Claim from a lane, and return the number. Transactional deliveries do not wait for a claim of another lane:
        a thousand rows take 10 to 50 ms of a busy Postgres."""
        claim = self._claim_from(state)
        return await (claim if state.lane is Lane.TRANSACTIONAL else self._beside(claim))

    async def _beside(self, claim: Coroutine[Any, Any, int]) -> int:
        """Claim from the transactional lanes until another claim ends; return the number of both."""
        claiming = asyncio.create_task(claim)
        urgent = 0
        try:
            with suppress(Fenced, *PASSING):  # the next round meets it again; the claim under way is not lost for it
                while not self._stopped:
                    await asyncio.wait((claiming,), timeout=LOOK_SECONDS)
                    if claiming.done():
                        break
                    urgent += await self._claim_urgent()
            return urgent + await claiming
        finally:
            claiming.cancel()

    async def _claim_urgent(self) -> int:
        """Claim from the transactional lanes what is due; return the number."""
        lanes = (state for state in self._lanes if state.lane is Lane.TRANSACTIONAL and state.room() > 0)
        keys = [(state.channel, state.lane) for state in lanes if not self._epoch.is_stopped(state)]
        found = await claims.due(self._database, keys) if keys else []
        return sum([await self._claim_from(self._lanes[lane.channel, lane.lane]) for lane in found if lane.due])

    async def _claim_from(self, state: LaneState) -> int:
        """Claim from one lane as much as it has room for; return the number."""
        now = self._epoch.clock.monotonic()
        count = min(state.room(), self.settings.batch_max)
        enough = ROOM_SHARE_MIN * min(self.settings.batch_max, state.capacity)
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

    async def _claim_recovered(self) -> int:
        """Claim deliveries whose owners have died, of each channel the next few, once the last few have ended."""
        now = self._epoch.clock.monotonic()
        if now - self._recovered_looked_at < self.settings.poll_seconds:
            return 0
        tokens = self._epoch.tokens
        self._recovered_tokens = {key: token for key, token in self._recovered_tokens.items() if token in tokens.open}
        free = [s for s in self._lanes if s.lane is Lane.NORMAL and s.room() > 0 and not self._epoch.is_stopped(s)]
        asked = [(state.channel, step) for state in free for step in POISON_STEPS]
        found = await claims.recovered_due(self._database, [key for key in asked if key not in self._recovered_tokens])
        if not found and not self._recovered_tokens:
            # They are rare: look again at the next poll only.
            self._recovered_looked_at = now
        return sum([await self._take_recovered(*key) for key in found])

    async def _take_recovered(self, channel: str, step: PoisonStep) -> int:
        token = self._recovered_tokens[channel, step] = self._epoch.tokens.issue()
        state = self._lanes[channel, Lane.NORMAL]
        wanted = _wanted(state, token, state.room())
        began = self._epoch.clock.monotonic()
        batch = await claims.claim_recovered(self._database, self._epoch.number, wanted, step)
        if batch:
            self._epoch.tokens.claimed(token, len(batch))
        for lane in Lane:
            some = [item for item in batch if item.lane is lane]
            if some:
                await self._take(self._lanes[channel, lane], some, began)
        return len(batch)

    async def _work(self) -> None:
        """Note that there was work. After a while of it without a pause, inserts need not notify us."""
        self._settling = 0
        now = self._worked_at = self._epoch.clock.monotonic()
        self._busy_since = self._busy_since or now
        if self._notified and now - self._busy_since > BUSY_SECONDS:
            await instances.ask_to_be_woken(self._database, self._epoch.number, False)
            self._notified = False

    async def _rest(self, wait: float) -> float:
        """Return the seconds to sleep when nothing is due: ask to be woken, look once more, and then sleep."""
        self._busy_since = None
        if not self._notified:
            await instances.ask_to_be_woken(self._database, self._epoch.number, True)
            self._notified = True
            return 0.0
        if self._settling < len(SETTLE_SECONDS):
            self._settling += 1
            return min(wait, SETTLE_SECONDS[self._settling - 1])
        poll = self.settings.poll_seconds
        jitter = random.uniform(-1, 1) * self.settings.poll_jitter  # noqa: S311 - spreads the polls of replicas
        return min(wait, poll * (1 + jitter))

    async def _sleep(self, seconds: float) -> None:
        """Sleep until woken: by new work, or by room where lanes lacked it."""
        woken = unless(self._woken, self._lanes.freed.wait()) if self._hot else self._woken.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(woken, seconds)


def _wanted(state: LaneState, token: int, count: int) -> claims.Wanted:
    return claims.Wanted(state.channel, state.lane, count, token, state.resend, state.settle_seconds)
