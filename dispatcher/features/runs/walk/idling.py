"""Idling: how a walker without work sleeps and asks to be woken."""

from dispatcher.base.clock import Clock
from dispatcher.db.database import Database
from dispatcher.db.joint_looks import until_poll
from dispatcher.engine.store import instances
from dispatcher.features.runs.walk import walking

# Found busy for this long without a pause, triggers and wakes need not notify any more.
BUSY_SECONDS = 0.25
# A transaction that looked for idle walkers before we registered may commit after our last look for work.
SETTLE_SECONDS = (0.02, 0.08, 0.3)
# A run that is due and cannot be taken is locked by another transaction, perhaps for long.
LOCKED_SECONDS = 0.05


class Idling:
    """The idle state of one walker."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        # The epoch that has asked to be woken.
        self._asking: int | None = None
        self._busy_since: float | None = None
        self._settling = 0
        # The last round has found nothing to do.
        self._resting = False

    async def work(self, epoch: int) -> None:
        """Note that there was work; after BUSY_SECONDS of it, ask no longer to be woken."""
        now = self._clock.monotonic()
        self._settling = 0
        self._resting = False
        if self._busy_since is None:
            self._busy_since = now
        elif self._asking == epoch and now - self._busy_since > BUSY_SECONDS:
            await instances.ask_to_be_woken_for_runs(self._database, epoch, wanted=False)
            self._asking = None

    async def rest(self, epoch: int, poll_seconds: float) -> float:
        """Ask to be woken after a round without work; return how long to sleep."""
        self._busy_since = None
        if self._asking != epoch:
            await instances.ask_to_be_woken_for_runs(self._database, epoch, wanted=True)
            self._asking = epoch
            self._settling = 0
            return SETTLE_SECONDS[0]
        self._settling += 1
        due, _ = await walking.look(self._database)
        self._resting = True
        wait = poll_seconds
        if due is not None:
            wait = min(wait, due if due > 0 else LOCKED_SECONDS)
        return min(wait, SETTLE_SECONDS[self._settling]) if self._settling < len(SETTLE_SECONDS) else wait

    async def rest_on(self, epoch: int, poll_seconds: float, *, polls: bool) -> float:
        """Look whether there is work, after a round without any; return how long to sleep, 0 for another round."""
        if not self._resting or self._asking != epoch or self._settling < len(SETTLE_SECONDS):
            return 0.0
        due = await walking.soonest(self._database, jointly=polls)
        return until_poll(poll_seconds) if due is None else min(until_poll(poll_seconds), max(due, 0.0))
