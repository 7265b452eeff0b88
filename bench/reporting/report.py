"""A report: the measures of all cases with the machine's description, as JSON, Markdown and plots in a folder."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.cases import CASES
from bench.measure import BenchError, Measure
from bench.reporting import svg
from bench.reporting.machine import Machine, describe
from bench.reporting.probe import Probe, probe
from bench.server import Server

DATA, TEXT = "report.json", "report.md"
PLOTS = ("throughput.svg", "latency.svg", "cost.svg")


class Report(Struct, frozen=True):
    """What was measured; `failed` has the reasons of the cases that could not be."""

    at: str
    machine: Machine
    measures: list[Measure]
    failed: dict[str, str]
    probe: Probe


async def measure(server: Server, cases: list[str], deliveries: int, rounds: int) -> Report:
    """Run cases one behind the other. One that fails stops no other."""
    machine = await describe(server)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    series = await probe(server, deliveries)
    measures: list[Measure] = []
    failed: dict[str, str] = {}
    for name in cases:
        case = CASES[name]
        try:
            measures += await case.run(server, deliveries or case.deliveries, rounds or case.rounds)
        except BenchError as fault:
            failed[name] = str(fault).splitlines()[0]
    return Report(at, machine, measures, failed, series)


def write(report: Report, folder: Path) -> None:
    """Write a report into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DATA).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))
    (folder / TEXT).write_text(_text(report))
    for name, drawn in zip(PLOTS, _plots(report.probe), strict=True):
        (folder / name).write_text(drawn)


def read(folder: Path) -> Report:
    """Read a report from its folder."""
    try:
        return msgspec.json.decode((folder / DATA).read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError) as fault:
        raise BenchError(f"{folder} has no report: {fault}") from None


def _plots(of: Probe) -> tuple[str, str, str]:
    cost: Mapping[str, Mapping[str, float]] = {
        "CPU": of.cpu,
        "time in statements and calls, side by side": of.waits,
    }
    return (
        svg.line("Deliveries a second while one process drains its outbox", "seconds", "deliveries/s", of.rates),
        svg.histogram("From the commit of an INSERT to the provider", "milliseconds", of.latencies),
        svg.stacked("Cost of a delivery by part", "µs", cost),
    )


def _text(report: Report) -> str:
    lines = ["# Benchmarks", "", f"Measured from {report.at}.", "", "| machine | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in report.machine.lines]
    lines += ["", *(f"![{name.removesuffix('.svg')}]({name})" for name in PLOTS)]
    lines += ["", "| line | value | reference | ratio |", "|---|---|---|---|"]
    lines += [
        f"| `{one.case}` | {one.value:,.2f} {one.unit} | {one.reference_value:,.2f} {one.reference} | {one.ratio:.2f} |"
        for one in report.measures
    ]
    if report.failed:
        lines += ["", "Not measured:", "", *(f"- `{name}`: {why}" for name, why in report.failed.items())]
    lines += ["", "How each line was measured:", ""]
    lines += [f"- `{one.case}`: {one.method}" for one in report.measures]
    return "\n".join(lines) + "\n"
