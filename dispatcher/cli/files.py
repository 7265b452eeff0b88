"""Files that are sent or imported: opening, the batches of their lines, and the counts of these lines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import BufferedReader
from pathlib import Path

import typer

from dispatcher.base.errors import Fault
from dispatcher.cli.lines import Line, Lines
from dispatcher.cli.terminal.console import Output
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.cli.terminal.standard_streams import standard_input

STANDARD_INPUT = Path("-")


class Tally:
    """The results of the lines of a file so far, by name, and the last of these lines."""

    def __init__(self, output: Output, *names: str) -> None:
        self._output = output
        self.counts = Counter(dict.fromkeys((*names, "refused"), 0))
        self.line = 0

    def __str__(self) -> str:
        return ", ".join(f"{name} {count:,}" for name, count in self.counts.items())

    def refuse(self, number: int, faults: Sequence[Fault]) -> None:
        """Count a refused line, and show its faults."""
        self.counts["refused"] += 1
        words = "".join(f"\n  {fault}" for fault in faults)
        self._output.note(f"line {number}: refused{words}", {"line": number, "faults": faults})

    @contextmanager
    def shown_if_stopped(self, words: str) -> Iterator[None]:
        """Show the line and the counts at which an error or the user stops the file, and what to do then."""
        try:
            yield
        except BaseException:
            facts = {"stopped": True, "line": self.line, **self.counts}
            self._output.note(f"stopped after line {self.line:,}: {self}. {words}", facts)
            raise


@contextmanager
def opened(path: Path, hint: str = "--file") -> Iterator[BufferedReader]:
    """Open a file of the command line; - is the standard input."""
    try:
        file = standard_input() if path == STANDARD_INPUT else path.open("rb")
    except OSError as fault:
        raise typer.BadParameter(f"{path} cannot be read: {fault.strerror}", param_hint=hint) from fault
    with nullcontext() if path == STANDARD_INPUT else file:
        yield file


@contextmanager
def batches(output: Output, path: Path, label: str, hint: str = "--file") -> Iterator[Iterator[list[Line]]]:
    """Open a file of the command line; yields its lines by the batch, and shows a progress bar."""
    size = path.stat().st_size if path.is_file() else 0
    with opened(path, hint) as source, progress_bar(output, label, size) as at:
        lines = Lines(source)

        def shown() -> Iterator[list[Line]]:
            for batch in lines.batches():
                yield batch
                at(lines.bytes_read)

        yield shown()
