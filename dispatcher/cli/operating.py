"""Operating: who acts and why, and whether they mean it."""

import os
import socket
import sys
from datetime import datetime
from typing import Annotated

import typer

from dispatcher.cli.failures import FAILED
from dispatcher.cli.voice import Voice

Reason = Annotated[str, typer.Option(help="Why; it is kept.")]
Actor = Annotated[str | None, typer.Option(help="Who; $USER at this host without it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


def who(actor: str | None) -> str:
    """Who acts: as they say, or as the system knows them."""
    found = actor if actor is not None else f"{os.environ.get('USER') or 'unknown'}@{socket.gethostname()}"
    require_words("--actor", found)
    return found


def require_words(option: str, text: str) -> None:
    """What is kept for others to read has to say something."""
    require_text(option, text)
    if not text.strip():
        raise typer.BadParameter("is empty", param_hint=option)


def require_text(option: str, text: str | None) -> None:
    """Arguments are bytes to the system: what Postgres cannot keep is refused here."""
    if text is not None and ("\0" in text or any("\ud800" <= c <= "\udfff" for c in text)):
        raise typer.BadParameter("is not UTF-8", param_hint=option)


def confirm(voice: Voice, yes: bool, count: int, sentence: str) -> None:
    """Say how many it would be, and go on only when somebody means it."""
    voice.say(sentence)
    if yes:
        return
    if voice.as_json or not sys.stdin.isatty():
        message = f"{sentence}; nothing was done: confirm with --yes"
        voice.note(
            "error: nothing was done: confirm with --yes",
            {"error": "Unconfirmed", "message": message, "deliveries": count},
        )
        raise typer.Exit(FAILED)
    if not typer.confirm("Go on?", err=True):
        voice.say("nothing was done")
        raise typer.Exit(FAILED)


def deliveries_in_words(count: int) -> str:
    """How many, for a sentence."""
    return f"{count:,} {'delivery' if count == 1 else 'deliveries'}"


def second(at: datetime) -> str:
    """A time as people read it."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
