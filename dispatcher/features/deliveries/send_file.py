"""Sending a file: its lines are written in batches, and the results counted."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from dispatcher.base.errors import Fault
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.files import Tally, batches
from dispatcher.cli.lines import Line
from dispatcher.cli.options import second
from dispatcher.cli.terminal.console import plain
from dispatcher.features.deliveries.endpoints import send_lines
from dispatcher.features.deliveries.models import SentLine, Written

# Beyond these a person stops reading; JSON names them all.
DUPLICATES_SHOWN_MAX = 20


def outlook(answer: SentLine | Written, now: datetime) -> str:
    """Return what will happen to a delivery that was written."""
    if answer.bar is not None:
        return answer.bar
    if answer.waits is not None:
        return f"waits: {answer.waits}"
    return f"due at {second(answer.run_at)}" if answer.run_at is not None and answer.run_at > now else "due now"


def send_file(caller: Caller, path: Path) -> tuple[Tally, Counter[str]]:
    """Write the valid lines of a file, and show the others. Return the counts, and why written lines wait."""
    tally, reasons = Tally(caller.output, "written", "duplicates"), Counter[str]()
    words = "Send the whole file again: keys keep what is there from going out twice."
    with batches(caller.output, path, "sending") as found, tally.shown_if_stopped(words):
        for batch in found:
            _send_batch(caller, batch, tally, reasons)
    return tally, reasons


def _send_batch(caller: Caller, batch: list[Line], tally: Tally, reasons: Counter[str]) -> None:
    read = [(line.number, _text(line)) for line in batch]
    sound = [text for _, text in read if isinstance(text, str)]
    answers = iter(caller.ask(send_lines, body={"lines": sound}).lines if sound else ())
    told = [(number, next(answers) if isinstance(text, str) else SentLine(faults=[text])) for number, text in read]
    now = datetime.now(UTC)
    for number, answer in told:
        if answer.duplicate:
            tally.counts["duplicates"] += 1
            _note_duplicate(caller, number, answer, tally.counts["duplicates"])
        elif answer.id is not None:
            tally.counts["written"] += 1
            if answer.bar is not None or answer.waits is not None:
                reasons[outlook(answer, now)] += 1
    for number, answer in told:
        if answer.id is None:
            tally.refuse(number, answer.faults)
    tally.line = batch[-1].number


def _text(line: Line) -> str | Fault:
    """Return the text of a line, or why it cannot be read."""
    try:
        return line.text()
    except ValueError as fault:
        return Fault("line", str(fault))


def _note_duplicate(caller: Caller, number: int, answer: SentLine, duplicates: int) -> None:
    if not caller.output.as_json and duplicates > DUPLICATES_SHOWN_MAX:
        if duplicates == DUPLICATES_SHOWN_MAX + 1:
            caller.output.info("further duplicates are only counted; --json names them all")
        return
    caller.output.note(
        f"line {number}: duplicate: delivery {answer.id} holds the key {plain(answer.idempotency_key)}",
        {"line": number, "idempotency_key": answer.idempotency_key, "duplicate_of": answer.id},
    )
