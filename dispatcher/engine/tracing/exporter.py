"""The exporter: sends finished traces to a collector by OTLP over HTTP, in a thread of its own.

A delivery never waits for it: what does not fit into its queue is dropped, and what the collector does not take is
lost; both are counted. OpenTelemetry is an extra: this module and `spans` are imported only where traces are exported.
"""

import logging
import threading
from collections import deque
from collections.abc import Sequence

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource

from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.base.version import VERSION
from dispatcher.config.settings import Tracing as Settings
from dispatcher.engine.tracing.sampling import Sampling
from dispatcher.engine.tracing.spans import Encoder
from dispatcher.engine.tracing.traces import Finished, Traces

log = structlog.get_logger(__name__)

# Traces that wait: some MB, and at a ratio of one percent what is sent in half a minute.
WAITING_MAX = 5_000
# Traces in a request: about 100 KB.
BATCH_MAX = 200
# A trace waits for others for so long.
LINGER_SECONDS = 1.0
# For a request, with its repetitions.
EXPORT_SECONDS_MAX = 10.0
# The process's end waits no longer for the collector.
CLOSE_SECONDS_MAX = 3.0


class _Collector(OTLPSpanExporter):
    """The library's way to a collector, for what is encoded already."""

    def take(self, request: bytes) -> bool:
        """Send a request; return whether it was taken."""
        return self._client.export(request).success


class Exporter:
    """Exports traces of one process, from its start until it is closed."""

    def __init__(self, settings: Settings, instance: str, clock: Clock, metrics: Metrics) -> None:
        # What fails is counted and logged here; an error of the library's would be an alert.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._collector = _Collector(settings.endpoint, timeout=EXPORT_SECONDS_MAX)
        named = {"service.name": settings.service_name, "service.version": VERSION, "service.instance.id": instance}
        self._encoder = Encoder(Resource.create(named))
        self._sampling = Sampling(settings.sampling_ratio)
        self._clock = clock
        self._spans = metrics.spans
        self._waiting: deque[Finished] = deque()
        self._filled = threading.Event()
        self._closing = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="tracing", daemon=True)
        self._thread.start()

    def traces(self) -> Traces:
        """Return the traces of a new epoch."""
        return Traces(self._sampling, self._clock, self.put)

    def put(self, finished: Finished) -> None:
        """Queue a trace; it is dropped where the queue is full."""
        if len(self._waiting) >= WAITING_MAX:
            self._spans.labels("dropped").inc(_spans_of(finished))
            return
        self._waiting.append(finished)
        if len(self._waiting) >= BATCH_MAX:
            self._filled.set()

    def close(self) -> None:
        """Export what waits, for a short while; the rest is dropped. To be called in a thread."""
        self._closing = True
        self._filled.set()
        self._thread.join(CLOSE_SECONDS_MAX)
        self._collector.shutdown()  # type: ignore[no-untyped-call]  # the library's stub lacks it
        self._spans.labels("dropped").inc(sum(map(_spans_of, self._waiting)))

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._filled.wait(LINGER_SECONDS)
            self._filled.clear()
            is_last = self._closing
            while self._waiting:
                self._export([self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))])

    def _export(self, batch: Sequence[Finished]) -> None:
        spans = sum(map(_spans_of, batch))
        try:
            is_taken = self._collector.take(self._encoder.request(batch))
        except Exception as fault:
            # Whatever the library raises, no delivery is to know of it.
            log.warning("tracing.broken", error=type(fault).__name__)
            is_taken = False
        self._spans.labels("exported" if is_taken else "failed").inc(spans)
        if is_taken is self._failing:
            self._failing = not is_taken
            log.info("tracing.exporting") if is_taken else log.warning("tracing.failing", spans=spans)


def _spans_of(finished: Finished) -> int:
    return len(finished.trace.steps) + 1
