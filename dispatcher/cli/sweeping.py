"""Sweeping: something that is done to many, by the page, once somebody means it; and how far it came."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct, structs

from dispatcher.cli.operating import confirm
from dispatcher.cli.progress import progress_bar
from dispatcher.cli.voice import Voice

# One transaction: its rows stay locked for some 100 ms.
PAGE = 500
# Beyond these a person stops reading; JSON names them all.
REFUSED_SHOWN_MAX = 20

# What is listed first and acted upon then, through a server; so many are kept in memory, and more take another sweep.
LISTED_MAX = 100_000
LISTED_PAGE = 50

T = TypeVar("T")


class Told(Struct, frozen=True):
    """What became of one: whether it was done, the schema's answer, and that in words."""

    id: int
    done: bool
    answer: str
    message: str


class Words(Struct, frozen=True):
    """How a sweep speaks: of what it found, what it does to that, and what the others are."""

    one: str
    many: str
    found: str
    doing: str
    done: str
    done_as: str
    none: str
    others: str

    def counted(self, count: int) -> str:
        """How many, for a sentence."""
        return f"{count:,} {self.one if count == 1 else self.many}"


def sweep(
    voice: Voice,
    words: Words,
    count: int,
    yes: bool,
    pages: Iterable[Sequence[T]],
    act: Callable[[Sequence[T]], Iterable[Told]],
) -> bool:
    """Do it to all of the pages, each in one go, once somebody means it; whether it was done to each of them."""
    if count:
        confirm(voice, yes, count, f"{words.counted(count)} would be {words.done_as}", words.many.replace(" ", "_"))
    done = refused = 0
    try:
        with progress_bar(voice, words.doing, count) as at:
            for page in pages:
                for one in act(page):
                    done, refused = done + one.done, refused + (not one.done)
                    if not one.done:
                        _tell_refused(voice, one, refused)
                at(done + refused)
    except BaseException:
        said = f"stopped: {words.counted(done)} {words.done}, which stays so; the others are {words.others}"
        voice.note(said, {"stopped": True, words.done: done, f"not_{words.done}": refused})
        raise
    if voice.as_json:
        voice.record({words.found: count, words.done: done, f"not_{words.done}": refused})
    else:
        left = f", {refused:,} not" if refused else ""
        voice.text(f"{words.counted(done)} {words.done_as}{left}" if count else words.none)
    return not refused


def cut(named: Sequence[T]) -> Iterator[Sequence[T]]:
    """What was listed, in pages that are short enough to see them go."""
    return (named[at : at + LISTED_PAGE] for at in range(0, len(named), LISTED_PAGE))


def act_on_named(voice: Voice, named: Sequence[T], act: Callable[[Sequence[T]], Iterable[Told]]) -> bool:
    """Do it to those that were named, and say what became of each; whether it was done to all of them."""
    all_done = True
    for at in range(0, len(named), PAGE):
        for one in act(named[at : at + PAGE]):
            all_done = all_done and one.done
            if voice.as_json:
                voice.record(one)
            else:
                voice.text(one.message)
    return all_done


def _tell_refused(voice: Voice, one: Told, number: int) -> None:
    if not voice.as_json and number > REFUSED_SHOWN_MAX:
        if number == REFUSED_SHOWN_MAX + 1:
            voice.say("others to which that cannot be done are only counted; --json names them all")
        return
    voice.note(one.message, structs.asdict(one))
