"""The voice of a command: data on standard output, talk on standard error, both as JSON where that was asked for."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dispatcher.base.errors import Fault

# Output that is no terminal has no width: a table there is as wide as its content, so that nothing is cut off.
WIDTH_UNBOUNDED = 10_000
# Columns that are short and useless in pieces; the others share what a terminal leaves them.
KEPT_WHOLE = frozenset({"id", "letter", "channel", "life", "tries", "due or ended"})


def plain(value: object) -> str:
    """A value on one line, without the control characters by which content could drive a terminal."""
    text = "" if value is None else str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class Voice:
    """What a command says."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        width = None if sys.stdout.isatty() else WIDTH_UNBOUNDED
        self._out = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
        self.talk = Console(file=sys.stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def record(self, record: object) -> None:
        """One JSON object on a line of its own."""
        sys.stdout.write(msgspec.json.encode(record).decode() + "\n")

    def text(self, text: str = "") -> None:
        """Lines for people to read, on standard output."""
        self._out.print(text, soft_wrap=True)

    def content(self, text: str) -> None:
        """Somebody's text: as it is for a file or a program, and line by line without control characters for people."""
        if sys.stdout.isatty():
            self.text("\n".join(map(plain, text.rstrip("\n").expandtabs().split("\n"))))
        else:
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Rows under their headings."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold", no_wrap=column in KEPT_WHOLE)
        for row in rows:
            table.add_row(*(Text(plain(cell)) for cell in row))
        self._out.print(table)

    def flush(self) -> None:
        """Let a reader that is a program see it now."""
        sys.stdout.flush()

    def say(self, text: str) -> None:
        """Talk that scripts need not read: there is none of it beside JSON."""
        if not self.as_json:
            self.talk.print(text)

    def note(self, text: str, record: Mapping[str, object]) -> None:
        """Something to know about, on standard error in either form."""
        if self.as_json:
            # In ASCII: what came from the command line or a path need not be UTF-8.
            sys.stderr.write(json.dumps(msgspec.to_builtins(record)) + "\n")
        else:
            self.talk.print(text)

    def fail(self, kind: str, message: str, faults: Iterable[Fault] = ()) -> None:
        """Why the command did not do what it was asked for."""
        listed = list(faults)
        record: dict[str, object] = {"error": kind, "message": message}
        if listed:
            record["faults"] = listed
        self.note(f"error: {plain(message)}" + "".join(f"\n  {fault}" for fault in listed), record)
