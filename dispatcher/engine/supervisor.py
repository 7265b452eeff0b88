"""The supervisor: starts a part again when it has crashed, until its budget is spent."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from dispatcher.base.clock import Clock
from dispatcher.base.errors import RestartBudgetSpent
from dispatcher.base.metrics import Metrics
from dispatcher.base.values.counts import counted
from dispatcher.config.settings import Supervisor as Settings

log = structlog.get_logger(__name__)

WAIT_FIRST_SECONDS = 0.1
WAIT_MAX_SECONDS = 5.0


class Supervisor:
    """Restarts within a budget: so many crashes of one part within a window, then the process gives up."""

    def __init__(self, settings: Settings, clock: Clock, metrics: Metrics) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics

    async def supervise(self, part: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a part until it returns; a crash is logged, counted, and followed by another start."""
        # Made before the first crash, which would be no increase otherwise.
        restarts = self._metrics.restarts.labels(part)
        crashes: deque[float] = deque()
        while True:
            try:
                await run()
            except Exception as crash:
                now = self._clock.monotonic()
                crashes.append(now)
                while crashes[0] < now - self._settings.window_seconds:
                    crashes.popleft()
                restarts.inc()
                log.exception("part.crashed", part=part, crashes=len(crashes), error=_leaves(crash))
                if len(crashes) > self._settings.restarts_max:
                    raise RestartBudgetSpent(
                        f"{part} crashed {counted(len(crashes), 'time')} within {self._settings.window_seconds:g} s"
                    ) from crash
                await asyncio.sleep(min(WAIT_FIRST_SECONDS * 2 ** (len(crashes) - 1), WAIT_MAX_SECONDS))
            else:
                return


def _leaves(crash: BaseException) -> str:
    """The single errors inside exception groups."""
    if isinstance(crash, BaseExceptionGroup):
        return ", ".join(_leaves(inner) for inner in crash.exceptions)
    return f"{type(crash).__name__}: {crash}"[:500]
