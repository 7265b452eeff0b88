"""Importing contacts: every sound line of a file is written, and every other is named with its faults."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from dispatcher.base.errors import Fault, did_you_mean
from dispatcher.base.values.counts import counted
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.files import Tally, batches
from dispatcher.cli.lines import Line
from dispatcher.features.contacts import endpoints
from dispatcher.features.contacts.rules import CONTACT_KINDS, FIELDS
from dispatcher.http.problems import Problem

# Several tags, or several addresses of a kind, in one cell.
SEPARATOR = ";"
PREFIX = "attributes."
COLUMNS = ("key", *(name for name in FIELDS if name != "addresses"), *CONTACT_KINDS)

COUNTED = ("created", "changed", "same")

_decode = msgspec.json.Decoder().decode


class ContactFile:
    """The reader of one file, line by line."""

    def __init__(self) -> None:
        self._columns: list[str] | None = None
        self._json: bool | None = None
        # No further line can be read then.
        self.columns_are_faulty = False

    def read(self, line: Line) -> Mapping[str, Any] | list[Fault] | None:
        """Return the object on a line, or its faults; None for the line that names the columns."""
        try:
            text = line.text()
            if self._json is None:
                self._json = text.lstrip().startswith("{")
            if self._json:
                found = _decode(text)
                return found if isinstance(found, dict) else [Fault("$", "expected an object")]
            cells = next(csv.reader([text], strict=True))
            if self._columns is None:
                self._columns = [cell.strip() for cell in cells]
                faults = _column_faults(self._columns)
                self.columns_are_faulty = bool(faults)
                return faults or None
            return self._row(cells)
        except (ValueError, RecursionError) as fault:
            return [Fault("line", str(fault))]
        except csv.Error as fault:
            return [Fault("line", f"is not CSV: {fault}")]

    def placed(self, fault: Fault, row: Mapping[str, Any]) -> Fault:
        """Return a fault of a contact at the place where the file has it: the column of CSV, the path in JSON."""
        path = fault.path
        if self._json or not path.startswith("$."):
            return fault
        field, _, inner = path.removeprefix("$.").partition(".")
        name, _, index = field.partition("[")
        column = name
        if name == "addresses" and index:
            column = row["addresses"][int(index.removesuffix("]"))]["kind"]
        elif name == "attributes" and f"{PREFIX}{inner}" in (self._columns or ()):
            column = PREFIX + inner
        return Fault(f"column {column}", fault.message)

    def _row(self, cells: Sequence[str]) -> Mapping[str, Any]:
        """A line of CSV as the object that JSON would have; an empty cell is left out."""
        columns = self._columns or []
        if len(cells) != len(columns):
            raise ValueError(f"has {counted(len(cells), 'column')}, not {len(columns)}")
        row = {name: cell.strip() for name, cell in zip(columns, cells, strict=True) if cell.strip()}
        found: dict[str, Any] = {name: text for name, text in row.items() if name in ("key", *FIELDS)}
        if "tags" in row:
            found["tags"] = _parts(row["tags"])
        addresses = [{"kind": k, "address": one} for k in CONTACT_KINDS if k in row for one in _parts(row[k])]
        if addresses:
            found["addresses"] = addresses
        attributes = {name.removeprefix(PREFIX): text for name, text in row.items() if name.startswith(PREFIX)}
        if "attributes" in row:
            given = _decode(row["attributes"])
            found["attributes"] = given | attributes if isinstance(given, dict) else given
        elif attributes:
            found["attributes"] = attributes
        return found


def _column_faults(columns: Sequence[str]) -> list[Fault]:
    faults = [
        Fault("line", f"unknown column {name!r}{did_you_mean(name, COLUMNS)}")
        for name in columns
        if name not in COLUMNS and not (name.startswith(PREFIX) and name != PREFIX)
    ]
    if "key" not in columns:
        faults.append(Fault("line", "has no column key: the first line names the columns"))
    if len(set(columns)) < len(columns):
        faults.append(Fault("line", "has a column twice"))
    return faults


def _parts(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(SEPARATOR) if part.strip()]


def import_contacts(caller: Caller, path: Path, mode: str) -> Tally:
    """Write the contacts of a file, a batch at a time; returns how many were created, changed, same and refused."""
    tally, file = Tally(caller.output, *COUNTED), ContactFile()
    with batches(caller.output, path, "importing", "FILE") as found:
        # A wrong workspace is refused even if no line is sound.
        caller.workspace()
        with tally.shown_if_stopped("Import the whole file again: what is there stays the same."):
            for batch in found:
                _write(caller, mode, file, batch, tally)
                tally.line = batch[-1].number
                if file.columns_are_faulty:
                    break
    return tally


def _write(caller: Caller, mode: str, file: ContactFile, batch: Sequence[Line], tally: Tally) -> None:
    """Write a batch, and name the lines that are refused."""
    refused: dict[int, Sequence[Fault]] = {}
    sound: dict[int, Mapping[str, Any]] = {}
    for line in batch:
        found = file.read(line)
        if isinstance(found, list):
            refused[line.number] = found
            if file.columns_are_faulty:
                break
        elif found is not None:
            sound[line.number] = found
    numbers = iter(sound)
    parts = caller.in_parts(endpoints.import_contacts, "contacts", [*sound.values()], mode=mode) if sound else ()
    for part, answer in parts:
        own = list(islice(numbers, len(part)))
        if isinstance(answer, Problem):
            named = [file.placed(one, sound[own[0]]) for one in _faults(0, answer.faults)]
            refused[own[0]] = named or [Fault("line", answer.detail)]
        else:
            tally.counts.update({name: getattr(answer, name) for name in COUNTED})
            for one in answer.refused:
                line = own[one.number]
                refused[line] = [file.placed(fault, sound[line]) for fault in _faults(one.number, one.faults)]
    for number, faults in sorted(refused.items()):
        tally.refuse(number, faults)


def _faults(number: int, faults: Sequence[Any]) -> Iterator[Fault]:
    """The faults of one contact of a request, with paths that begin at the contact."""
    for one in msgspec.convert(faults, list[Fault], from_attributes=True):
        yield Fault(one.path.replace(f"$.contacts[{number}]", "$", 1), one.message)
