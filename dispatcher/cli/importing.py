"""Importing: a file of addresses, one a line or as CSV with named columns, read whole before anything is written."""

import csv
import os
import re
from array import array
from collections.abc import Mapping
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import typer
from msgspec import Struct, structs

from dispatcher.cli.failures import REFUSED
from dispatcher.cli.lines import LINE_BYTES_MAX, Line, Lines
from dispatcher.cli.operating import REASON_CHARACTERS_MAX, require_text
from dispatcher.cli.progress import progress_bar
from dispatcher.cli.sending import opened
from dispatcher.cli.voice import Voice
from dispatcher.domain.addresses import KINDS, given
from dispatcher.domain.suppression import SOURCES
from dispatcher.errors import Fault, did_you_mean
from dispatcher.store.intake import instant
from dispatcher.store.suppressions import Entry

# They are kept in memory until the last line is known to be sound: some 300 bytes each.
ENTRIES_MAX = 1_000_000
COLUMNS = ("address", "kind", "channel", "source", "reason", "expires_at")
NAME_MAX = 100


def require_name(option: str, text: str) -> None:
    """What the schema takes as a tenant's name."""
    require_text(option, text)
    if not 1 <= len(text) <= NAME_MAX:
        raise typer.BadParameter(f"expected 1 to {NAME_MAX} characters", param_hint=option)


class Table(Struct):
    """A file that was read: its entries, the line of each, and what is wrong with other lines."""

    entries: list[Entry] = []
    lines: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))
    faults: list[tuple[int, str]] = []

    def fault(self, place: int, words: str) -> None:
        """Something is wrong with an entry."""
        self.faults.append((self.lines[place], words))


def read_table(voice: Voice, path: Path, default: Entry) -> Table:
    """Every entry of a file, and every fault. Where there is nothing, or too much, it ends here."""
    reading = _Reading(default)
    table = reading.table
    size = os.path.getsize(path) if path.is_file() else 0
    with opened(path, "FILE") as source, progress_bar(voice, "reading", size) as at:
        lines = Lines(source)
        for batch in lines.batches():
            for line in batch:
                reading.read(line)
            at(lines.bytes_read)
            if len(table.entries) > ENTRIES_MAX:
                words = f"has more addresses than can be imported at once: {ENTRIES_MAX:,}"
                raise refused(voice, table, Fault("file", words))
    if not table.entries:
        raise refused(voice, table, *([] if table.faults else [Fault("file", "has no address in it")]))
    return table


def refused(voice: Voice, table: Table, *more: Fault) -> typer.Exit:
    """Say all that is wrong with a file; what to end with."""
    faults = [*(Fault(f"line {line}", words) for line, words in sorted(table.faults, key=itemgetter(0))), *more]
    words = f"nothing was imported: {len(faults):,} {'fault' if len(faults) == 1 else 'faults'}"
    voice.fail("InputError", words, faults)
    return typer.Exit(REFUSED)


class _Reading:
    """A file under way, and its columns once they are known."""

    def __init__(self, default: Entry) -> None:
        self.table = Table()
        self._default = default
        self._now = datetime.now(UTC)
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

    def _entry(self, cells: list[str]) -> Entry:
        names = self._columns or []
        if len(cells) != len(names):
            raise ValueError(f"has {len(cells)} columns, not {len(names)}")
        row = {name: cell.strip() for name, cell in zip(names, cells, strict=True) if cell.strip()}
        said = self._said(row)
        kind = _one_of("kind", row.get("kind"), KINDS)
        try:
            address = given(row.get("address", ""), kind)
        except ValueError as fault:
            raise ValueError(f"address: {fault}") from fault
        return structs.replace(self._default, address=address, **said)

    def _said(self, row: Mapping[str, str]) -> dict[str, Any]:
        """What a line says in place of the default."""
        said: dict[str, Any] = {}
        if source := _one_of("source", row.get("source"), SOURCES):
            said["source"] = source
        if channel := row.get("channel"):
            # Which ones there are is known behind the door.
            said["channel"] = channel
        if reason := row.get("reason"):
            if len(reason) > REASON_CHARACTERS_MAX:
                raise ValueError(f"reason: has more than {REASON_CHARACTERS_MAX} characters")
            said["reason"] = reason
        if expires_at := row.get("expires_at"):
            try:
                until = said["expires_at"] = instant(expires_at)
            except ValueError as fault:
                raise ValueError(f"expires_at: {fault}") from fault
            if until <= self._now:
                raise ValueError("expires_at: is over already")
        return said


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


def _one_of(column: str, text: str | None, known: tuple[str, ...]) -> Any:  # noqa: ANN401 - one of a closed set
    if text is not None and text not in known:
        raise ValueError(f"{column}: expected one of {', '.join(known)}")
    return text
