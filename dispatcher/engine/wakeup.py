"""The wake-up: LISTEN on its own connection, so that new work is found at once and not at the next poll."""

import asyncio

import asyncpg
import structlog

from dispatcher.db import pooler
from dispatcher.db.database import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS, PASSING, connecting
from dispatcher.engine.streams import Wakes

log = structlog.get_logger(__name__)

# A server that went away without a word is noticed by asking; TCP alone would take minutes.
PROBE_SECONDS = 15.0
# The name under which inserts of transactional deliveries notify, each with its channel.
URGENT = "dispatcher_urgent"
TROUBLE: tuple[type[Exception], ...] = (*PASSING, asyncpg.InterfaceError)


class Wakeup:
    """Sets an event for each notification: `woken` for work in any lane, or by name for the transactional lane of a
    channel; `controlled` for pauses, `suppressed` for suppressions and unsubscriptions, `walking` for runs that were
    triggered or woken, `expanding` for campaigns, `policies` for quiet hours. Many notifications are one wake."""

    def __init__(self, url: str, connect_seconds_max: float, controlled: asyncio.Event) -> None:
        self._url = url
        self._connect_seconds_max = connect_seconds_max
        self.woken = Wakes()
        self._controlled = controlled
        self.suppressed = asyncio.Event()
        self.walking = asyncio.Event()
        self.expanding = asyncio.Event()
        self.policies = asyncio.Event()
        self.listening = asyncio.Event()
        self._events: dict[str, asyncio.Event | Wakes] = {
            "dispatcher_work": self.woken,
            "dispatcher_control": controlled,
            "dispatcher_suppressions": self.suppressed,
            "dispatcher_runs": self.walking,
            "dispatcher_campaigns": self.expanding,
            "dispatcher_policies": self.policies,
        }

    async def run(self) -> None:
        """Listen for ever. After each connection the queue is looked at: a notification may have been lost."""
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
        seconds_max = self._connect_seconds_max
        connection = await connecting(pooler.connect(self._url, pooler.LISTENER, connect_seconds_max=seconds_max))
        ended = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(URGENT, self._wake_urgent)
            for channel in self._events:
                await connection.add_listener(channel, self._wake)
            self.listening.set()
            for event in self._events.values():
                event.set()
            while not ended.is_set():
                try:
                    await asyncio.wait_for(ended.wait(), PROBE_SECONDS)
                except TimeoutError:
                    await connection.execute("SELECT 1", timeout=seconds_max)
        finally:
            self.listening.clear()
            connection.terminate()

    def _wake_urgent(self, _connection: object, _pid: object, _channel: str, payload: object) -> None:
        self.woken.name(str(payload))

    def _wake(self, _connection: object, _pid: object, channel: str, _payload: object) -> None:
        self._events[channel].set()
