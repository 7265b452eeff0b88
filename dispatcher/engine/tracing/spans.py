"""Spans: a finished trace in the terms of OpenTelemetry. No address, no content and no key of a caller's is in them."""

from collections.abc import Iterator, Mapping
from secrets import randbits

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from channels.contract import Refused, RetryAfter, Unknown
from dispatcher.base.version import VERSION
from dispatcher.engine.rules.life import Claimed, Failed, Held
from dispatcher.engine.tracing.traces import Finished, Step

_SCOPE = InstrumentationScope("dispatcher", VERSION)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_STATUS = {True: Status(StatusCode.UNSET), False: Status(StatusCode.ERROR)}
_BAD_ENDS = (Failed, Held)
_BAD_VERDICTS = (Refused, RetryAfter, Unknown)
_NANOSECONDS = 1_000_000_000


def spans_of(finished: Finished, resource: Resource) -> Iterator[ReadableSpan]:
    """Yield the span of a delivery, and below it one for each of its steps."""
    trace = finished.trace
    trace_id = int(trace.trace_id, 16)

    def context(span_id: int, *, is_remote: bool = False) -> SpanContext:
        return SpanContext(trace_id, span_id, is_remote, _SAMPLED)

    def nanoseconds(at: float) -> int:
        return round((finished.epoch + at) * _NANOSECONDS)

    own = context(int(trace.span_id, 16))
    yield ReadableSpan(
        "deliver",
        own,
        None if trace.parent_id is None else context(int(trace.parent_id, 16), is_remote=True),
        resource,
        _facts(trace.item) | {"dispatcher.outcome": finished.outcome.__name__.lower()},
        kind=SpanKind.CONSUMER,
        status=_STATUS[finished.outcome not in _BAD_ENDS],
        start_time=nanoseconds(trace.steps[0].began),
        end_time=nanoseconds(trace.steps[-1].ended),
        instrumentation_scope=_SCOPE,
    )
    for step in trace.steps:
        is_call = step.verdict is not None
        yield ReadableSpan(
            step.name,
            context(int(trace.call_id, 16) if is_call else randbits(64) or 1),
            own,
            resource,
            _call_facts(step),
            kind=SpanKind.CLIENT if is_call else SpanKind.INTERNAL,
            status=_STATUS[step.verdict not in _BAD_VERDICTS],
            start_time=nanoseconds(step.began),
            end_time=nanoseconds(step.ended),
            instrumentation_scope=_SCOPE,
        )


def _facts(item: Claimed) -> dict[str, str | int]:
    facts: dict[str, str | int] = {
        "dispatcher.delivery_id": item.id,
        "dispatcher.channel": item.channel,
        "dispatcher.lane": item.lane.name.lower(),
        "dispatcher.tenant_id": item.tenant_id,
        "dispatcher.workspace_id": item.workspace_id,
        "dispatcher.earlier_attempts": item.used,
    }
    return facts if item.run_id is None else facts | {"dispatcher.run_id": item.run_id}


def _call_facts(step: Step) -> Mapping[str, str] | None:
    if step.verdict is None:
        return None
    return {"dispatcher.provider": step.provider, "dispatcher.verdict": step.verdict.__name__.lower()}
