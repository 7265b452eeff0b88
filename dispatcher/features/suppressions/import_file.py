"""Importing suppressions: a file of addresses, one a line or CSV, which is checked whole before anything is written."""

import csv
import re
from array import array
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import typer

from dispatcher.base.errors import Fault, did_you_mean
from dispatcher.base.values.counts import counted
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.failures import REFUSED
from dispatcher.cli.files import batches
from dispatcher.cli.lines import Line
from dispatcher.cli.terminal.console import Output
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.features.suppressions.models import ADDRESSES_MAX, NewSuppression
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.problems import FAULTY, TOO_LARGE, Problem
from dispatcher.http.reading import faults_of

# They are in memory until the last line is known to be sound: some 300 bytes each.
ENTRIES_MAX = 1_000_000
COLUMNS = NewSuppression.__struct_fields__
# The place of a fault in a body: the entry and its field.
_PLACE = re.compile(r"\$\.suppressions\[(\d+)\]\.?(.*)")


def import_file(caller: Caller, path: Path, endpoint: Endpoint, common: Mapping[str, object]) -> int:
    """Suppress the addresses of a file and return their count; all are checked before the first page is written."""
    table = _read(caller.output, path)
    for places in _pages(caller, "checking", table):
        _ask(caller, endpoint, table, places, {**common, "check": True})
    if table.faults:
        raise table.refused(caller.output)
    added = 0
    try:
        for places in _pages(caller, "suppressing", table):
            added = places.start
            _ask(caller, endpoint, table, places, common)
    except BaseException:
        words = f"stopped: at least {added:,} are suppressed. Import the whole file again: they stay the same."
        caller.output.note(words, {"imported": added})
        raise
    return len(table.entries)


class _Table:
    """A file that is read: its columns, its entries with their lines, and the faults of other lines."""

    def __init__(self) -> None:
        self.entries: list[NewSuppression] = []
        self.lines = array("Q")
        self.faults: list[tuple[int, str]] = []
        self._columns: list[str] | None = None

    def read(self, line: Line) -> None:
        """Add a line."""
        try:
            cells = _cells(line)
            if self._columns is None and self._header(cells):
                return
            self.entries.append(self._entry(cells))
            self.lines.append(line.number)
        except ValueError as fault:
            self.faults.append((line.number, str(fault)))

    def _header(self, cells: list[str]) -> bool:
        """Whether the first line names columns; else it is an address."""
        names = [cell.strip().lower() for cell in cells]
        self._columns = names if "address" in names else ["address"]
        if "address" not in names:
            if len(names) > 1:
                raise ValueError(
                    f"has {counted(len(names), 'column')}: the first line names them, and address is one of them"
                )
            return False
        for name in names:
            if name not in COLUMNS:
                raise ValueError(f"unknown column {name!r}{did_you_mean(name, COLUMNS)}")
        if len(set(names)) < len(names):
            raise ValueError("has a column twice")
        return True

    def _entry(self, cells: list[str]) -> NewSuppression:
        names = self._columns or []
        if len(cells) != len(names):
            raise ValueError(f"has {counted(len(cells), 'column')}, not {len(names)}")
        row: dict[str, Any] = {name: cell.strip() for name, cell in zip(names, cells, strict=True) if cell.strip()}
        if faults := list(faults_of(row, NewSuppression, "$")):
            raise ValueError("; ".join(f"column {fault.path.removeprefix('$.')}: {fault.message}" for fault in faults))
        return msgspec.convert(row, NewSuppression)

    def refused(self, output: Output, *more: Fault) -> typer.Exit:
        """Print all faults; returns the exit."""
        faults = [*(Fault(f"line {line}", words) for line, words in sorted(self.faults, key=itemgetter(0))), *more]
        words = f"nothing was imported: {counted(len(faults), 'fault')}"
        output.error("InputError", words, faults)
        return typer.Exit(REFUSED)


def _pages(caller: Caller, label: str, table: _Table) -> Iterator[range]:
    every = range(len(table.entries))
    with progress_bar(caller.output, label, len(every)) as at:
        for start in every[::ADDRESSES_MAX]:
            at(start)
            yield every[start : start + ADDRESSES_MAX]


def _ask(caller: Caller, endpoint: Endpoint, table: _Table, places: range, body: Mapping[str, object]) -> None:
    """Send some entries. Their faults are noted where they are only checked; too many are halved."""
    try:
        caller.ask(endpoint, body={**body, "suppressions": table.entries[places.start : places.stop]})
    except Problem as refused:
        if refused.kind is TOO_LARGE and len(places) > 1:
            middle = len(places) // 2
            _ask(caller, endpoint, table, places[:middle], body)
            _ask(caller, endpoint, table, places[middle:], body)
        elif refused.kind is FAULTY and "check" in body:
            table.faults += [_placed(fault, table.lines, places) for fault in refused.faults]
        else:
            raise


def _placed(fault: Fault, lines: "array[int]", places: range) -> tuple[int, str]:
    """A fault of a body with its line. A fault without an entry counts others that the server does not name."""
    match = _PLACE.fullmatch(fault.path)
    if match is None:
        return lines[places[-1]], f"{fault.message} up to this line"
    return lines[places[int(match[1])]], f"column {match[2]}: {fault.message}" if match[2] else fault.message


def _read(output: Output, path: Path) -> _Table:
    """Read all entries and faults of a file. An empty or too large file is refused."""
    table = _Table()
    with batches(output, path, "reading", "FILE") as found:
        for batch in found:
            for line in batch:
                table.read(line)
            if len(table.entries) > ENTRIES_MAX:
                words = f"has more addresses than can be imported at once: {ENTRIES_MAX:,}"
                raise table.refused(output, Fault("file", words))
    if not table.entries:
        raise table.refused(output, *([] if table.faults else [Fault("file", "has no address in it")]))
    return table


def _cells(line: Line) -> list[str]:
    text = line.text()
    if "\0" in text:
        raise ValueError("has a NUL character, which Postgres cannot keep")
    # A display name may have a comma in it, and is alone on its line then.
    if re.search(r"<[^<>]+>\s*$", text):
        return [text]
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as fault:
        raise ValueError(f"is not CSV: {fault}") from fault
