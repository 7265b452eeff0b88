"""The `quiet-hours` commands."""

from typing import Annotated, Any

import typer

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.options import second
from dispatcher.cli.terminal.output import show_list, tell
from dispatcher.features.quiet_hours import endpoints
from dispatcher.features.quiet_hours.models import Period, QuietHours

app = group(help="Say when a workspace writes to nobody, in the time zones of recipients.")

Channel = Annotated[str, typer.Argument(metavar="CHANNEL|all")]
_FORM = '"21:00-08:00", or "sat,sun 00:00-24:00" for days on which it begins; any number of times.'


@command(app, "list")
def list_(caller: Caller) -> None:
    """List the quiet hours of a workspace."""
    columns = ("channel", "quiet", "windows", "version", "by", "at")
    found = caller.ask(endpoints.list_quiet_hours).quiet_hours
    show_list(caller, found, columns, _cells, "There are no quiet hours.")


@command(app, "put", acts=True)
def put(
    caller: Caller,
    channel: Channel,
    *,
    quiet: Annotated[list[str] | None, typer.Option(help=f"When nothing is sent: {_FORM}")] = None,
    window: Annotated[list[str] | None, typer.Option(help=f"When something is sent, alike: {_FORM}")] = None,
) -> None:
    """Save the quiet hours of a channel, or of all channels that have none of their own."""
    body = {"quiet": _periods("--quiet", quiet), "windows": _periods("--window", window)}
    made: QuietHours = caller.ask(endpoints.put_quiet_hours, channel, body=body)
    tell(caller, made, f"quiet hours of {made.channel}: {_words(made)}")


@command(app, "delete", acts=True)
def delete(caller: Caller, channel: Channel) -> None:
    """Delete the quiet hours of a channel, or those of all; what they have moved is due again."""
    tell(caller, caller.ask(endpoints.delete_quiet_hours, channel), f"{channel} has no quiet hours of its own any more")


def _periods(option: str, texts: list[str] | None) -> list[dict[str, Any]]:
    return [_period(option, text) for text in texts or ()]


def _period(option: str, text: str) -> dict[str, Any]:
    """Return a period as an endpoint takes it, which judges its hours and days."""
    days, _, hours = text.strip().rpartition(" ")
    opens, dash, closes = hours.partition("-")
    if not dash:
        raise typer.BadParameter(f"{text!r} is not a time of day: write {_FORM}", param_hint=option)
    return {"from": opens, "to": closes} | ({"days": days.replace(" ", "").split(",")} if days else {})


def _cells(row: QuietHours) -> tuple[object, ...]:
    return row.channel, _texts(row.quiet), _texts(row.windows), row.version, row.updated_by, second(row.updated_at)


def _words(row: QuietHours) -> str:
    parts = (("nothing is sent", row.quiet), ("only sent", row.windows))
    return "; ".join(f"{words} {_texts(periods)}" for words, periods in parts if periods)


def _texts(periods: list[Period]) -> str:
    return ", ".join(f"{' '.join((','.join(one.days or ()), f'{one.opens}-{one.closes}')).strip()}" for one in periods)
