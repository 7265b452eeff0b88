"""Importing contacts: every sound line of a file is written, and every other is named with its reasons."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from dispatcher.cli.contact_file import ContactFile
from dispatcher.cli.lines import Line, Lines
from dispatcher.cli.progress import progress_bar
from dispatcher.cli.sending import opened, tell_stopped
from dispatcher.cli.session import Session
from dispatcher.domain.contacts import Said
from dispatcher.doors.nouns import Refusal, Whose
from dispatcher.doors.people import Contacts
from dispatcher.errors import Fault
from dispatcher.store.contacts import Mode


class Importing(Struct, frozen=True):
    """How a file is imported."""

    here: Whose
    mode: Mode
    actor: str


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


def import_contacts(session: Session, path: Path, how: Importing) -> Tally:
    """Write what a file says, a batch at a time."""
    tally, file = Tally(), ContactFile(whole=how.mode in ("create", "put"))
    size = path.stat().st_size if path.is_file() else 0
    with opened(path, "FILE") as source, session.doors() as doors:
        # Also where no line is sound, and nothing would be asked for.
        session.run(lambda: doors.workspace(how.here))
        lines = Lines(source)
        with progress_bar(session.voice, "importing", size) as at:
            try:
                for batch in lines.batches():
                    if not _write(session, doors.contacts, how, (file, batch), tally):
                        break
                    at(lines.bytes_read)
            except BaseException:
                words = "Import the whole file again: what is there stays the same."
                tell_stopped(session.voice, tally.lines, f"{tally}. {words}", tally.counts())
                raise
    return tally


def _write(
    session: Session, contacts: Contacts, how: Importing, read: tuple[ContactFile, Sequence[Line]], tally: Tally
) -> bool:
    """Write a batch. False where nothing can be read on: the columns are not known."""
    file, batch = read
    sound: list[tuple[int, Said]] = []
    refused: list[tuple[int, Sequence[Fault]]] = []
    for line in batch:
        said = file.read(line)
        if isinstance(said, list):
            refused.append((line.number, said))
            if file.columns_are_faulty:
                break
        elif said is not None:
            sound.append((line.number, said))
    if sound:
        said_all = [said for _, said in sound]
        answers = session.run(lambda: contacts.put(how.here, said_all, how.mode, how.actor))
        for (number, _), answer in zip(sound, answers, strict=True):
            if isinstance(answer, Refusal):
                refused.append((number, answer.faults))
            else:
                setattr(tally, answer.answer, getattr(tally, answer.answer) + 1)
    for number, faults in sorted(refused, key=lambda one: one[0]):
        tally.refused += 1
        words = "".join(f"\n  {fault}" for fault in faults)
        session.voice.note(f"line {number}: refused{words}", {"line": number, "faults": list(faults)})
    tally.lines = batch[-1].number
    return not file.columns_are_faulty
