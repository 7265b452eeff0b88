"""Sentry alerts: collected errors as events, each kind one, at most once a period.

They are collected as those for Slack are: of an error Sentry gets the event's name, the part, the exception's class and
place, a count and times. The library's own integrations are off, so that no message, variable or line of code goes out.
It is an extra, and imported with the first event.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import structlog

from dispatcher.alerts.collected import Batch, Collected, Kind, Seen
from dispatcher.alerts.log_handler import ErrorHandler
from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.base.version import VERSION
from dispatcher.config.settings import Alerts as Settings

log = structlog.get_logger(__name__)

TICK_SECONDS = 0.5
# For the events of a period; the process's end waits no longer either.
SEND_SECONDS_MAX = 5.0
LEFT_OUT = Kind("alerts.left_out")


class SentryAlerts:
    """Collects errors while it is `collecting`, and sends them."""

    def __init__(
        self,
        settings: Settings,
        instance: str,
        clock: Clock,
        metrics: Metrics,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self._instance = instance
        self._clock = clock
        self._metrics = metrics
        self._wall = wall
        self._collected = Collected()
        # When the oldest waiting error came, and when the next events may be sent.
        self._waiting_since: float | None = None
        self._next_at = 0.0

    @asynccontextmanager
    async def collecting(self) -> AsyncIterator[None]:
        """Collect logged errors meanwhile; at the end send the rest."""
        handler = ErrorHandler(self.add)
        logging.getLogger().addHandler(handler)
        running = asyncio.create_task(self.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])
            logging.getLogger().removeHandler(handler)
            if self._collected:
                await self._send()

    def adopt(self, settings: Settings) -> None:
        """Take over a new configuration."""
        self.settings = settings

    def add(self, kind: Kind) -> None:
        """Add an error."""
        if self.settings.sentry and not self._collected.add(kind, self._wall()):
            self._metrics.alerts_dropped.inc()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self.run_once()
            await asyncio.sleep(TICK_SECONDS)

    async def run_once(self) -> None:
        """Send what is due."""
        if not self.settings.sentry:
            self._collected.take()
        if not self._collected:
            self._waiting_since = None
            return
        now = self._clock.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        if now >= max(self._waiting_since + self.settings.collect_seconds, self._next_at):
            await self._send()

    async def _send(self) -> None:
        """Send what is collected; what Sentry does not take is lost, and stands in the log."""
        batch, self._waiting_since = self._collected.take(), None
        self._next_at = self._clock.monotonic() + self.settings.every_seconds
        try:
            why = await asyncio.to_thread(_sent, self.settings.sentry, self._events(batch))
        except Exception as trouble:
            # A failed alert must not become an error.
            why = type(trouble).__name__
        self._metrics.alerts.labels("failed" if why else "sent").inc()
        if why:
            log.warning("alerts.failed", errors=batch.errors, why=why)

    def _events(self, batch: Batch) -> list[dict[str, Any]]:
        kinds = dict(batch.kinds)
        if batch.left_out:
            now = self._wall()
            kinds[LEFT_OUT] = Seen(batch.left_out, now, now)
        return [event_of(kind, seen, self.settings.environment, self._instance) for kind, seen in kinds.items()]


def event_of(kind: Kind, seen: Seen, environment: str, instance: str) -> dict[str, Any]:
    """Return a kind of error as an event of Sentry's."""
    named = {"event": kind.event, "part": kind.part, "error": kind.error, "place": kind.place}
    first, last = (datetime.fromtimestamp(at, UTC).isoformat() for at in (seen.first, seen.last))
    return {
        "level": "error",
        "logger": "dispatcher",
        "message": " ".join(filter(None, (kind.event, kind.part, kind.error))),
        "fingerprint": list(named.values()),
        "tags": {name: text for name, text in named.items() if text},
        "extra": {"times": seen.times, "first": first},
        "timestamp": last,
        "environment": environment or "production",
        "server_name": instance,
        "release": VERSION,
    }


def _sent(dsn: str, events: list[dict[str, Any]]) -> str:
    """Send events; return why some were not taken, or an empty text."""
    # Long to import, and an extra.
    import sentry_sdk  # noqa: PLC0415 - as above
    from sentry_sdk.transport import HttpTransport  # noqa: PLC0415 - as above

    # What it logs of its own troubles would be an alert.
    logging.getLogger("sentry_sdk").setLevel(logging.CRITICAL)
    lost: list[str] = []

    class Transport(HttpTransport):
        def record_lost_event(self, reason: str, *_: object, **__: object) -> None:
            lost.append(reason)

    client = sentry_sdk.Client(
        dsn=dsn,
        transport=Transport,
        default_integrations=False,
        auto_enabling_integrations=False,
        include_local_variables=False,
        include_source_context=False,
        auto_session_tracking=False,
        send_client_reports=False,
        max_breadcrumbs=0,
    )
    for event in events:
        client.capture_event(event)  # type: ignore[arg-type]  # a plain dict is one
    client.close(timeout=SEND_SECONDS_MAX)
    return f"{len(lost)} events were lost: {lost[0]}" if lost else ""
