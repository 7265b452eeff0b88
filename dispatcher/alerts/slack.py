"""Slack alerts: collected errors are posted to Slack, at most a message a period.

They are posted by the client for outgoing URLs, without an envelope: see the package. A message that did not arrive is
put back and sent with the next one, however long Slack is away.
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
from dispatcher.base.errors import ListenerError
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Alerts as Settings

log = structlog.get_logger(__name__)

TICK_SECONDS = 0.5
CALL_SECONDS_MAX = 10.0
# The process's end waits no longer for Slack.
LAST_MESSAGE_SECONDS_MAX = 5.0
# Slack answers with a word.
ANSWER_BYTES_MAX = 4 * 1024


class SlackAlerts:
    """Collects errors while it is `collecting`, and posts them."""

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
        # When the oldest waiting error came, and when the next message may be sent.
        self._waiting_since: float | None = None
        self._next_at = 0.0
        # The outage that was logged.
        self._logged_outage: float | None = None

    @asynccontextmanager
    async def collecting(self) -> AsyncIterator[None]:
        """Collect logged errors meanwhile; at the end post the rest, with the crash that is the end, if any."""
        handler = ErrorHandler(self.add)
        logging.getLogger().addHandler(handler)
        running = asyncio.create_task(self.run())
        try:
            yield
        except Exception as crash:
            # A start on a taken port is one line for the person who starts it; where nobody looks, Slack tells.
            if self.settings.slack or not isinstance(crash, ListenerError):
                error = type(innermost(crash)).__name__
                log.error("process.failed", error=error)  # noqa: TRY400 - the caller shows the traceback
            raise
        finally:
            running.cancel()
            await asyncio.wait([running])
            logging.getLogger().removeHandler(handler)
            await self._post_last()

    def adopt(self, settings: Settings) -> None:
        """Take over a new configuration; a wait that the old URL asked for does not hold for a new one."""
        if settings.slack != self.settings.slack:
            self._next_at = 0.0
        self.settings = settings

    def add(self, kind: Kind) -> None:
        """Add an error."""
        if self.settings.slack and not self._collected.add(kind, self._wall()):
            self._metrics.alerts_dropped.inc()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self.run_once()
            await asyncio.sleep(TICK_SECONDS)

    async def run_once(self) -> None:
        """Log a long outage of the database, and post what is due."""
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
            await self._send()

    def _watch(self) -> None:
        since = self._away_since()
        if since is None:
            self._logged_outage = None
            return
        seconds = self._clock.monotonic() - since
        if self._logged_outage != since and seconds >= self.settings.database_away_seconds:
            self._logged_outage = since
            log.error("database.away_long", seconds=round(seconds))

    async def _post_last(self) -> None:
        """Post what still waits, once and at once."""
        if not self._collected:
            return
        try:
            async with asyncio.timeout(LAST_MESSAGE_SECONDS_MAX):
                await self._send()
        except TimeoutError:
            log.warning("alerts.untold", errors=self._collected.take().errors)

    async def _send(self) -> None:
        batch = self._collected.take()
        why, wait = "given up", 0.0
        try:
            why, wait = await self._post(batch)
        except Exception as trouble:
            # A failed alert must not become an error.
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
        """Return why Slack did not take it, or an empty text; and the seconds that it asks us to wait."""
        # An HTTP client takes long to import, and most processes never post.
        from channels.shared.web.answers import asked_wait, succeeded  # noqa: PLC0415 - as above
        from channels.shared.web.client import Bounds, Call, Client, Lost  # noqa: PLC0415 - as above
        from channels.shared.web.guard import guard_of  # noqa: PLC0415 - as above

        settings = self.settings
        client = Client(guard_of(settings.slack, settings.allow_addresses), Bounds(1, ANSWER_BYTES_MAX, 0.0))
        text = message(batch, settings.environment, self._instance)
        try:
            answer = await client.post(Call([], settings.slack, {}, text, CALL_SECONDS_MAX))
        finally:
            await client.close()
        if isinstance(answer, Lost):
            return answer.why, 0.0
        return ("", 0.0) if succeeded(answer) else (f"answered with {answer.status}", asked_wait(answer) or 0.0)
