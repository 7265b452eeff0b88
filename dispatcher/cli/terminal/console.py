"""The output of a command: data on standard output, messages on standard error, as JSON where that was asked for."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dispatcher.base.errors import Fault

# Output that is not a terminal has no width: a table there is as wide as its content, so that nothing is cut off.
WIDTH_UNBOUNDED = 10_000
# Columns that are short and useless in pieces; the others share what a terminal leaves them.
UNWRAPPED_COLUMNS = frozenset({"id", "letter", "channel", "life", "tries", "due or ended", "step", "time"})


def plain(value: object) -> str:
    """A value on one line, without the control characters by which content could drive a terminal."""
    text = "" if value is None else str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class Output:
    """Where a command writes, in the form that was asked for."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        width = None if sys.stdout.isatty() else WIDTH_UNBOUNDED
        self._out = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
        self.stderr = Console(file=sys.stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def record(self, record: object) -> None:
        """Write one JSON object on a line of its own."""
        sys.stdout.write(msgspec.json.encode(record).decode() + "\n")

    def text(self, text: str = "") -> None:
        """Write lines for people, on standard output."""
        self._out.print(text, soft_wrap=True)

    def clipped(self, line: str) -> None:
        """Write a line for people, on a terminal only as much of it as fits."""
        shown = plain(line)
        if sys.stdout.isatty() and len(shown) > self._out.width:
            shown = shown[: self._out.width - 1] + "…"
        self.text(shown)

    def content(self, text: str) -> None:
        """Write a user's text: as it is to a file or a program, without control characters to a terminal."""
        if sys.stdout.isatty():
            self.text("\n".join(map(plain, text.rstrip("\n").expandtabs().split("\n"))))
        else:
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Write rows under their headings."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold", no_wrap=column in UNWRAPPED_COLUMNS)
        for row in rows:
            table.add_row(*(Text(plain(cell)) for cell in row))
        self._out.print(table)

    def flush(self) -> None:
        """Flush standard output."""
        sys.stdout.flush()

    def info(self, text: str) -> None:
        """Write a message that scripts need not read: with JSON nothing is written."""
        if not self.as_json:
            self.stderr.print(text)

    def note(self, text: str, record: Mapping[str, object]) -> None:
        """Write a message on standard error in either form."""
        if self.as_json:
            # In ASCII: what came from the command line or a path need not be UTF-8.
            sys.stderr.write(json.dumps(msgspec.to_builtins(record)) + "\n")
        else:
            self.stderr.print(text)

    def error(self, kind: str, message: str, faults: Iterable[Fault] = ()) -> None:
        """Write why the command has failed."""
        listed = list(faults)
        record: dict[str, object] = {"error": kind, "message": message}
        if listed:
            record["faults"] = listed
        self.note(f"error: {plain(message)}" + "".join(f"\n  {fault}" for fault in listed), record)
