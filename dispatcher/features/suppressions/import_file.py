"""Importing: a file of addresses, one a line or as CSV with named columns, read whole before anything is written."""

import csv
import os
import re
from array import array
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import typer
from msgspec import Struct

from dispatcher.base.errors import Fault, did_you_mean
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.failures import REFUSED
from dispatcher.cli.files import opened
from dispatcher.cli.lines import LINE_BYTES_MAX, Line, Lines
from dispatcher.cli.terminal.console import Output
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.features.suppressions.models import ADDRESSES_MAX, NewSuppression
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.problems import FAULTY, TOO_LARGE, Problem
from dispatcher.http.reading import faults_of

# They are kept in memory until the last line is known to be sound: some 300 bytes each.
ENTRIES_MAX = 1_000_000
COLUMNS = NewSuppression.__struct_fields__
# A line of a body, and which of its fields.
_PLACE = re.compile(r"\$\.suppressions\[(\d+)\]\.?(.*)")


class Table(Struct):
    """A file that was read: its entries, the line of each, and what is wrong with other lines."""

    entries: list[NewSuppression] = []
    lines: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))
    faults: list[tuple[int, str]] = []


def import_file(caller: Caller, path: Path, endpoint: Endpoint, said: dict[str, object]) -> int:
    """Suppress what a file says, and say how many: all is checked before the first page is written."""
    table = _read(caller.output, path)
    for places in _pages(caller, "checking", table):
        _ask(caller, endpoint, table, places, said | {"check": True})
    if table.faults:
        raise _refused(caller.output, table)
    added = 0
    try:
        for places in _pages(caller, "suppressing", table):
            added = places.start
            _ask(caller, endpoint, table, places, said)
    except BaseException:
        words = f"stopped: at least {added:,} are suppressed. Import the whole file again: they stay the same."
        caller.output.note(words, {"imported": added})
        raise
    return len(table.entries)


def _pages(caller: Caller, label: str, table: Table) -> Iterator[range]:
    every = range(len(table.entries))
    with progress_bar(caller.output, label, len(every)) as at:
        for start in every[::ADDRESSES_MAX]:
            at(start)
            yield every[start : start + ADDRESSES_MAX]


def _ask(caller: Caller, endpoint: Endpoint, table: Table, places: range, said: dict[str, object]) -> None:
    """Ask for some entries. What is wrong with them is noted where that is only checked; too many are halved."""
    try:
        caller.ask(endpoint, body={**said, "suppressions": table.entries[places.start : places.stop]})
    except Problem as refused:
        if refused.kind is TOO_LARGE and len(places) > 1:
            middle = len(places) // 2
            _ask(caller, endpoint, table, places[:middle], said)
            _ask(caller, endpoint, table, places[middle:], said)
        elif refused.kind is FAULTY and "check" in said:
            table.faults += [_placed(fault, table.lines, places) for fault in refused.faults]
        else:
            raise


def _placed(fault: Fault, lines: "array[int]", places: range) -> tuple[int, str]:
    """A fault of a body by its line. What is about no entry of it are others that the server only counts."""
    match = _PLACE.fullmatch(fault.path)
    if match is None:
        return lines[places[-1]], f"{fault.message} up to this line"
    return lines[places[int(match[1])]], f"{match[2]}: {fault.message}" if match[2] else fault.message


def _read(output: Output, path: Path) -> Table:
    """Every entry of a file, and every fault. Where there is nothing, or too much, it ends here."""
    reading = _Reading()
    table = reading.table
    size = os.path.getsize(path) if path.is_file() else 0
    with opened(path, "FILE") as source, progress_bar(output, "reading", size) as at:
        lines = Lines(source)
        for batch in lines.batches():
            for line in batch:
                reading.read(line)
            at(lines.bytes_read)
            if len(table.entries) > ENTRIES_MAX:
                words = f"has more addresses than can be imported at once: {ENTRIES_MAX:,}"
                raise _refused(output, table, Fault("file", words))
    if not table.entries:
        raise _refused(output, table, *([] if table.faults else [Fault("file", "has no address in it")]))
    return table


def _refused(output: Output, table: Table, *more: Fault) -> typer.Exit:
    """Say all that is wrong with a file; what to end with."""
    faults = [*(Fault(f"line {line}", words) for line, words in sorted(table.faults, key=itemgetter(0))), *more]
    words = f"nothing was imported: {len(faults):,} {'fault' if len(faults) == 1 else 'faults'}"
    output.error("InputError", words, faults)
    return typer.Exit(REFUSED)


class _Reading:
    """A file under way, and its columns once they are known."""

    def __init__(self) -> None:
        self.table = Table()
        self._columns: list[str] | None = None

    def read(self, line: Line) -> None:
        """Take one line in."""
        try:
            cells = _cells(line)
            if self._columns is None:
                self._columns = self._header(cells)
                if self._columns is not None:
                    return
                self._columns = ["address"]
            self.table.entries.append(self._entry(cells))
            self.table.lines.append(line.number)
        except ValueError as fault:
            self.table.faults.append((line.number, str(fault)))

    def _header(self, cells: list[str]) -> list[str] | None:
        """The columns that a first line names, or nothing where it is an address already."""
        names = [cell.strip().lower() for cell in cells]
        if "address" not in names:
            if len(names) > 1:
                self._columns = ["address"]
                raise ValueError(f"has {len(names)} columns: the first line names them, and address is one of them")
            return None
        # What follows is read all the same, so that its faults are named in one go.
        self._columns = names
        for name in names:
            if name not in COLUMNS:
                raise ValueError(f"unknown column {name!r}{did_you_mean(name, COLUMNS)}")
        if len(set(names)) < len(names):
            raise ValueError("names a column twice")
        return names

    def _entry(self, cells: list[str]) -> NewSuppression:
        names = self._columns or []
        if len(cells) != len(names):
            raise ValueError(f"has {len(cells)} columns, not {len(names)}")
        row: dict[str, Any] = {name: cell.strip() for name, cell in zip(names, cells, strict=True) if cell.strip()}
        if faults := list(faults_of(row, NewSuppression, "$")):
            raise ValueError("; ".join(f"{fault.path.removeprefix('$.')}: {fault.message}" for fault in faults))
        return msgspec.convert(row, NewSuppression)


def _cells(line: Line) -> list[str]:
    if line.content is None:
        raise ValueError(f"is longer than {LINE_BYTES_MAX} bytes")
    try:
        text = line.content.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as fault:
        raise ValueError(f"is not UTF-8 at byte {fault.start + 1}") from fault
    if "\0" in text:
        raise ValueError("has a NUL character, which Postgres cannot keep")
    # A display name may have a comma in it, and stands alone on its line then.
    if re.search(r"<[^<>]+>\s*$", text):
        return [text]
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as fault:
        raise ValueError(f"is no CSV: {fault}") from fault
