"""Replaying and discarding dead letters: named ones, or all that a filter finds, by the page."""

from collections.abc import Iterator, Sequence
from typing import get_args

import typer
from msgspec import Struct, structs

from dispatcher.cli.deliveries import ID_MAX
from dispatcher.cli.session import Session
from dispatcher.cli.sweeping import LISTED_MAX, PAGE, Told, Words, act_on_named, cut, sweep
from dispatcher.cli.voice import plain
from dispatcher.domain.answers import NO_LETTER, letter_sentence
from dispatcher.doors.nouns import DeadLetters
from dispatcher.doors.stored.operating import StoredDeadLetters
from dispatcher.store import dead as store
from dispatcher.store.database import Database
from dispatcher.store.dead import Filter, Kind, Letter, Verb

NAMED_AS = "run:ID or delivery:ID, as `dead list` shows them"
_LETTERS = Words("dead letter", "dead letters", "dead", "", "", "", "there is no dead letter", "as they were")
WORDS = {
    "replay": structs.replace(_LETTERS, doing="replaying", done="replayed", done_as="replayed"),
    "discard": structs.replace(_LETTERS, doing="discarding", done="discarded", done_as="discarded"),
}


class Act(Struct, frozen=True):
    """What somebody wants done."""

    verb: Verb
    reason: str
    actor: str


class LetterTold(Told, frozen=True):
    """What became of a dead letter."""

    kind: Kind


def letter(text: str, option: str = "LETTER") -> Letter:
    """The dead letter that a text names."""
    kind, _, number = text.partition(":")
    if kind in get_args(Kind) and number.isascii() and number.isdigit() and 0 < (found := int(number[:20])) <= ID_MAX:
        return Letter(kind, found)  # type: ignore[arg-type]  # it is one of them
    raise typer.BadParameter(f"expected {NAMED_AS}", param_hint=option)


def sentence(verb: Verb, one: Letter, answer: str) -> LetterTold:
    """What to say about an answer: what the commands say that do it to one run or delivery."""
    done, words = letter_sentence(verb, one.kind, one.id, answer)
    return LetterTold(one.id, done, answer, plain(words), one.kind)


def act_on_all(session: Session, database: Database, meant: Filter, act: Act, yes: bool) -> bool:
    """Do it to every dead letter of a filter, once somebody means it; whether it was done to all of them."""
    counts = [session.run(lambda kind=kind: store.count(database, meant, kind)) for kind in meant.kinds]  # type: ignore[misc]  # bound now
    asked_at = min(at for _, at in counts)
    until = asked_at if meant.until is None else min(asked_at, meant.until)
    pages, noun = _pages(session, database, structs.replace(meant, until=until)), StoredDeadLetters(database)
    total = sum(count for count, _ in counts)
    return sweep(session.voice, WORDS[act.verb], total, yes, pages, lambda page: _act(session, noun, page, act))


def act_on_listed(session: Session, noun: DeadLetters, meant: Filter, act: Act, yes: bool) -> bool:
    """The same through a server: to those that are listed now, and to none that fails later."""
    letters: list[Letter] = []
    for kind in meant.kinds:
        found = session.run(lambda k=kind: noun.listed(meant, k, ID_MAX, LISTED_MAX))  # type: ignore[misc]  # bound now
        letters += [Letter(kind, row["id"]) for row in found]
    return sweep(
        session.voice, WORDS[act.verb], len(letters), yes, cut(letters), lambda page: _act(session, noun, page, act)
    )


def act_on_these(session: Session, noun: DeadLetters, letters: Sequence[Letter], act: Act) -> bool:
    """Do it to the named ones and say what became of each; whether it was done to all of them."""
    return act_on_named(session.voice, letters, lambda page: _act(session, noun, page, act))


def _pages(session: Session, database: Database, meant: Filter) -> Iterator[list[Letter]]:
    """Those that were dead letters when somebody meant it, each once."""
    for kind in meant.kinds:
        below = ID_MAX
        while True:
            page = session.run(lambda k=kind, b=below: store.page(database, meant, k, b, PAGE))  # type: ignore[misc]  # bound now
            if not page:
                break
            yield [Letter(kind, one) for one in page]
            below = page[-1]


def _act(session: Session, noun: DeadLetters, letters: Sequence[Letter], act: Act) -> list[LetterTold]:
    """Do it to a page: those of a kind in one transaction."""
    answers: dict[Letter, str] = {}
    for kind in store.KINDS:
        ids = [one.id for one in letters if one.kind == kind]
        if ids:
            found = session.run(
                lambda k=kind, i=ids: noun.act(act.verb, k, i, act.reason, act.actor)  # type: ignore[misc]  # bound now
            )
            answers |= {Letter(kind, one): answer for one, answer in found.items()}
    return [sentence(act.verb, one, answers.get(one, NO_LETTER)) for one in letters]
