"""`python -m bench CASE…`: runs cases on a Postgres of their own and prints what they measured, or reports on all."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from bench.cases import CASES
from bench.measure import BenchError, Measure
from bench.process import ROOT
from bench.reporting import report as reports
from bench.reporting.compare import compare
from bench.server import Server

NAMES = [*CASES, "micro", "list", "report", "compare"]
COMPARED = 2
# A process of its own: pytest wants to import what it measures by itself.
MICRO = (sys.executable, "-m", "pytest", "--benchmark-enable", "--benchmark-columns=min,median,ops,rounds")


def _show(measures: list[Measure]) -> None:
    table = Table("case", "value", "reference", "ratio", "method")
    for one in measures:
        table.add_row(
            one.case,
            f"{one.value:,.2f} {one.unit}",
            f"{one.reference_value:,.2f} {one.reference}",
            f"{one.ratio:.2f}",
            one.method,
        )
    Console().print(table)


def _list() -> None:
    table = Table("case", "what it shows", "deliveries", "rounds")
    for name, case in CASES.items():
        table.add_row(name, case.about, f"{case.deliveries:,}", str(case.rounds))
    table.add_row("micro", "Single functions, by pytest-benchmark.", "", "")
    Console().print(table)


def main(
    cases: Annotated[list[str], typer.Argument(metavar="CASE...", help=f"Of {', '.join(NAMES)}.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    deliveries: Annotated[
        int,
        typer.Option(
            "--deliveries", "--requests", min=0, help="Another number of deliveries, or requests; 0 is the case's own."
        ),
    ] = 0,
    rounds: Annotated[int, typer.Option(min=0, help="Another number of rounds; 0 is the case's own.")] = 0,
    out: Annotated[Path, typer.Option(help="The folder of `report`.")] = Path("bench-report"),
) -> None:
    """Measure something. `list` says what there is; `report` runs all cases, or those behind it, and writes a table and
    plots into a folder; `compare A B` compares two such folders."""
    match cases:
        case ["compare", *folders]:
            _compare(folders)
        case ["report", *some]:
            _report(_known(some) or list(CASES), deliveries, rounds, out)
        case [*some] if "list" in some:
            _list()
        case [*some] if "micro" in some:
            raise typer.Exit(subprocess.run([*MICRO, "bench/micro"], cwd=ROOT, check=False).returncode)
        case _:
            _run(_known(cases), deliveries, rounds, as_json)


def _run(cases: list[str], deliveries: int, rounds: int, as_json: bool) -> None:
    try:
        with Server() as server:
            for case in cases:
                chosen = CASES[case]
                measures = uvloop.run(chosen.run(server, deliveries or chosen.deliveries, rounds or chosen.rounds))
                _tell(measures, as_json)
    except BenchError as fault:
        print(fault, file=sys.stderr)
        raise typer.Exit(1) from None


def _known(cases: list[str]) -> list[str]:
    """Return the cases, all of which exist."""
    if unknown := [case for case in cases if case not in CASES]:
        raise typer.BadParameter(f"{', '.join(unknown)}: there are {', '.join(NAMES)}")
    return cases


def _report(cases: list[str], deliveries: int, rounds: int, out: Path) -> None:
    with Server() as server:
        report = uvloop.run(reports.measure(server, cases, deliveries, rounds))
    reports.write(report, out)
    print(out / reports.TEXT)
    if report.failed:
        raise typer.Exit(1)


def _compare(folders: list[str]) -> None:
    if len(folders) != COMPARED:
        raise typer.BadParameter("compare needs two folders that `report` has written")
    try:
        first, second = (reports.read(Path(folder)) for folder in folders)
    except BenchError as fault:
        print(fault, file=sys.stderr)
        raise typer.Exit(1) from None
    print(compare(first, second), end="")


def _tell(measures: list[Measure], as_json: bool) -> None:
    if not as_json:
        _show(measures)
        return
    for one in measures:
        print(msgspec.json.encode(one).decode(), flush=True)


if __name__ == "__main__":
    typer.run(main)
