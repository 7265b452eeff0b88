"""The director: writes messages a portion at a time, and disturbs the replicas that work on them."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from dispatcher.selftest.database_state import DatabaseState, Work
from dispatcher.selftest.disturbances import CUTS, ON_TERM, disturb
from dispatcher.selftest.feed import Feed
from dispatcher.selftest.kills import Kills
from dispatcher.selftest.plan import Plan
from dispatcher.selftest.programs import Replica
from dispatcher.selftest.proxy import Proxy
from dispatcher.selftest.replicas import ReplicaSet

STEP_SECONDS = 0.02
# More than this waiting is enough to find work under way, however many replicas have just died.
WAITING_MAX = 5_000
# Replicas need a second to start, several of them on a busy machine some more.
WORK_SECONDS_MAX = 20.0
ROOM_STEPS_MAX = 3_000
RECOVERY_STEPS_MAX = 1_500
# An armed replica that works for longer than this will not reach its fault point.
ARMED_SECONDS_MAX = 4.0
# Between seeing that a replica works and doing something to it.
DELAY_SECONDS_MAX = 0.03
SETTLE_SECONDS_MAX = 120.0
# The janitor has run once more.
HOUSEKEEPING_SECONDS = 1.5
KINDS = {"kill9": 5, "term": 2, "stop": 2}


class Progress(Struct):
    written: int = 0
    kills: int = 0
    cuts: int = 0
    phase: str = "starting"


class Director:
    """Runs the disturbances of a plan; its random numbers choose which, and of which replica."""

    def __init__(
        self,
        plan: Plan,
        replicas: ReplicaSet,
        state: DatabaseState,
        feed: Feed,
        kills: Kills,
        proxy: Proxy,
        *,
        rng: random.Random,
        show: Callable[[Progress], None],
    ) -> None:
        self._plan = plan
        self._replicas = replicas
        self._state = state
        self._feed = feed
        self._kills = kills
        self._proxy = proxy
        self._random = rng
        self._show = show
        self._tasks: set[asyncio.Task[None]] = set()
        self._working_since: dict[str, float] = {}
        self._cuts_left = plan.cuts
        self.cuts: Counter[str] = Counter()
        self.progress = Progress()

    async def run(self) -> None:
        """Run until every message has ended."""
        await self._replicas.start()
        while self._replicas.kills_left > 0 or self._cuts_left > 0:
            self._tell("disturbing")
            left = max(0, self._replicas.kills_left)
            kills = self._random.randrange(max(1, left + self._cuts_left)) < left
            if kills:
                await self._recoveries()
            await self._portion()
            replica = await self._someone_at_work()
            await asyncio.sleep(self._random.uniform(0, DELAY_SECONDS_MAX))
            if kills:
                await self._disturb_replica(replica)
            elif self._cuts_left:
                await self._cut()
        await self._feed.write(self._plan.messages)
        await asyncio.gather(*self._tasks)
        await self._settle()

    def _tell(self, phase: str) -> None:
        self._replicas.check()
        now = self.progress
        now.written, now.kills, now.cuts, now.phase = self._feed.written, self._done_kills(), self.cuts.total(), phase
        self._show(now)

    def _done_kills(self) -> int:
        return self._plan.kills - max(0, self._replicas.kills_left)

    async def _recoveries(self) -> None:
        """Wait until enough kills are recovered for the next one to be recovered too."""
        for _ in range(RECOVERY_STEPS_MAX):
            if self._kills.unrecovered < max(1, self._plan.replicas - 1):
                return
            self._replicas.check()
            await asyncio.sleep(STEP_SECONDS)

    async def _portion(self) -> None:
        """Write as many messages as the next disturbance needs."""
        for _ in range(ROOM_STEPS_MAX):
            if await self._state.waiting(WAITING_MAX) < WAITING_MAX:
                break
            await asyncio.sleep(STEP_SECONDS)
        await self._feed.write(self._plan.may_be_written(self._done_kills() + self.cuts.total()))

    async def _someone_at_work(self) -> Replica | None:
        """Return a replica that has something marked, preferably one whose fault point will not come."""
        deadline = time.monotonic() + WORK_SECONDS_MAX
        while time.monotonic() < deadline:
            work = await self._state.at_work()
            now = time.monotonic()
            at_work = [one for one in self._replicas.members.values() if one.alive and _marked(work.get(one.name))]
            for one in at_work:
                self._working_since.setdefault(one.name, now)
            late = [one for one in at_work if one.fault and now - self._working_since[one.name] > ARMED_SECONDS_MAX]
            if chosen := late or [one for one in at_work if not one.fault or _on_term(one)]:
                return self._random.choice(chosen)
            self._replicas.check()
            if self._replicas.kills_left <= 0 and at_work:
                return None
            await asyncio.sleep(STEP_SECONDS)
        alive = [one for one in self._replicas.members.values() if one.alive]
        return self._random.choice(alive) if alive else None

    async def _disturb_replica(self, replica: Replica | None) -> None:
        if replica is None or not replica.alive or self._replicas.kills_left <= 0:
            return
        kind = self._random.choices(list(KINDS), list(KINDS.values()))[0]
        if _on_term(replica):
            kind = "term"
        elif replica.fault:
            kind = "kill9"
        if kind == "kill9":
            self._replicas.kill(replica)
            return
        task = asyncio.create_task(
            self._replicas.stop(replica) if kind == "stop" else self._replicas.terminate(replica)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # It has begun before any other disturbance.
        await asyncio.sleep(0)

    async def _cut(self) -> None:
        self._cuts_left -= 1
        kind = self._random.choice(CUTS)
        await disturb(self._proxy, kind, self._random, self._plan.lease_seconds)
        self.cuts[kind] += 1

    async def _settle(self) -> None:
        """Wait until nothing waits, nothing is under way, and the janitor has run."""
        self._tell("settling")
        self._proxy.swallow_answers(0)
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while not await self._state.drained():
            self._replicas.check()
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(STEP_SECONDS)
        await self._kills.followed()
        await asyncio.sleep(HOUSEKEEPING_SECONDS)
        self._tell("checking")
        await self._replicas.shut_down()


def _marked(work: Work | None) -> bool:
    return work is not None and work.marked > 0


def _on_term(replica: Replica) -> bool:
    return replica.fault.partition(":")[0] in ON_TERM
