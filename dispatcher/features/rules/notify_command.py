"""The `notify` command: tells an event to whom the rules say."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from msgspec import Raw

from dispatcher.cli.arguments import object_text, object_with_pairs
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.terminal.output import show_list
from dispatcher.features.rules import event_endpoints
from dispatcher.features.rules.models import Decision, Notified

Input = Annotated[str | None, typer.Option("--input", metavar="JSON|@FILE|-", help="The variables, as an object.")]
Var = Annotated[list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="More of them: JSON, else text.")]
Person = Annotated[str | None, typer.Option(metavar="JSON", help='Like {"name": "Ann", "email": "ann@example.org"}.')]
EventAt = Annotated[str | None, typer.Option(metavar="TIME", help="The time of the event, in RFC 3339.")]

app = group()


@command(app, "notify", acts=True)
def notify(  # noqa: PLR0913 - each is an option of the command line
    caller: Caller,
    trigger: Annotated[str, typer.Argument(metavar="TRIGGER")],
    *,
    data: Input = None,
    var: Var = None,
    lead: Person = None,
    partner: Person = None,
    agent: Person = None,
    event_at: EventAt = None,
    message_id: Annotated[str | None, typer.Option(help="Its key: the same one is handled once.")] = None,
    source: Annotated[str | None, typer.Option(help="Who tells it; message ids are its own.")] = None,
) -> None:
    """Tell an event to whom the rules say."""
    people = {"lead": lead, "partner": partner, "agent": agent}
    body = event_of(trigger, data, var, people, event_at)
    body |= {name: text for name, text in (("message_id", message_id), ("source", source)) if text is not None}
    found: Notified = caller.ask(event_endpoints.notify, body=body)
    if caller.output.as_json:
        caller.output.record(found)
    else:
        show_decisions(caller, found.decisions)


def event_of(
    trigger: str, data: str | None, var: list[str] | None, people: Mapping[str, str | None], event_at: str | None
) -> dict[str, Any]:
    """Return the body of an event, with what was given."""
    event: dict[str, Any] = {"trigger": trigger}
    if data is not None or var:
        event["variables"] = Raw(object_with_pairs("--input", data, "--var", var or []).encode())
    event |= {name: Raw(object_text(f"--{name}", text).encode()) for name, text in people.items() if text is not None}
    return event if event_at is None else event | {"event_at": event_at}


def show_decisions(caller: Caller, decisions: Sequence[Decision]) -> None:
    """Show what was decided for each channel and audience."""
    columns = ("channel", "audience", "decision", "deliveries", "reason")
    show_list(caller, decisions, columns, _cells, "No rule, and nothing in the catalogue.")


def _cells(one: Decision) -> tuple[object, ...]:
    ids = ", ".join(map(str, one.delivery_ids))
    decision = one.decision if one.decision == one.first_decision else f"{one.decision} ({one.first_decision})"
    return one.channel, one.audience, decision, ids, one.reason
