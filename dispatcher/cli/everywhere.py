"""Everywhere: a command in all cells of the directory, one behind another, each with its own success or failure."""

from collections.abc import Callable
from typing import Annotated

import typer

from dispatcher.base.directory import DirectoryFile
from dispatcher.base.errors import ConfigError, Fault
from dispatcher.cli.failures import FAILED, explain
from dispatcher.cli.session import Session

AllCells = Annotated[bool, typer.Option("--all-cells", help="In every cell of the directory, on its database.")]


def in_all_cells(session: Session, body: Callable[[Session], None]) -> None:
    """Run a command in each cell. What fails in one is said, and the others are still gone through."""
    session.require_local()
    if not session.config.cell.directory:
        raise ConfigError([Fault("cell.directory", "is not set: name the file that says where all cells are")])
    has_failed = False
    for entry in DirectoryFile(session.config.cell.directory).read().cells:
        inside = Session(session.config_path, session.output.as_json)
        inside.in_all_cells = True
        if session.output.as_json:
            inside.output.record({"cell": entry.number})
        else:
            inside.output.text(f"cell {entry.number}:")
        inside.output.flush()
        try:
            inside.enter(entry)
            body(inside)
        except typer.Exit as ended:
            has_failed |= ended.exit_code != 0
        except Exception as error:
            failures = explain(error)
            if failures is None:
                raise
            has_failed = True
            for failure in failures:
                inside.output.error(failure.kind, f"cell {entry.number}: {failure.message}", failure.faults)
    if has_failed:
        raise typer.Exit(FAILED)
