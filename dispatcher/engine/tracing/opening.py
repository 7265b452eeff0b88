"""Opening: the exporter of a process where traces are configured. Without that nothing of OpenTelemetry is imported."""

from typing import Protocol

from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Config
from dispatcher.engine.tracing.traces import Traces


class Tracing(Protocol):
    """The exporter."""

    def traces(self) -> Traces:
        """Return the traces of a new epoch."""

    def close(self) -> None:
        """Export what waits. To be called in a thread."""


def open_tracing(config: Config, clock: Clock, metrics: Metrics) -> Tracing | None:
    """Return the exporter of a process; None where it has none."""
    if not config.tracing.endpoint:
        return None
    from dispatcher.engine.tracing.exporter import Exporter  # noqa: PLC0415 - half a second, and an extra

    return Exporter(config.tracing, config.instance.name, clock, metrics)
