"""A collector of OpenTelemetry: a real server that decodes what is exported to it."""

from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.channels.shared.web.fake_server import FakeServer, says
from tests.support.waits import until


class Collector:
    """Takes spans at `url`, unless its `server` is told otherwise."""

    def __init__(self) -> None:
        self.server = FakeServer(says(200, {}))

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.__aexit__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/v1/traces"

    @property
    def requests(self) -> list[ExportTraceServiceRequest]:
        """What it was sent, decoded."""
        return [ExportTraceServiceRequest.FromString(one.body) for one in self.server.requests]

    @property
    def spans(self) -> list[Span]:
        """Every span."""
        scopes = [scope for one in self.requests for where in one.resource_spans for scope in where.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    async def until_spans(self, count: int) -> list[Span]:
        """Wait for so many spans; in the order of their begin."""
        await until(lambda: len(self.spans) >= count, f"{count} spans are exported")
        return sorted(self.spans, key=lambda span: (span.start_time_unix_nano, -span.end_time_unix_nano))


def facts(span: Span) -> dict[str, str | int]:
    """The attributes of a span."""
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}
