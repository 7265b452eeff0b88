"""The benchmarks in short: each case runs, all of its deliveries arrive, its lines have their shape. Never a time."""

import json
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from bench import sink
from bench.cases import CASES
from bench.fuzzing import corpus
from bench.measure import Measure, beside, percentile
from bench.peers import pgqueuer
from bench.process import ROOT
from bench.server import Server
from tests.support.folders import folder

# The others take a minute: `./ops/test --long` runs them too.
ALWAYS = {"throughput", "email", "workflows", "triggers", "campaign"}
FIELDS = {"case", "unit", "value", "reference", "reference_value", "ratio", "method"}
NO_PEER = pytest.mark.skipif(
    not pgqueuer.available(), reason="expected: pgqueuer is an extra (bench) and is not installed"
)
NO_SCHEMATHESIS = pytest.mark.skipif(
    not corpus.available(), reason="expected: schemathesis is an extra (dev) and is not installed"
)
NO_SINK = pytest.mark.skipif(not sink.available(), reason="smtp-sink is not installed: it comes with Postfix")
# The case, its size, and the lines that it prints. A case raises when a delivery did not arrive.
SHORT = [
    pytest.param("throughput", 500, 1, ["", ".cpu_worker", ".cpu_postgres"], marks=NO_PEER),
    pytest.param("backlog", 500, 3, [""]),
    pytest.param("tracing", 500, 1, [".on", ".on.cpu", ".carried", ".carried.cpu"]),
    pytest.param("soak", 1_000, 1, ["", ".rss"]),
    pytest.param(
        "sizing",
        500,
        1,
        [".bytes", ".state", ".indexes", ".log", ".cpu", ".insert", ".vacuum", ".connections"],
    ),
    pytest.param("isolation", 500, 1, [""]),
    pytest.param("latency", 3, 1, [".idle_cpu", ".idle_cpu_postgres", ".p50", ".p50_after_pause", ".p95", ".p99"]),
    pytest.param("expensive", 16, 1, [".p50", ".p99", ".health", ".hold"]),
    pytest.param("protocol_cost", 500, 1, ["", ".at_20"]),
    pytest.param("protocol_cost.email", 300, 1, ["", ".cpu"], marks=NO_SINK),
    pytest.param("quiet_hours", 500, 1, [".elsewhere", ".looked_up"]),
    pytest.param("shared_limit", 2_000, 1, [".both", ".stopped", ".killed", ".joins", ".permits"]),
    pytest.param("notify", 40, 1, ["", ".batch", ".rules", ".batch_rules"]),
    pytest.param("caps", 500, 1, [".elsewhere", ".touched", ".known", ".replicas"]),
    pytest.param(
        "policies",
        500,
        1,
        [f".{place}{what}" for place in ("untouched", "looked_up", "weights") for what in ("", ".cpu")],
    ),
    pytest.param("drain", 5_000, 2, ["", ".p50"]),
    pytest.param(
        "retries",
        500,
        1,
        [
            *(".violations", ".p50", ".p99"),
            *(".pgqueuer", ".pgqueuer.twice", ".procrastinate", ".procrastinate.twice"),
        ],
        marks=NO_PEER,
    ),
    pytest.param("email", 300, 1, ["", ".plain"], marks=NO_SINK),
    pytest.param("email_delay", 12, 1, [""], marks=NO_SINK),
    pytest.param("sms", 300, 1, ["", ".channel", ".cpu_worker"]),
    pytest.param("push", 100, 1, ["", ".cpu_worker"]),
    pytest.param("workflows", 100, 1, ["", ".cpu_worker", ".cpu_postgres", ".least"], marks=NO_PEER),
    pytest.param("timers", 500, 3, ["", ".idle"]),
    pytest.param("triggers", 20, 1, ["", ".p99"]),
    pytest.param("sequence.enrol", 200, 1, [""]),
    pytest.param("sequence.first", 3, 1, ["", ".p99"]),
    pytest.param("sequence.storm", 200, 1, ["", ".first"]),
    pytest.param("sequence.waiting", 200, 5, ["", ".idle", ".pause"]),
    pytest.param("fuzz", 800, 1, ["", ".rate", ".failed"], marks=NO_SCHEMATHESIS),
    pytest.param("campaign", 2_000, 1, ["", ".cpu_worker", ".cpu_postgres", ".rss"]),
    pytest.param("campaign.deploy", 2_000, 1, ["", ".first"]),
    pytest.param("campaign.counters", 2_000, 1, [""]),
    pytest.param("campaign.progress", 2_000, 1, ["", ".p50", ".p99", ".after"]),
    pytest.param("campaign.fair", 2_000, 1, [""]),
    pytest.param("campaign.isolation", 2_000, 1, ["", ".p50", ".count"]),
    pytest.param("metrics", 200, 1, ["", ".series", ".wide", ".wide.series"]),
    pytest.param("console.pages", 500, 1, [""]),
    pytest.param("console.live", 300, 1, [""]),
    pytest.param("cells", 300, 1, ["", ".cpu_worker", ".cpu_postgres"]),
    pytest.param("cells.routing", 100, 1, ["", ".rate"]),
    pytest.param("cells.move", 500, 1, ["", ".cleaned", ".still"]),
    pytest.param("api", 100, 1, ["", ".p99", ".batch", ".batch.rows", ".dispatch"]),
]
# These may be nothing at all, or less, in a run as short as this.
MAY_BE_NOTHING = {
    "expensive.hold",
    "retries.violations",
    "retries.pgqueuer.twice",
    "retries.procrastinate.twice",
    "sizing.cpu",
    "sizing.insert",
    "sizing.vacuum",
    "soak",
    "latency.idle_cpu",
    "latency.idle_cpu_postgres",
    "throughput.cpu_postgres",
    "workflows.cpu_postgres",
    "timers.idle",
    "sequence.waiting.idle",
    "triggers",
    "fuzz",
    "fuzz.failed",
    "campaign.cpu_worker",
    "campaign.cpu_postgres",
    "campaign.rss",
    "campaign.deploy.first",
    "campaign.isolation",
    "campaign.isolation.p50",
}


