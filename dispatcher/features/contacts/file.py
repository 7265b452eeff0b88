"""Reading a file of contacts: JSON, one object a line, or CSV whose first line names its columns."""

import csv
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dispatcher.base.errors import Fault, did_you_mean
from dispatcher.cli.lines import Line
from dispatcher.features.contacts.rules import CONTACT_KINDS, FIELDS

# Several tags, or several addresses of a kind, in one cell.
SEPARATOR = ";"
PREFIX = "attributes."
COLUMNS = ("key", *(name for name in FIELDS if name != "addresses"), *CONTACT_KINDS)

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

    def _row(self, cells: Sequence[str]) -> Mapping[str, Any]:
        """A line of CSV as the object that JSON would have; an empty cell is left out."""
        columns = self._columns or []
        if len(cells) != len(columns):
            raise ValueError(f"has {len(cells)} columns, not {len(columns)}")
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
