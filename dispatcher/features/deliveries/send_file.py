"""Sending a file: its lines are sent in batches, and the results counted."""

from pathlib import Path

from msgspec import Struct

from dispatcher.base.errors import Fault
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.files import opened, tell_stopped
from dispatcher.cli.lines import Line, Lines
from dispatcher.cli.terminal.console import plain
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.features.deliveries.endpoints import send_lines
from dispatcher.features.deliveries.models import SentLine

# Beyond these a person stops reading; JSON names them all.
DUPLICATES_SHOWN_MAX = 20


class Tally(Struct):
    """The results of the lines so far."""

    lines: int = 0
    sent: int = 0
    duplicates: int = 0
    refused: int = 0

    def __str__(self) -> str:
        return f"sent {self.sent:,}, duplicates {self.duplicates:,}, refused {self.refused:,}"

    def counts(self) -> dict[str, int]:
        """Return the results by name."""
        return {"sent": self.sent, "duplicates": self.duplicates, "refused": self.refused}


def send_file(caller: Caller, path: Path) -> Tally:
    """Send the valid lines of a file, and show the others."""
    tally = Tally()
    size = path.stat().st_size if path.is_file() else 0
    with opened(path) as source, progress_bar(caller.output, "sending", size) as at:
        lines = Lines(source)
        try:
            for batch in lines.batches():
                _send_batch(caller, batch, tally)
                at(lines.bytes_read)
        except BaseException:
            words = "Send the whole file again: keys keep what is there from going out twice."
            tell_stopped(caller.output, tally.lines, f"{tally}. {words}", tally.counts())
            raise
    return tally


def _send_batch(caller: Caller, batch: list[Line], tally: Tally) -> None:
    read = [(line.number, _text(line)) for line in batch]
    sound = [text for _, text in read if isinstance(text, str)]
    answers = iter(caller.ask(send_lines, body={"lines": sound}).lines if sound else ())
    told = [(number, next(answers) if isinstance(text, str) else SentLine(faults=[text])) for number, text in read]
    for number, answer in told:
        if answer.duplicate:
            tally.duplicates += 1
            _note_duplicate(caller, number, answer, tally)
        elif answer.id is not None:
            tally.sent += 1
    for number, answer in told:
        if answer.id is None:
            tally.refused += 1
            words = "".join(f"\n  {fault}" for fault in answer.faults)
            caller.output.note(f"line {number}: refused{words}", {"line": number, "faults": answer.faults})
    tally.lines = batch[-1].number


def _text(line: Line) -> str | Fault:
    """Return the text of a line, or why it cannot be read."""
    try:
        return line.text()
    except ValueError as fault:
        return Fault("line", str(fault))


def _note_duplicate(caller: Caller, number: int, answer: SentLine, tally: Tally) -> None:
    if not caller.output.as_json and tally.duplicates > DUPLICATES_SHOWN_MAX:
        if tally.duplicates == DUPLICATES_SHOWN_MAX + 1:
            caller.output.info("further duplicates are only counted; --json names them all")
        return
    caller.output.note(
        f"line {number}: duplicate: delivery {answer.id} holds the key {plain(answer.idempotency_key)}",
        {"line": number, "idempotency_key": answer.idempotency_key, "duplicate_of": answer.id},
    )
