"""Reports: plots are valid SVG with their values, a report survives its folder, two are compared by ratios."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from bench.cases import CASES
from bench.measure import BenchError, Measure
from bench.process import ROOT
from bench.reporting import report as reports
from bench.reporting import svg
from bench.reporting.compare import compare
from bench.reporting.machine import Machine
from bench.reporting.probe import PARTS, Probe
from bench.reporting.report import Report
from bench.server import Server
from tests.support.folders import folder

NAME = "{http://www.w3.org/2000/svg}"
MACHINE = Machine("Processor", 2, 8.0, "Linux 6", "3.11.7", "18.0", "disk (ext4)", 0.5, "abc")
PROBE = Probe(
    rates=[(0.5, 100.0), (1.0, 250.0), (1.5, 40.0)],
    latencies=[1.0, 1.1, 1.2, 9.0],
    cpu={"process": 6.4, "Postgres": 15.7},
    waits=dict.fromkeys(PARTS, 2.5),
)
LINE = Measure("throughput", "deliveries/s", 200.0, "pgqueuer", 100.0, 2.0, "More is better.")
REPORT = Report("2026-01-01T00:00:00+00:00", MACHINE, [LINE], {"email": "smtp-sink is not installed"}, PROBE)


def shapes(drawn: str, kind: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(drawn).iter(NAME + kind))  # noqa: S314 - our own


def words(drawn: str) -> list[str]:
    return [one.text or "" for one in shapes(drawn, "text")]


def test_a_line_goes_through_its_points_inside_the_frame() -> None:
    drawn = svg.line("A & B", "seconds", "deliveries/s", PROBE.rates)
    [line] = shapes(drawn, "polyline")
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert len(points) == 3
    assert all(svg.LEFT <= x <= svg.WIDTH - svg.RIGHT and svg.TOP <= y <= svg.HEIGHT - svg.BOTTOM for x, y in points)
    # The larger, the higher, which is nearer to 0.
    assert points[1][1] < points[0][1] < points[2][1]
    assert {"A & B", "seconds", "deliveries/s", "300"} <= set(words(drawn))


def test_every_value_is_in_one_bar_of_a_histogram() -> None:
    drawn = svg.histogram("Latency", "ms", [1.0] * 30 + [2.0] * 10)
    heights = [float(bar.attrib["height"]) for bar in shapes(drawn, "rect")[1:]]
    assert len(heights) == svg.BINS
    assert heights[0] == pytest.approx(3 * heights[-1], rel=0.01)
    assert sum(height > 0 for height in heights) == 2


def test_equal_values_are_a_histogram_too() -> None:
    heights = [float(bar.attrib["height"]) for bar in shapes(svg.histogram("Latency", "ms", [1.0, 1.0]), "rect")[1:]]
    assert sum(height > 0 for height in heights) == 1


def test_parts_of_a_bar_stand_beside_each_other_and_are_named() -> None:
    drawn = svg.stacked("Cost", "us", {"CPU": PROBE.cpu})
    first, second = [bar for bar in shapes(drawn, "rect")[1:] if bar.attrib["height"] == "18"]
    begin, width = float(first.attrib["x"]), float(first.attrib["width"])
    assert float(second.attrib["x"]) == pytest.approx(begin + width, abs=0.2)
    legend = [float(box.attrib["y"]) for box in shapes(drawn, "rect")[1:] if box.attrib["height"] == "12"]
    assert min(legend) >= float(first.attrib["y"]) + 18
    assert float(second.attrib["width"]) == pytest.approx(width * 15.7 / 6.4, rel=0.01)
    assert {"CPU: 22.1 us", "process: 6.40", "Postgres: 15.70"} <= set(words(drawn))


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    reports.write(REPORT, tmp_path / "new")
    assert reports.read(tmp_path / "new") == REPORT
    text = (tmp_path / "new" / reports.TEXT).read_text()
    for part in ("| processor | Processor, 2 cores |", "| `throughput` | 200.00 deliveries/s |", "smtp-sink is not"):
        assert part in text
    for plot in reports.PLOTS:
        assert f"]({plot})" in text
        assert shapes((tmp_path / "new" / plot).read_text(), "text")


def test_a_folder_without_a_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=f"{tmp_path} has no report"):
        reports.read(tmp_path)


def test_lines_of_both_are_compared_and_others_are_named() -> None:
    faster = replace(LINE, value=220.0, ratio=2.2)
    other = replace(LINE, case="soak")
    said = compare(REPORT, replace(REPORT, measures=[faster, other]))
    assert "| `throughput` | 200.00 deliveries/s | 220.00 | 1.10 | 2.00 | 2.20 | changed |" in said
    assert "| `soak` | | | | | | only in B |" in said
    assert "The machines differ" not in said


def test_a_ratio_within_the_noise_is_not_marked_and_another_machine_is_named() -> None:
    elsewhere = replace(REPORT, machine=replace(MACHINE, cores=8), measures=[replace(LINE, ratio=2.05)])
    said = compare(REPORT, elsewhere)
    assert "changed" not in said
    assert "- processor: Processor, 2 cores | Processor, 8 cores" in said


@pytest.fixture
def bench_server() -> Iterator[Server]:
    """An embedded server for one report."""
    with folder("bench") as place, Server(place) as server:
        yield server


async def test_a_report_has_the_machine_the_series_and_the_cases_that_failed(
    bench_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> list[Measure]:
        raise BenchError("it does not start\nwith its log")

    monkeypatch.setitem(CASES, "soak", replace(CASES["soak"], run=fails))
    made = await reports.measure(bench_server, ["soak", "triggers"], 20, 1)
    assert made.failed == {"soak": "it does not start"}
    assert [one.case for one in made.measures] == ["triggers", "triggers.p99"]
    assert made.machine.postgres
    assert made.machine.cores > 0
    assert sum(rate for _, rate in made.probe.rates) > 0
    assert len(made.probe.latencies) == 20
    assert set(made.probe.waits) == set(PARTS)
    assert made.probe.waits["mark"] > 0


def test_the_command_line_compares_two_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        reports.write(REPORT, tmp_path / name)
    command = (sys.executable, "-m", "bench", "compare", str(tmp_path / "a"))
    both = subprocess.run([*command, str(tmp_path / "b")], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "| `throughput` | 200.00 deliveries/s | 200.00 | 1.00 |" in both.stdout
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 2
    missing = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (missing.returncode, "has no report" in missing.stderr) == (1, True)
