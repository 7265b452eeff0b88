"""The traces of an epoch: whatever becomes of a delivery, its trace ends with its result; nothing is left behind."""

import subprocess
import sys

from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Config, Tracing
from dispatcher.engine.rules.life import Back, Failed, Lost, Outcome, Succeeded
from dispatcher.engine.tracing import exporter
from dispatcher.engine.tracing.sampling import Sampling
from dispatcher.engine.tracing.traces import Finished, Step, Trace, Traces
from tests.engine.stage import Stage, claimed
from tests.support.forks import ROOT
from tests.support.metering import sample_value

MIXED = 'from dispatcher import app, pipeline; import sys; print("opentelemetry" in sys.modules)'


async def test_each_delivery_that_is_sampled_has_one_trace_with_its_end(stage: Stage) -> None:
    found: list[Finished] = []
    traces = Traces(Sampling(1.0), Clock(), found.append)
    stage.fresh(traces)
    async with stage.playing():
        broken = await stage.write(1, body="{{ missing }}")
        sent = await stage.write(2)
        await stage.until_all(sent, "sent")
        await stage.until_all(broken, "failed")
    assert {one.trace.item.id for one in found} == {*broken, *sent}
    assert not traces._open


def test_results_of_any_kind_end_their_traces() -> None:
    found: list[Finished] = []
    traces = Traces(Sampling(1.0), Clock(), found.append)
    batch = traces.claimed([claimed(number) for number in range(1, 5)], 0.0)
    outcomes: list[Outcome] = [Succeeded("m"), Failed("no"), Back(0.0, "paused"), Lost()]
    traces.ended(list(zip(batch, outcomes, strict=True)), 1.0)
    assert [one.outcome for one in found] == [Succeeded, Failed, Back, Lost]
    assert [[step.name for step in one.trace.steps] for one in found] == [["claim", "flush"]] * 4
    assert not traces._open
    # Twice is once.
    traces.ended([(batch[0], Succeeded("m"))], 2.0)
    assert len(found) == len(batch)


def test_without_a_sampled_delivery_a_report_stays_as_it_is() -> None:
    traces = Traces(Sampling(0.0), Clock(), print)
    given = [claimed(number) for number in range(1, 5)]
    batch = traces.claimed(given, 0.0)
    assert all(after is before for after, before in zip(batch, given, strict=True))

    def report(*_: object) -> None: ...

    assert traces.reporting(report, [], "sms", 0.0) is report


def test_what_waits_is_bounded_and_the_rest_is_counted() -> None:
    metrics = Metrics()
    tracing = Tracing(endpoint="http://127.0.0.1:9/v1/traces")
    one = exporter.Exporter(tracing, "one", Clock(), metrics)
    one.close()
    finished = Finished(Trace(claimed(1), "1" * 32, None, "2" * 16, "3" * 16, [Step("claim", 0.0, 1.0)]), Lost, 0.0)
    for _ in range(exporter.WAITING_MAX + 3):
        one.put(finished)
    assert sample_value(metrics.registry, "dispatcher_spans_total", result="dropped") == 3 * 2


def test_without_a_collector_nothing_of_opentelemetry_is_imported() -> None:
    ran = subprocess.run([sys.executable, "-c", MIXED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
    assert not Config().tracing.endpoint
