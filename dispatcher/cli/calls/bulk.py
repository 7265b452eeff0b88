"""Bulk actions: on named things one by one, or on everything that a filter matches, page by page."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

import typer
from msgspec import Struct, structs

from dispatcher.base.values.counts import counted
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import confirm
from dispatcher.cli.terminal.output import tell
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.http.bulk import NotDone, Swept
from dispatcher.http.cursors import FIRST
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem

# The things of a command, at most; more take another command.
COUNTED_MAX = 100_000
# The things of a request, whose transaction holds its rows for some 100 ms.
PAGE = 500
# More are not read; JSON names them all.
REFUSED_SHOWN_MAX = 20

T = TypeVar("T")


class Outcome(Struct, frozen=True):
    """The outcome of an action: whether it was done, the answer in a word, and in a sentence."""

    id: int
    done: bool
    answer: str
    message: str


class Words(Struct, frozen=True):
    """The words of a command: for the things that it finds, for its action, and for the things that remain."""

    one: str
    many: str
    found: str
    doing: str
    done: str
    done_as: str
    none: str
    others: str

    def counted(self, count: int) -> str:
        """Return a count for a sentence."""
        return counted(count, self.one, self.many)


class Matched(Struct, frozen=True):
    """Everything that a filter matches: its count, and the request that acts on it."""

    count: int
    endpoint: Endpoint
    body: Mapping[str, object]
    # The fields that name the kind of a refused thing.
    kind: Mapping[str, object] = {}


def acted(number: int, done: Any) -> Outcome:  # noqa: ANN401 - the answer of any action
    """Return the outcome that an answer stands for."""
    return Outcome(number, True, done.answer, done.message)


def attempt(
    caller: Caller,
    endpoint: Endpoint,
    number: int,
    body: Mapping[str, object],
    *,
    anywhere: bool = False,
    told: Callable[[int, Any], Outcome] = acted,
) -> Outcome:
    """Act on a thing. An unknown thing, or a thing in another state, is an outcome, too."""
    try:
        done = (caller.ask_by_id if anywhere else caller.ask)(endpoint, number, body=body)
    except Problem as refused:
        answer = {NOT_FOUND: "unknown", CONFLICT: refused.answer}.get(refused.kind)
        if not answer:
            raise
        return Outcome(number, False, answer, refused.detail)
    return told(number, done)


def act_on_named(caller: Caller, named: Iterable[T], act: Callable[[T], Any]) -> None:
    """Act on each thing and show its outcome. Exits with FAILED unless all were done."""
    all_done = True
    for one in named:
        outcome = act(one)
        all_done = all_done and outcome.done
        tell(caller, outcome, outcome.message)
    if not all_done:
        raise typer.Exit(FAILED)


def count(
    caller: Caller, endpoint: Endpoint, time: Callable[[Any], datetime], query: Mapping[str, Any]
) -> tuple[int, datetime]:
    """Return the number of rows of a list, up to COUNTED_MAX, and a time after all of them."""
    number, latest = 0, FIRST
    for row in islice(caller.every(endpoint, **query), COUNTED_MAX):
        number, latest = number + 1, max(latest, time(row))
    return number, latest + timedelta(microseconds=1)


def act_on_all(caller: Caller, words: Words, matched: Sequence[Matched], *, yes: bool) -> None:
    """Act on everything that was counted, after a confirmation. Exits with FAILED unless all were done."""
    total = sum(one.count for one in matched)
    if total:
        sentence = f"{words.counted(total)} would be {words.done_as}"
        confirm(caller.output, yes, total, sentence, words.many.replace(" ", "_"))
    done = refused = 0
    try:
        with progress_bar(caller.output, words.doing, total) as at:
            for kind, page in (found for one in matched for found in _pages(caller, one)):
                for number, not_done in enumerate(page.refused, refused + 1):
                    _tell_refused(caller, not_done, kind, number)
                done, refused = done + page.done, refused + page.not_done
                at(done + refused)
    except BaseException:
        said = f"stopped: {words.counted(done)} {words.done}, which stays so; the others are {words.others}"
        caller.output.note(said, {"stopped": True, words.done: done, f"not_{words.done}": refused})
        raise
    left = f", {refused:,} not" if refused else ""
    record = {words.found: total, words.done: done, f"not_{words.done}": refused}
    tell(caller, record, f"{words.counted(done)} {words.done_as}{left}" if total else words.none)
    if refused:
        raise typer.Exit(FAILED)


def _pages(caller: Caller, one: Matched) -> Iterator[tuple[Mapping[str, object], Swept]]:
    """Act page by page, on as many things as were counted."""
    left, cursor = one.count, None
    while left > 0:
        page: Swept = caller.ask(one.endpoint, body={**one.body, "limit": min(PAGE, left), "cursor": cursor})
        yield one.kind, page
        left, cursor = left - page.done - page.not_done, page.next_cursor
        if cursor is None:
            break


def _tell_refused(caller: Caller, one: NotDone, kind: Mapping[str, object], number: int) -> None:
    if not caller.output.as_json and number > REFUSED_SHOWN_MAX:
        if number == REFUSED_SHOWN_MAX + 1:
            caller.output.info("others to which that cannot be done are only counted; --json names them all")
        return
    caller.output.note(one.message, {"id": one.id, "done": False, **structs.asdict(one), **kind})
