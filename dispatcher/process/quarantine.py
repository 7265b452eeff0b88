"""The `quarantine` command: hold what a restored database may have forgotten to have sent."""

from typing import Annotated

import typer

from dispatcher.base.values.counts import counted
from dispatcher.base.values.durations import instant
from dispatcher.cli.options import Actor, Reason, Yes, confirm, deliveries_in_words, require_words, second, who
from dispatcher.cli.session import Session
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.cli.terminal.output import tell
from dispatcher.engine.store import held
from dispatcher.engine.store.held import QuarantineCounts


def quarantine(
    session: Session,
    before: Annotated[str, typer.Option(metavar="RFC3339", help="Those that were created before this.")],
    reason: Reason,
    actor: Actor = None,
    yes: Yes = False,
) -> None:
    """Hold everything that is due and was created before a time, until somebody says what became of it.

    For a database that was put back to an earlier state: it may have forgotten what it sent since. Runs of workflows
    and of campaigns that may have come further are paused. Says first how many deliveries and runs that would be.
    """
    session.require_local()
    try:
        time = instant(before)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint="--before") from fault
    require_words("--reason", reason)
    by = who(session, actor)
    with session.database(slow=True) as database:
        found = session.run(lambda: held.to_quarantine(database, time))
        count = found.deliveries + found.runs + found.campaign_runs
        if count:
            confirm(session.output, yes, count, _in_words(found, f"created before {second(time)} would be "))
            found = session.run(lambda: held.quarantine(database, time, by, reason))
    places = [f"`{launcher()} held list`"] * bool(found.deliveries)
    places += [f"`{launcher()} runs list --status paused`"] * bool(found.runs)
    places += [f"`{launcher()} campaigns runs`"] * bool(found.campaign_runs)
    text = _in_words(found) + (f": see {' and '.join(places)}" if places else "")
    record = {
        "before": time,
        "held": found.deliveries,
        "paused_runs": found.runs,
        "paused_campaign_runs": found.campaign_runs,
    }
    tell(session, record, text if count else f"nothing that is due was created before {second(time)}")


def _in_words(found: QuarantineCounts, about: str = "") -> str:
    """Return all counts that are not zero, or that of deliveries."""
    runs = found.runs + found.campaign_runs
    words = [f"{deliveries_in_words(found.deliveries)} {about}held"] * bool(found.deliveries or not runs)
    for count, noun in ((found.runs, "run"), (found.campaign_runs, "campaign run")):
        words += [f"{counted(count, noun)} {'' if words else about}paused"] * bool(count)
    return ", ".join(words)
