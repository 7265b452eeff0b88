"""Importing contacts: every sound line of a file is written, and every other is named with its reasons."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.files import opened, tell_stopped
from dispatcher.cli.lines import Line, Lines
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.features.contacts import endpoints
from dispatcher.features.contacts.file import ContactFile
from dispatcher.features.contacts.models import Imported
from dispatcher.http.problems import Problem


class Tally(Struct):
    """What became of the lines so far."""

    lines: int = 0
    created: int = 0
    changed: int = 0
    same: int = 0
    refused: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{name} {count:,}" for name, count in self.counts().items())

    def counts(self) -> dict[str, int]:
        """It by names."""
        return {"created": self.created, "changed": self.changed, "same": self.same, "refused": self.refused}


def import_contacts(caller: Caller, path: Path, mode: str) -> Tally:
    """Write what a file says, a batch at a time."""
    tally, file = Tally(), ContactFile()
    size = path.stat().st_size if path.is_file() else 0
    with opened(path, "FILE") as source:
        # Also where no line is sound, and nothing would be asked for.
        caller.workspace()
        lines = Lines(source)
        with progress_bar(caller.output, "importing", size) as at:
            try:
                for batch in lines.batches():
                    _write(caller, mode, file, batch, tally)
                    if file.columns_are_faulty:
                        break
                    at(lines.bytes_read)
            except BaseException:
                words = "Import the whole file again: what is there stays the same."
                tell_stopped(caller.output, tally.lines, f"{tally}. {words}", tally.counts())
                raise
    return tally


def _write(caller: Caller, mode: str, file: ContactFile, batch: Sequence[Line], tally: Tally) -> None:
    """Write a batch, and name the lines that are refused."""
    refused: dict[int, Sequence[Fault]] = {}
    sound: dict[int, Mapping[str, Any]] = {}
    for line in batch:
        said = file.read(line)
        if isinstance(said, list):
            refused[line.number] = said
            if file.columns_are_faulty:
                break
        elif said is not None:
            sound[line.number] = said
    numbers = iter(sound)
    parts = caller.in_parts(endpoints.import_contacts, "contacts", [*sound.values()], mode=mode) if sound else ()
    for part, answer in parts:
        own = list(islice(numbers, len(part)))
        if isinstance(answer, Problem):
            refused[own[0]] = [*_of_one(0, answer.faults)] or [Fault("line", answer.detail)]
        else:
            _count(tally, answer)
            refused |= {own[one.number]: [*_of_one(one.number, one.faults)] for one in answer.refused}
    for number, faults in sorted(refused.items()):
        tally.refused += 1
        words = "".join(f"\n  {fault}" for fault in faults)
        caller.output.note(f"line {number}: refused{words}", {"line": number, "faults": faults})
    tally.lines = batch[-1].number


def _count(tally: Tally, answer: Imported) -> None:
    tally.created += answer.created
    tally.changed += answer.changed
    tally.same += answer.same


def _of_one(number: int, faults: Sequence[Any]) -> Iterator[Fault]:
    """What is wrong with a contact of a request, from the contact on."""
    for one in msgspec.convert(faults, list[Fault], from_attributes=True):
        yield Fault(one.path.replace(f"$.contacts[{number}]", "$", 1), one.message)
