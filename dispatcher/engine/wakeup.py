"""The wake-up: LISTEN on a connection of its own, so that new work is found at once and not at the next poll."""

import asyncio

import asyncpg
import structlog

from dispatcher.db import pooler
from dispatcher.db.database import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS, PASSING, connecting

log = structlog.get_logger(__name__)

WORK = "dispatcher_work"
CONTROL = "dispatcher_control"
RUNS = "dispatcher_runs"
SUPPRESSIONS = "dispatcher_suppressions"
# A server that went away without a word is noticed by asking; TCP alone would take minutes.
PROBE_SECONDS = 15.0
TROUBLE: tuple[type[Exception], ...] = (*PASSING, asyncpg.InterfaceError)


class Wakeup:
    """Sets `woken` whenever somebody says that there is work, `controlled` when something was paused or resumed,
    `suppressed` when an address was suppressed or has unsubscribed, and `walking` when a run was triggered or woken;
    however often, it is one wake."""

    def __init__(self, url: str, connect_seconds_max: float, controlled: asyncio.Event) -> None:
        self._url = url
        self._connect_seconds_max = connect_seconds_max
        self.woken = asyncio.Event()
        self._controlled = controlled
        self.suppressed = asyncio.Event()
        self.walking = asyncio.Event()
        self.listening = asyncio.Event()

    async def run(self) -> None:
        """Listen, for ever; a lost connection is made again, and then the queue is looked at, since a notification may
        have been lost with it."""
        wait = BACKOFF_FIRST_SECONDS
        while True:
            try:
                await self._listen()
            except TROUBLE as trouble:
                log.debug("wakeup.lost", error=type(trouble).__name__)
                await asyncio.sleep(wait)
                wait = min(wait * 2, BACKOFF_MAX_SECONDS)
            else:
                wait = BACKOFF_FIRST_SECONDS

    async def _listen(self) -> None:
        connection = await connecting(
            pooler.connect(self._url, pooler.LISTENER, connect_seconds_max=self._connect_seconds_max)
        )
        ended = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(WORK, self._wake)
            await connection.add_listener(CONTROL, self._control)
            await connection.add_listener(SUPPRESSIONS, self._suppress)
            await connection.add_listener(RUNS, self._walk)
            self.listening.set()
            self.woken.set()
            self._controlled.set()
            self.suppressed.set()
            self.walking.set()
            while not ended.is_set():
                try:
                    await asyncio.wait_for(ended.wait(), PROBE_SECONDS)
                except TimeoutError:
                    await connection.execute("SELECT 1", timeout=self._connect_seconds_max)
        finally:
            self.listening.clear()
            connection.terminate()

    def _wake(self, *_: object) -> None:
        self.woken.set()

    def _control(self, *_: object) -> None:
        self._controlled.set()

    def _suppress(self, *_: object) -> None:
        self.suppressed.set()

    def _walk(self, *_: object) -> None:
        self.walking.set()
