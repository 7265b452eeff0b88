"""Files that are sent or imported: opening, and the line where reading stopped."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from io import BufferedReader
from pathlib import Path

import typer

from dispatcher.cli.terminal.console import Output
from dispatcher.cli.terminal.standard_streams import standard_input

STANDARD_INPUT = Path("-")


def tell_stopped(output: Output, line: int, words: str, counts: Mapping[str, int]) -> None:
    """Show the line and the counts where a file was stopped."""
    output.note(f"stopped after line {line:,}: {words}", {"stopped": True, "line": line, **counts})


@contextmanager
def opened(path: Path, hint: str = "--file") -> Iterator[BufferedReader]:
    """Open a file of the command line; - is the standard input."""
    try:
        file = standard_input() if path == STANDARD_INPUT else path.open("rb")
    except OSError as fault:
        raise typer.BadParameter(f"{path} cannot be read: {fault.strerror}", param_hint=hint) from fault
    with nullcontext() if path == STANDARD_INPUT else file:
        yield file
