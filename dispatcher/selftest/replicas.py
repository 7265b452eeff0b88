"""The replicas: a fixed number at a time; each is replaced as soon as it has ended."""

import asyncio
import random
import signal
import time
from pathlib import Path

from dispatcher.base.errors import DispatcherError
from dispatcher.selftest.disturbances import ON_TERM, draw_fault
from dispatcher.selftest.kills import Kill, Kills
from dispatcher.selftest.plan import GRACE_SECONDS, Plan
from dispatcher.selftest.programs import Replica, end

# Of the replicas that are started again, so many are armed with a fault point.
ARMED_SHARE = 0.5
# The grace, and what is left to write after it.
EXIT_SECONDS_MAX = GRACE_SECONDS + 25.0
STOP_SHARES = (1.3, 2.0)
# A process that cannot even start dies at once, again and again.
FAILED_STARTS_MAX = 5
START_SECONDS_MIN = 3.0


class ReplicaSet:
    """Keeps the replicas. All disturbances of them are methods, so that each end has a known cause."""

    def __init__(self, plan: Plan, folder: Path, url: str, kills: Kills, rng: random.Random) -> None:
        self._plan = plan
        self._folder = folder
        self._url = url
        self._kills = kills
        self._random = rng
        self._names = 0
        self._resting = asyncio.Event()
        self._failed_starts = 0
        self._killed: dict[str, Kill] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.members: dict[int, Replica] = {}
        # Kills that are still to come; a replica is armed only for one of them.
        self.kills_left = plan.kills

    async def start(self) -> None:
        for place in range(self._plan.replicas):
            await self._renew(place)
            self._tasks.append(asyncio.create_task(self._keep(place)))

    def check(self) -> None:
        """Raise what failed while keeping them."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def _renew(self, place: int) -> None:
        self._names += 1
        armed = sum(bool(one.fault) and one.process.returncode is None for one in self.members.values())
        fault = ""
        # The first ones are not armed, so that work begins; and one at a time, so that others live to recover it.
        if (
            self._names > self._plan.replicas
            and not armed
            and self.kills_left > 0
            and self._random.random() < ARMED_SHARE
        ):
            fault = draw_fault(self._random)
        replica = Replica(f"replica-{self._names}", self._folder / f"replica-{self._names}.log", fault)
        await replica.start(self._folder / "dispatcher.toml", self._url)
        self.members[place] = replica

    async def _keep(self, place: int) -> None:
        while True:
            replica = self.members[place]
            began = time.monotonic()
            code = await replica.process.wait()
            self._note_end(replica, code, time.monotonic() - began)
            if self._resting.is_set():
                return
            await self._renew(place)
            if self._resting.is_set():
                # It was being started when the others were told to end.
                self.members[place].signal(signal.SIGTERM)

    def _note_end(self, replica: Replica, code: int, seconds: float) -> None:
        kill = self._killed.get(replica.name)
        if kill is None and replica.fault and code == -signal.SIGKILL:
            self.kills_left = max(0, self.kills_left - 1)
            kill = self._kills.note("point", replica.name, replica.fault)
        if kill is not None:
            kill.exit_code, kill.exit_seconds = code, time.monotonic() - kill.at
            self._failed_starts = 0
        elif not self._resting.is_set():
            self._kills.unasked.append(f"{replica.name} ended with {code}")
            self._failed_starts = self._failed_starts + 1 if seconds < START_SECONDS_MIN else 0
            if self._failed_starts >= FAILED_STARTS_MAX:
                raise DispatcherError(f"replicas do not start: see {self._folder}/{replica.name}.log")

    # Disturbances

    def kill(self, replica: Replica) -> None:
        self.kills_left -= 1
        replica.ending = True
        replica.signal(signal.SIGKILL)
        self._killed[replica.name] = self._kills.note("kill9", replica.name)

    async def terminate(self, replica: Replica) -> None:
        """Send SIGTERM and wait for the end; a replica that is armed for that dies on its way."""
        self.kills_left -= 1
        replica.ending = True
        point = replica.fault.partition(":")[0]
        dies = point in ON_TERM
        replica.signal(signal.SIGTERM)
        kill = self._kills.note("point" if dies else "term", replica.name, replica.fault if dies else "")
        self._killed[replica.name] = kill
        await self._gone(replica)

    async def stop(self, replica: Replica) -> None:
        """SIGSTOP for longer than the lease, then SIGCONT."""
        self.kills_left -= 1
        replica.stopped = True
        replica.signal(signal.SIGSTOP)
        kill = self._kills.note("stop", replica.name)
        await asyncio.sleep(self._random.uniform(*STOP_SHARES) * self._plan.lease_seconds)
        replica.signal(signal.SIGCONT)
        replica.stopped = False
        # A takeover that had begun is over by then.
        await asyncio.sleep(self._plan.lease_seconds)
        kill.survived = kill.recovered_seconds is None

    async def _gone(self, replica: Replica) -> None:
        try:
            await asyncio.wait_for(replica.process.wait(), EXIT_SECONDS_MAX)
        except TimeoutError:
            self._kills.unasked.append(f"{replica.name} did not end within {EXIT_SECONDS_MAX:g} s of SIGTERM")
            await end(replica.process)

    async def shut_down(self) -> None:
        self._resting.set()
        for replica in self.members.values():
            replica.signal(signal.SIGTERM)
        await asyncio.gather(*(self._gone(replica) for replica in self.members.values()))
        await asyncio.wait_for(asyncio.gather(*self._tasks), EXIT_SECONDS_MAX)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for replica in self.members.values():
            await end(replica.process)