@pytest.fixture(scope="module")
def bench_server() -> Iterator[Server]:
    """One embedded server for all cases: each takes databases of its own from it."""
    with folder("bench") as place, Server(place) as server:
        yield server


@pytest.mark.parametrize(
    ("name", "deliveries", "rounds", "lines"),
    [
        case if case.values[0] in ALWAYS else pytest.param(*case.values, marks=[*case.marks, pytest.mark.long])
        for case in SHORT
    ],
)
async def test_a_case_measures_and_prints_its_lines(
    bench_server: Server, name: str, deliveries: int, rounds: int, lines: list[str]
) -> None:
    measures = await CASES[name].run(bench_server, deliveries, rounds)
    assert [one.case for one in measures] == [name + line for line in lines]
    for one in measures:
        printed = json.loads(msgspec.json.encode(one))
        assert printed.keys() == FIELDS
        assert printed["unit"]
        assert printed["method"]
        assert printed["reference"]
        if one.case not in MAY_BE_NOTHING:
            assert printed["reference_value"] > 0
            assert printed["ratio"] > 0


def test_every_case_has_a_short_form() -> None:
    assert {param.values[0] for param in SHORT} == set(CASES)


def test_the_command_line_names_every_case_and_refuses_others() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "bench", "list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert all(name in listed.stdout for name in CASES)
    refused = subprocess.run([sys.executable, "-m", "bench", "nothing"], cwd=ROOT, capture_output=True, check=False)
    assert refused.returncode == 2


def test_a_ratio_is_the_value_by_its_reference() -> None:
    assert beside("case", "unit", 3.0, "reference", 2.0, "method") == Measure(
        "case", "unit", 3.0, "reference", 2.0, 1.5, "method"
    )


def test_percentiles_of_a_hundred_values() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (51.0, 100.0, 100.0)
