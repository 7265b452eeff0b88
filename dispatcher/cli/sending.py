"""Sending: batches on their way into the outbox, and the tally of what became of each line."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from io import BufferedReader
from pathlib import Path

import typer
from msgspec import Struct
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dispatcher.cli.lines import LINE_BYTES_MAX, Line, Lines
from dispatcher.cli.session import Session
from dispatcher.cli.streams import standard_input
from dispatcher.cli.voice import Voice, plain
from dispatcher.doors.doors import Doors
from dispatcher.doors.nouns import Refusal, Sent
from dispatcher.errors import Fault

STANDARD_INPUT = Path("-")
# Beyond these a person stops reading; JSON names them all.
DUPLICATES_SHOWN_MAX = 20
TOO_LONG = Refusal([Fault("line", f"is longer than {LINE_BYTES_MAX} bytes")])


class Tally(Struct):
    """What became of the lines so far."""

    lines: int = 0
    sent: int = 0
    duplicates: int = 0
    refused: int = 0

    def __str__(self) -> str:
        return f"sent {self.sent:,}, duplicates {self.duplicates:,}, refused {self.refused:,}"

    def counts(self) -> dict[str, int]:
        """It by names."""
        return {"sent": self.sent, "duplicates": self.duplicates, "refused": self.refused}


def send_file(session: Session, path: Path) -> Tally:
    """Send every sound line of a file and name every other."""
    tally = Tally()
    with opened(path) as source, session.doors() as doors, _progress(session.voice, path) as progress:
        lines = Lines(source)
        bar = progress.add_task("", total=path.stat().st_size if path.is_file() else None, tally=tally)
        try:
            for batch in lines.batches():
                _send_batch(session, doors, batch, tally)
                progress.update(bar, completed=lines.bytes_read)
        except BaseException:
            words = "Send the whole file again: keys keep what is there from going out twice."
            tell_stopped(session.voice, tally.lines, f"{tally}. {words}", tally.counts())
            raise
    if session.voice.as_json:
        session.voice.record(tally.counts())
    else:
        session.voice.text(str(tally))
    return tally


def tell_stopped(voice: Voice, line: int, words: str, counts: Mapping[str, int]) -> None:
    """How far it came, for whoever has stopped it or has to do it again."""
    voice.note(f"stopped after line {line:,}: {words}", {"stopped": True, "line": line, **counts})


def _send_batch(session: Session, doors: Doors, batch: list[Line], tally: Tally) -> None:
    lines = [line.content for line in batch if line.content is not None]
    answers = iter(session.run(lambda: doors.deliveries.send(lines)) if lines else [])
    faulty: list[tuple[int, Refusal]] = []
    for line in batch:
        answer = next(answers) if line.content is not None else TOO_LONG
        if isinstance(answer, Refusal):
            faulty.append((line.number, answer))
        elif answer.duplicate:
            tally.duplicates += 1
            _note_duplicate(session.voice, line.number, answer, tally)
        else:
            tally.sent += 1
    for number, refusal in faulty:
        tally.refused += 1
        words = "".join(f"\n  {fault}" for fault in refusal.faults)
        session.voice.note(f"line {number}: refused{words}", {"line": number, "faults": list(refusal.faults)})
    tally.lines = batch[-1].number


def _note_duplicate(voice: Voice, number: int, answer: Sent, tally: Tally) -> None:
    if not voice.as_json and tally.duplicates > DUPLICATES_SHOWN_MAX:
        if tally.duplicates == DUPLICATES_SHOWN_MAX + 1:
            voice.say("further duplicates are only counted; --json names them all")
        return
    voice.note(
        f"line {number}: duplicate: delivery {answer.id} holds the key {plain(answer.idempotency_key)}",
        {"line": number, "idempotency_key": answer.idempotency_key, "duplicate_of": answer.id},
    )


@contextmanager
def opened(path: Path, hint: str = "--file") -> Iterator[BufferedReader]:
    """A file that was named on the command line; - is the standard input."""
    try:
        file = standard_input() if path == STANDARD_INPUT else path.open("rb")
    except OSError as fault:
        raise typer.BadParameter(f"{path} cannot be read: {fault.strerror}", param_hint=hint) from fault
    with nullcontext() if path == STANDARD_INPUT else file:
        yield file


@contextmanager
def _progress(voice: Voice, path: Path) -> Iterator[Progress]:
    """A bar on a terminal, and nothing elsewhere."""
    name = "standard input" if path == STANDARD_INPUT else path.name
    columns = (
        TextColumn(plain(name), markup=False),
        BarColumn(),
        TextColumn("{task.fields[tally]}"),
        TimeElapsedColumn(),
    )
    shown = voice.talk.is_terminal and not voice.as_json
    with Progress(*columns, console=voice.talk, transient=True, disable=not shown) as progress:
        yield progress
