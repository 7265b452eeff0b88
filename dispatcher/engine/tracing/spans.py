"""Spans: finished traces in the bytes of OTLP. No address, no content and no key of a caller's is in them.

OpenTelemetry's own encoder takes 10 us a span, five times as long: it reads objects of its SDK that would be made for
it alone. Here its messages are filled directly. A test compares the two.
"""

from collections.abc import Sequence
from functools import lru_cache
from secrets import token_bytes

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, SpanFlags, Status
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext

from channels.contract import Refused, RetryAfter, Unknown
from dispatcher.base.version import VERSION
from dispatcher.engine.rules.life import Claimed, Failed, Held
from dispatcher.engine.tracing.traces import Finished, Step

_SCOPE = InstrumentationScope("dispatcher", VERSION)
_BAD_ENDS = (Failed, Held)
_BAD_VERDICTS = (Refused, RetryAfter, Unknown)
_NANOSECONDS = 1_000_000_000
_STATUS = {True: Status(), False: Status(code=Status.STATUS_CODE_ERROR)}
_LOCAL = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_REMOTE = _LOCAL | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
# Attributes that many spans have: of channels, lanes, tenants, workspaces, providers and verdicts.
_ATTRIBUTES_CACHED_MAX = 1_000


class Encoder:
    """Encodes the traces of one process."""

    def __init__(self, resource: Resource) -> None:
        # What all requests have in common is as the library encodes it.
        some = ReadableSpan("", SpanContext(1, 1, is_remote=False), None, resource, instrumentation_scope=_SCOPE)
        self._empty = encode_spans([some])
        del self._empty.resource_spans[0].scope_spans[0].spans[:]

    def request(self, batch: Sequence[Finished]) -> bytes:
        """Return the request that exports a batch."""
        message = ExportTraceServiceRequest()
        message.CopyFrom(self._empty)
        spans = message.resource_spans[0].scope_spans[0]
        for finished in batch:
            _add(spans, finished)
        encoded: bytes = message.SerializeToString()
        return encoded


def _add(spans: ScopeSpans, finished: Finished) -> None:
    """Add the span of a delivery, and below it one for each of its steps."""
    trace, epoch = finished.trace, finished.epoch
    trace_id, own_id = bytes.fromhex(trace.trace_id), bytes.fromhex(trace.span_id)
    spans.spans.add(
        trace_id=trace_id,
        span_id=own_id,
        parent_span_id=None if trace.parent_id is None else bytes.fromhex(trace.parent_id),
        name="deliver",
        kind=Span.SPAN_KIND_CONSUMER,
        start_time_unix_nano=round((epoch + trace.steps[0].began) * _NANOSECONDS),
        end_time_unix_nano=round((epoch + trace.steps[-1].ended) * _NANOSECONDS),
        attributes=_facts(trace.item, finished.outcome.__name__.lower()),
        status=_STATUS[finished.outcome not in _BAD_ENDS],
        flags=_LOCAL if trace.parent_id is None else _REMOTE,
    )
    for step in trace.steps:
        is_call = step.verdict is not None
        spans.spans.add(
            trace_id=trace_id,
            span_id=bytes.fromhex(trace.call_id) if is_call else token_bytes(8),
            parent_span_id=own_id,
            name=step.name,
            kind=Span.SPAN_KIND_CLIENT if is_call else Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=round((epoch + step.began) * _NANOSECONDS),
            end_time_unix_nano=round((epoch + step.ended) * _NANOSECONDS),
            attributes=_call_facts(step),
            status=_STATUS[step.verdict not in _BAD_VERDICTS],
            flags=_LOCAL,
        )


def _facts(item: Claimed, outcome: str) -> list[KeyValue]:
    facts = [
        _number("dispatcher.delivery_id", item.id),
        _text("dispatcher.channel", item.channel),
        _text("dispatcher.lane", item.lane.name.lower()),
        _text("dispatcher.tenant_id", item.tenant_id),
        _text("dispatcher.workspace_id", item.workspace_id),
        _number("dispatcher.earlier_attempts", item.used),
    ]
    if item.run_id is not None:
        facts.append(_number("dispatcher.run_id", item.run_id))
    return [*facts, _text("dispatcher.outcome", outcome)]


def _call_facts(step: Step) -> list[KeyValue] | None:
    if step.verdict is None:
        return None
    return [_text("dispatcher.provider", step.provider), _text("dispatcher.verdict", step.verdict.__name__.lower())]


def _number(name: str, value: int) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(int_value=value))


@lru_cache(maxsize=_ATTRIBUTES_CACHED_MAX)
def _text(name: str, value: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=value))
