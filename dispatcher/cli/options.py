"""Shared options: the actor, the reason and the confirmation, and checks of texts."""

import os
import socket
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated

import typer

from dispatcher.base.values.counts import counted
from dispatcher.cli.failures import FAILED
from dispatcher.cli.session import Session
from dispatcher.cli.terminal.console import Output

# The default of --tenant and --workspace, for their help.
UNNAMED = "`default` without it, and of a server what the key opens"

# As long as a server accepts.
REASON_CHARACTERS_MAX = 1_000
# No name and no key is longer.
FILTER_CHARACTERS_MAX = 255

Reason = Annotated[str, typer.Option(help="Why; it is kept.")]
Actor = Annotated[
    str | None, typer.Option(help="Who; $USER at this host without it. A server writes the name of the key instead.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


def who(session: Session, actor: str | None) -> str:
    """Return the actor, or raise BadParameter. A server takes the key's name instead: the actor is empty then."""
    found, fault = known_as(session, actor)
    _refuse("--actor", fault)
    return found


def known_as(session: Session, actor: str | None) -> tuple[str, str | None]:
    """Return the actor as the option or the system names it, and its fault."""
    if session.address is not None:
        return "", None if actor is None else "cannot be given to a server: it writes the name of the key"
    found = actor if actor is not None else f"{os.environ.get('USER') or 'unknown'}@{socket.gethostname()}"
    return found, words_fault(found)


def require_words(option: str, text: str) -> None:
    """Refuse what `words_fault` finds."""
    _refuse(option, words_fault(text))


def name_given(parameter: typer.CallbackParam, name: str) -> str:
    """Return the name that an argument is, which may not be blank."""
    require_words(parameter.metavar or "", name)
    return name


def require_text(option: str, text: str | None) -> None:
    """Refuse what `text_fault` finds."""
    _refuse(option, None if text is None else text_fault(text))


def require_reason(text: str) -> None:
    """Refuse what `reason_fault` finds."""
    _refuse("--reason", reason_fault(text))


def require_filter(option: str, text: str | None) -> None:
    """Refuse a filter that can match nothing, locally or on a server."""
    require_text(option, text)
    if text is not None and not 1 <= len(text) <= FILTER_CHARACTERS_MAX:
        _refuse(option, f"expected 1 to {FILTER_CHARACTERS_MAX} characters")


def one_of(words: Sequence[str]) -> Callable[[str | None], str | None]:
    """Return the callback of an argument or option whose value is among these words."""

    def read(text: str | None) -> str | None:
        if text is not None and text not in words:
            raise typer.BadParameter(f"expected one of {', '.join(words)}")
        return text

    return read


def words_fault(text: str) -> str | None:
    """Return the fault of a text that is stored for people: it may not be blank."""
    return text_fault(text) or (None if text.strip() else "is empty")


def reason_fault(text: str) -> str | None:
    """Return the fault of a reason, whose length is limited as over HTTP."""
    long = f"has more than {REASON_CHARACTERS_MAX} characters" if len(text) > REASON_CHARACTERS_MAX else None
    return words_fault(text) or long


def text_fault(text: str) -> str | None:
    """Return the fault of a text: arguments are bytes, and Postgres stores UTF-8 without NUL."""
    return "is not UTF-8" if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text) else None


def _refuse(option: str, fault: str | None) -> None:
    if fault is not None:
        raise typer.BadParameter(fault, param_hint=option)


def confirm(output: Output, yes: bool, count: int, sentence: str, of: str = "deliveries") -> None:
    """Show how many it would be, and exit unless the user confirms."""
    output.info(sentence)
    if yes:
        return
    if output.as_json or not sys.stdin.isatty():
        hint = "nothing was done: confirm with --yes"
        output.note(f"error: {hint}", {"error": "Unconfirmed", "message": f"{sentence}; {hint}", of: count})
        raise typer.Exit(FAILED)
    if not typer.confirm("Go on?", err=True):
        output.info("nothing was done")
        raise typer.Exit(FAILED)


def deliveries_in_words(count: int) -> str:
    """Return a count of deliveries for a sentence."""
    return counted(count, "delivery", "deliveries")


def second(at: datetime) -> str:
    """Return a time for people."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
