"""`python -m bench CASE…`: runs cases on a Postgres of their own and prints what they measured."""

import subprocess
import sys
from typing import Annotated

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from bench.cases import CASES
from bench.measure import BenchError, Measure
from bench.process import ROOT
from bench.server import Server

NAMES = [*CASES, "micro", "list"]
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
) -> None:
    """Measure something. `list` says what there is."""
    if "list" in cases:
        _list()
        return
    if "micro" in cases:
        raise typer.Exit(subprocess.run([*MICRO, "bench/micro"], cwd=ROOT, check=False).returncode)
    if unknown := [case for case in cases if case not in CASES]:
        raise typer.BadParameter(f"{', '.join(unknown)}: there are {', '.join(NAMES)}")
    try:
        with Server() as server:
            for case in cases:
                chosen = CASES[case]
                measures = uvloop.run(chosen.run(server, deliveries or chosen.deliveries, rounds or chosen.rounds))
                _tell(measures, as_json)
    except BenchError as fault:
        print(fault, file=sys.stderr)
        raise typer.Exit(1) from None


def _tell(measures: list[Measure], as_json: bool) -> None:
    if not as_json:
        _show(measures)
        return
    for one in measures:
        print(msgspec.json.encode(one).decode(), flush=True)


if __name__ == "__main__":
    typer.run(main)
