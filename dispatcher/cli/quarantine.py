"""The `quarantine` command: hold what a restored database may have forgotten to have sent."""

from typing import Annotated

import typer

from dispatcher.cli.intake import instant
from dispatcher.cli.operating import Actor, Reason, Yes, confirm, deliveries_in_words, require_words, second, who
from dispatcher.cli.program import launcher
from dispatcher.cli.session import Session
from dispatcher.cli.slow import SlowSession
from dispatcher.store import held, settling


def quarantine(
    session: Session,
    before: Annotated[str, typer.Option(metavar="RFC3339", help="Those that were created before this.")],
    reason: Reason,
    actor: Actor = None,
    yes: Yes = False,
) -> None:
    """Hold everything that is due and was created before a time, until somebody says what became of it.

    For a database that was put back to an earlier state: it may have forgotten what it sent since. Says first how many
    deliveries that would be.
    """
    try:
        time = instant(before)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint="--before") from fault
    require_words("--reason", reason)
    by = who(actor)
    slow = SlowSession.of(session)
    with slow.database() as database:
        count = slow.run(lambda: settling.suspects(database, time))
        if count:
            words = f"{deliveries_in_words(count)} created before {second(time)} would be held"
            confirm(slow.voice, yes, count, words)
        held_now = slow.run(lambda: held.quarantine(database, time, by, reason)) if count else 0
    if slow.voice.as_json:
        slow.voice.record({"before": time, "held": held_now})
    elif not count:
        slow.voice.text(f"nothing that is due was created before {second(time)}")
    else:
        slow.voice.text(f"{deliveries_in_words(held_now)} held: see `{launcher()} held list`")
