"""The steps of a run: the present state of each node, from the log and the cursor."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from dispatcher.features.runs.models import Entry, Run, Visit
from dispatcher.features.workflows.models import Step

DONE, FAILED, SKIPPED, STOPPED, AHEAD = "done", "failed", "skipped", "stopped", ""
# The state of a node that the run is at.
STANDINGS = {
    "joining": "waits for other paths",
    "sending": "runs",
    "delaying": "waits",
    "waiting": "waits for an event",
    "digesting": "collects",
}
ENDINGS = {"succeeded": DONE, "failed": FAILED, "skipped": SKIPPED, "started": STOPPED}
NO_COUNTS: Mapping[str, int] = {}


class Row(Struct, frozen=True):
    """A row for a node: whether the run is at it, its state, and a note about that."""

    step: int
    node: str
    what: str
    state: str
    is_here: bool = False
    note: str = ""


class Steps:
    """The nodes of a workflow, with the states that the log of a run gives them so far."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._events: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        # The number of the next line of the log.
        self.next = 0

    def read(self, entries: Iterable[Entry]) -> None:
        """Read further entries of the log."""
        for entry in entries:
            self.next = max(self.next, entry.number + 1)
            node, event = entry.node, entry.event
            if event == "replayed":
                self._events = {name: one for name, one in self._events.items() if one != "failed"}
            elif node is not None and event in ENDINGS:
                self._events[node] = event
                self._errors[node] = entry.error or ""

    def rows(self, run: Run, cursor: Mapping[str, Visit], counts: Mapping[str, Mapping[str, int]]) -> list[Row]:
        """Return a row for every node, in the order of the definition."""
        return [self._row(one, run, cursor.get(one.node), counts.get(one.node, NO_COUNTS)) for one in self._steps]

    def _row(self, one: Step, run: Run, visit: Visit | None, counts: Mapping[str, int]) -> Row:
        step, name, what = one.step, one.node, one.what
        if visit is not None and run.finished_at is None:
            return Row(step, name, what, STANDINGS[visit.standing], is_here=True, note=_note(visit, counts))
        if visit is not None:
            has_failed = name == run.error_step
            return Row(step, name, what, FAILED if has_failed else STOPPED, note=run.error or "" if has_failed else "")
        event = self._events.get(name)
        return Row(step, name, what, AHEAD if event is None else ENDINGS[event], note=self._errors.get(name, ""))


def _note(visit: Visit, counts: Mapping[str, int]) -> str:
    if visit.until is not None:
        return f"until {datetime.fromtimestamp(visit.until, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if visit.standing != "sending" or not counts:
        return ""
    words = []
    if counts["all"] > 1:
        words.append(f"{counts['all'] - counts['queued']:,} of {counts['all']:,} ended")
    if counts["attempts"] > 1:
        words.append(f"attempt {counts['attempts']}")
    if counts["held"]:
        words.append(f"{counts['held']:,} held")
    return ", ".join(words)


def window(rows: Sequence[Row], count_max: int) -> Sequence[Row]:
    """Return as many rows as fit, around the first node that the run is at; after its end the last rows."""
    if len(rows) <= count_max:
        return rows
    here = next((number for number, row in enumerate(rows) if row.is_here), len(rows))
    start = max(0, min(here - count_max // 2, len(rows) - count_max))
    return rows[start : start + count_max]


def ending(run: Run) -> str:
    """Return the sentence about the end of a run."""
    match run.status:
        case "failed":
            at = f" at {run.error_step}" if run.error_step else ""
            return f"run {run.execution_id} has failed{at}: {run.error}"
        case "cancelled":
            return f"run {run.execution_id} is cancelled{': ' + run.note if run.note else ''}"
        case status:
            return f"run {run.execution_id} is {status}"
