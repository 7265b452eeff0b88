"""The traces of one epoch: what its actors tell of the deliveries that are sampled, until their results are written.

The actors work on batches, and so do the methods here: without a sampled delivery in it a batch costs a look at each.
A delivery that is sampled gets the traceparent of its call as it is claimed, and that is its key here.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from secrets import randbits

from msgspec import Struct, structs

from channels.contract import Envelope, Report, Verdict
from dispatcher.base.clock import Clock
from dispatcher.engine.rules.life import Claimed, Outcome, Result
from dispatcher.engine.tracing.sampling import Sampling, parent_of


class Step(Struct, frozen=True):
    """What was done to a delivery, together with others: its name, begin and end on the monotonic clock, and of a call
    its provider and verdict."""

    name: str
    began: float
    ended: float
    provider: str = ""
    verdict: type[Verdict] | None = None


class Trace(Struct):
    """One delivery from its claim to its flush."""

    item: Claimed
    trace_id: str
    parent_id: str | None
    span_id: str
    call_id: str
    steps: list[Step]


class Finished(Struct, frozen=True):
    """A trace that is complete: its end, and the time (seconds since 1970) at which the monotonic clock was at zero."""

    trace: Trace
    outcome: type[Outcome]
    epoch: float


class Traces:
    """Collects the steps of sampled deliveries; `finish` gets each trace when its result is written."""

    def __init__(self, sampling: Sampling, clock: Clock, finish: Callable[[Finished], None]) -> None:
        self._sampling = sampling
        self._finish = finish
        # By the traceparent of the call. What is claimed has a result, so that nothing is left behind.
        self._open: dict[str | None, Trace] = {}
        self.now = clock.monotonic

    def claimed(self, batch: Sequence[Claimed], began: float) -> list[Claimed]:
        """Return a batch in which the calls of sampled deliveries continue their traces."""
        step, traced = Step("claim", began, self.now()), list(batch)
        for position in self._sampling.sampled(batch):
            traced[position] = self._begun(batch[position], step)
        return traced

    def _begun(self, item: Claimed, step: Step) -> Claimed:
        trace_id, parent_id = parent_of(item)
        span_id, call_id = f"{randbits(64) or 1:016x}", f"{randbits(64) or 1:016x}"
        traced = structs.replace(item, traceparent=f"00-{trace_id}-{call_id}-01")
        self._open[traced.traceparent] = Trace(traced, trace_id, parent_id, span_id, call_id, [step])
        return traced

    def step(self, name: str, batch: Iterable[Claimed], began: float | None = None) -> None:
        """Note what has just ended for a batch; without a begin it began where the step before it had ended."""
        ended = self.now()
        for item in batch:
            if (trace := self._open.get(item.traceparent)) is not None:
                start = trace.steps[-1].ended if began is None else began
                trace.steps.append(Step(name, start, ended))

    def reporting(self, report: Report, envelopes: Sequence[Envelope], provider: str, marking: float) -> Report:
        """Return a report that notes the calls of a batch too, which is marked now and was to be from `marking` on; the
        same report where none of it is sampled."""
        began, now = self.now(), self.now
        traced = [self._open[one.traceparent] for one in envelopes if one.traceparent in self._open]
        if not traced:
            return report
        mark = Step("mark", marking, began)
        for trace in traced:
            trace.steps.append(mark)
        open_trace = self._open.get

        def noted(envelope: Envelope, verdict: Verdict) -> None:
            if (trace := open_trace(envelope.traceparent)) is not None:
                trace.steps.append(Step("call", began, now(), provider, type(verdict)))
            report(envelope, verdict)

        return noted

    def ended(self, results: Sequence[Result], began: float) -> None:
        """End the traces of results that are written."""
        if not self._open:
            return
        ended = self.now()
        for item, outcome in results:
            if (trace := self._open.pop(item.traceparent, None)) is not None:
                trace.steps.append(Step("flush", began, ended))
                self._finish(Finished(trace, type(outcome), time.time() - ended))
