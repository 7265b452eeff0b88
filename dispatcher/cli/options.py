"""Operating: who acts and why, and whether they mean it."""

import os
import socket
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated

import typer

from dispatcher.cli.failures import FAILED
from dispatcher.cli.session import Session
from dispatcher.cli.terminal.console import Output

# What an option means that is not given.
UNNAMED = "`default` without it, and of a server what the key opens"

# As long as a server takes it.
REASON_CHARACTERS_MAX = 1_000
# No name and no key is longer.
FILTER_CHARACTERS_MAX = 255

Reason = Annotated[str, typer.Option(help="Why; it is kept.")]
Actor = Annotated[
    str | None, typer.Option(help="Who; $USER at this host without it. A server writes the name of the key instead.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


def who(session: Session, actor: str | None) -> str:
    """Who acts, if that can be kept. A server knows by itself whose key it is shown, and is told nothing."""
    found, fault = known_as(session, actor)
    _refuse("--actor", fault)
    return found


def known_as(session: Session, actor: str | None) -> tuple[str, str | None]:
    """Who acts, as they say, or as the system knows them; and what is wrong with that."""
    if session.address is not None:
        return "", None if actor is None else "cannot be given to a server: it writes the name of the key"
    found = actor if actor is not None else f"{os.environ.get('USER') or 'unknown'}@{socket.gethostname()}"
    return found, words_fault(found)


def require_words(option: str, text: str) -> None:
    """Refuse what `words_fault` finds."""
    _refuse(option, words_fault(text))


def name_given(parameter: typer.CallbackParam, name: str) -> str:
    """The name that an argument is, in which there is something to read."""
    require_words(parameter.metavar or "", name)
    return name


def require_text(option: str, text: str | None) -> None:
    """Refuse what `text_fault` finds."""
    _refuse(option, None if text is None else text_fault(text))


def require_reason(text: str) -> None:
    """Refuse what `reason_fault` finds."""
    _refuse("--reason", reason_fault(text))


def require_filter(option: str, text: str | None) -> None:
    """Refuse by what nothing can be found, in a database or through a server."""
    require_text(option, text)
    if text is not None and not 1 <= len(text) <= FILTER_CHARACTERS_MAX:
        _refuse(option, f"expected 1 to {FILTER_CHARACTERS_MAX} characters")


def one_of(words: Sequence[str]) -> Callable[[str | None], str | None]:
    """What reads an argument or option that has one of these words."""

    def read(text: str | None) -> str | None:
        if text is not None and text not in words:
            raise typer.BadParameter(f"expected one of {', '.join(words)}")
        return text

    return read


def words_fault(text: str) -> str | None:
    """What is wrong with what is kept for others to read: it has to say something."""
    return text_fault(text) or (None if text.strip() else "is empty")


def reason_fault(text: str) -> str | None:
    """What is wrong with a reason: it is kept, and as short as over HTTP."""
    long = f"has more than {REASON_CHARACTERS_MAX} characters" if len(text) > REASON_CHARACTERS_MAX else None
    return words_fault(text) or long


def text_fault(text: str) -> str | None:
    """What is wrong with a text: arguments are bytes to the system, and Postgres cannot keep all of them."""
    return "is not UTF-8" if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text) else None


def _refuse(option: str, fault: str | None) -> None:
    if fault is not None:
        raise typer.BadParameter(fault, param_hint=option)


def confirm(output: Output, yes: bool, count: int, sentence: str, of: str = "deliveries") -> None:
    """Say how many it would be, and go on only when somebody means it."""
    output.info(sentence)
    if yes:
        return
    if output.as_json or not sys.stdin.isatty():
        message = f"{sentence}; nothing was done: confirm with --yes"
        output.note(
            "error: nothing was done: confirm with --yes",
            {"error": "Unconfirmed", "message": message, of: count},
        )
        raise typer.Exit(FAILED)
    if not typer.confirm("Go on?", err=True):
        output.info("nothing was done")
        raise typer.Exit(FAILED)


def deliveries_in_words(count: int) -> str:
    """How many, for a sentence."""
    return f"{count:,} {'delivery' if count == 1 else 'deliveries'}"


def second(at: datetime) -> str:
    """A time as people read it."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
