"""The courier: takes what was collected to Slack, a message a period at most, and hinders nobody by it.

It posts by the plain client for outgoing URLs, with no envelope in its call: see the package. A message that did not
arrive is put back and told with the next one, so that Slack may be away for as long as it likes.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from dispatcher.alerts.collected import Batch, Collected, Kind
from dispatcher.alerts.log_handler import ErrorHandler, innermost
from dispatcher.alerts.message import message
from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Alerts as Settings

log = structlog.get_logger(__name__)

TICK_SECONDS = 0.5
CALL_SECONDS_MAX = 10.0
# An end is not put off for longer than this by who does not answer.
FAREWELL_SECONDS_MAX = 5.0
# Slack answers with a word.
ANSWER_BYTES_MAX = 4 * 1024


class SlackAlerts:
    """Hears of errors while it is `listening`, and tells of them."""

    def __init__(
        self,
        settings: Settings,
        instance: str,
        away_since: Callable[[], float | None],
        clock: Clock,
        metrics: Metrics,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self._instance = instance
        self._away_since = away_since
        self._clock = clock
        self._metrics = metrics
        self._wall = wall
        self._collected = Collected()
        # When the oldest of what waits came, and when a message may follow the last one.
        self._waiting_since: float | None = None
        self._next_at = 0.0
        # The outage that was spoken of.
        self._away_told: float | None = None

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Tell of what is logged as an error meanwhile; at the end of what still waits, and of the end if it is one."""
        ear = ErrorHandler(self.hear)
        logging.getLogger().addHandler(ear)
        running = asyncio.create_task(self.run())
        try:
            yield
        except Exception as crash:
            error = type(innermost(crash)).__name__
            log.error("process.failed", error=error)  # noqa: TRY400 - who starts us shows the traceback
            raise
        finally:
            running.cancel()
            await asyncio.wait([running])
            logging.getLogger().removeHandler(ear)
            await self._farewell()

    def adopt(self, settings: Settings) -> None:
        """Go on under another configuration; how long the old URL wanted to be left alone says nothing of a new one."""
        if settings.slack != self.settings.slack:
            self._next_at = 0.0
        self.settings = settings

    def hear(self, kind: Kind) -> None:
        """One error."""
        if self.settings.slack and not self._collected.add(kind, self._wall()):
            self._metrics.alerts_dropped.inc()

    async def run(self) -> None:
        """Go on for ever."""
        while True:
            await self.run_once()
            await asyncio.sleep(TICK_SECONDS)

    async def run_once(self) -> None:
        """Look at the outage that there may be, and tell what is to be told by now."""
        self._watch()
        if not self.settings.slack:
            self._collected.take()
        if not self._collected:
            self._waiting_since = None
            return
        now = self._clock.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        if now >= max(self._waiting_since + self.settings.collect_seconds, self._next_at):
            await self._tell()

    def _watch(self) -> None:
        since = self._away_since()
        if since is None:
            self._away_told = None
            return
        seconds = self._clock.monotonic() - since
        if self._away_told != since and seconds >= self.settings.database_away_seconds:
            self._away_told = since
            log.error("database.away_long", seconds=round(seconds))

    async def _farewell(self) -> None:
        """Whatever still waits, once, and at once: later there is nobody left who could tell it."""
        if not self._collected:
            return
        try:
            async with asyncio.timeout(FAREWELL_SECONDS_MAX):
                await self._tell()
        except TimeoutError:
            log.warning("alerts.untold", errors=self._collected.take().errors)

    async def _tell(self) -> None:
        batch = self._collected.take()
        why, wait = "given up", 0.0
        try:
            why, wait = await self._post(batch)
        except Exception as trouble:
            # To tell of errors must not become one.
            why = type(trouble).__name__
        finally:
            self._next_at = self._clock.monotonic() + max(self.settings.every_seconds, wait)
            self._metrics.alerts.labels("failed" if why else "sent").inc()
            if why:
                self._metrics.alerts_dropped.inc(self._collected.put_back(batch))
                log.warning("alerts.failed", errors=batch.errors, why=why)
            else:
                self._waiting_since = None

    async def _post(self, batch: Batch) -> tuple[str, float]:
        """Why it was not taken, nothing where it was; and for how long we are asked to wait."""
        # An HTTP client is much to load, and most processes never have anything to tell.
        from channels.shared.web import Bounds, Call, Client, Lost, guarded  # noqa: PLC0415 - as above
        from channels.shared.web.answers import asked_wait, succeeded  # noqa: PLC0415 - as above

        settings = self.settings
        client = Client(guarded(settings.slack, settings.allow_addresses), Bounds(1, ANSWER_BYTES_MAX, 0.0))
        text = message(batch, settings.environment, self._instance)
        try:
            answer = await client.post(Call([], settings.slack, {}, text, CALL_SECONDS_MAX))
        finally:
            await client.close()
        if isinstance(answer, Lost):
            return answer.why, 0.0
        return ("", 0.0) if succeeded(answer) else (f"answered with {answer.status}", asked_wait(answer) or 0.0)
