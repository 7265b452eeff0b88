"""Encoded spans: they are what OpenTelemetry's own encoder makes of the same traces."""

from collections.abc import Iterator
from itertools import product

from msgspec import structs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from channels.contract import Accepted, NotCalled, Refused, RetryAfter, Throttled, Unknown, Verdict
from dispatcher.base.version import VERSION
from dispatcher.engine.rules.life import Back, Failed, Held, Lane, Lost, Outcome, Skipped, Succeeded
from dispatcher.engine.tracing.spans import Encoder
from dispatcher.engine.tracing.traces import Finished, Step, Trace
from tests.engine.stage import claimed

RESOURCE = Resource.create({"service.name": "dispatcher", "service.version": VERSION})
OUTCOMES: tuple[type[Outcome], ...] = (Succeeded, Failed, Held, Skipped, Back, Lost)
BAD_OUTCOMES = (Failed, Held)
VERDICTS: tuple[type[Verdict], ...] = (Accepted, Refused, RetryAfter, Throttled, NotCalled, Unknown)
BAD_VERDICTS = (Refused, RetryAfter, Unknown)
PARENTS = None, "00f067aa0ba902b7"
RUNS = None, 7
EPOCH = 1_790_000_000.25
OK, ERROR = Status(StatusCode.UNSET), Status(StatusCode.ERROR)


def test_spans_are_encoded_as_the_library_encodes_them() -> None:
    cases = product(OUTCOMES, VERDICTS, PARENTS, RUNS)
    batch = [finished(number, *case) for number, case in enumerate(cases, start=1)]
    message = ExportTraceServiceRequest.FromString(Encoder(RESOURCE).request(batch))
    (resource,) = message.resource_spans
    (scope,) = resource.scope_spans
    ids = [int.from_bytes(span.span_id, "big") for span in scope.spans]
    expected = list(spans(batch, ids))
    assert all(ids)
    assert len(set(ids)) == len(ids) == len(expected)
    assert message == encode_spans(expected)


def finished(
    number: int, outcome: type[Outcome], verdict: type[Verdict], parent_id: str | None, run_id: int | None
) -> Finished:
    """A trace of three steps."""
    item = structs.replace(claimed(number), run_id=run_id, used=number % 3, lane=Lane(number % 3), tenant_id="änne")
    steps = [
        Step("claim", 1.0, 1.5 + number),
        Step("call", 2.0, 3.000_000_1, "twilio", verdict),
        Step("flush", 3.5, 4.0),
    ]
    return Finished(
        Trace(item, f"{number:032x}", parent_id, f"{number:016x}", f"{number + 2**60:016x}", steps), outcome, EPOCH
    )


def spans(batch: list[Finished], ids: list[int]) -> Iterator[ReadableSpan]:
    """Yield the spans of traces as objects of the library; the ids of steps are those that they were given."""
    given = iter(ids)
    for one in batch:
        trace, item = one.trace, one.trace.item
        own = context(one, int(trace.span_id, 16))
        assert next(given) == own.span_id
        facts: dict[str, str | int] = {
            "dispatcher.delivery_id": item.id,
            "dispatcher.channel": item.channel,
            "dispatcher.lane": item.lane.name.lower(),
            "dispatcher.tenant_id": item.tenant_id,
            "dispatcher.workspace_id": item.workspace_id,
            "dispatcher.earlier_attempts": item.used,
        }
        if item.run_id is not None:
            facts["dispatcher.run_id"] = item.run_id
        yield ReadableSpan(
            "deliver",
            own,
            None if trace.parent_id is None else context(one, int(trace.parent_id, 16), is_remote=True),
            RESOURCE,
            facts | {"dispatcher.outcome": one.outcome.__name__.lower()},
            kind=SpanKind.CONSUMER,
            status=ERROR if one.outcome in BAD_OUTCOMES else OK,
            start_time=nanoseconds(trace.steps[0].began),
            end_time=nanoseconds(trace.steps[-1].ended),
            instrumentation_scope=InstrumentationScope("dispatcher", VERSION),
        )
        for step in trace.steps:
            span_id = next(given)
            if step.verdict is not None:
                assert span_id == int(trace.call_id, 16)
            yield ReadableSpan(
                step.name,
                context(one, span_id),
                own,
                RESOURCE,
                {"dispatcher.provider": step.provider, "dispatcher.verdict": step.verdict.__name__.lower()}
                if step.verdict
                else None,
                kind=SpanKind.CLIENT if step.verdict else SpanKind.INTERNAL,
                status=ERROR if step.verdict in BAD_VERDICTS else OK,
                start_time=nanoseconds(step.began),
                end_time=nanoseconds(step.ended),
                instrumentation_scope=InstrumentationScope("dispatcher", VERSION),
            )


def context(one: Finished, span_id: int, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(int(one.trace.trace_id, 16), span_id, is_remote, TraceFlags(TraceFlags.SAMPLED))


def nanoseconds(at: float) -> int:
    return round((EPOCH + at) * 1_000_000_000)
