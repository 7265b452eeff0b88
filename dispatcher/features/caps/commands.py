"""The `caps` commands: how many messages one recipient gets."""

from typing import Annotated

import typer

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.options import second
from dispatcher.cli.terminal.output import show_facts, show_list, tell
from dispatcher.features.caps import endpoints
from dispatcher.features.caps.models import Cap, DeletedCap, SavedCap

app = group(help="Limit how many messages one recipient gets in a period.")

Name = Annotated[str, typer.Argument(metavar="NAME")]


@command(app, "put", acts=True)
def put(
    caller: Caller,
    name: Name,
    *,
    messages: Annotated[int, typer.Option(help="The most that one recipient gets.")],
    period: Annotated[str, typer.Option(help="How long a message counts, such as 7d or 24h.")],
    channel: Annotated[list[str], typer.Option(help="A channel whose messages count; may be given several times.")],
    topic: Annotated[
        list[str] | None, typer.Option(help="Only messages with this topic; may be given several times.")
    ] = None,
) -> None:
    """Save a cap. Messages beyond it are skipped; transactional ones are exempt."""
    body = {"messages": messages, "period": period, "channels": channel, "topics": topic or []}
    saved: SavedCap = caller.ask(endpoints.put_cap, name, body=body)
    done = {"created": "is saved", "changed": "is changed", "same": "says this already"}[saved.answer]
    tell(caller, saved, f"cap {name} {done}: {saved.messages} in {saved.period}")


@command(app, "list")
def list_(caller: Caller) -> None:
    """List the caps of a workspace."""
    columns = ("name", "messages", "period", "channels", "topics", "since", "by")
    show_list(caller, caller.ask(endpoints.list_caps).caps, columns, _cells, "There are no caps.")


@command(app, "show")
def show(caller: Caller, name: Name) -> None:
    """Show a cap."""
    show_facts(caller, "cap", name, caller.ask(endpoints.get_cap, name))


@command(app, "delete", acts=True)
def delete(caller: Caller, name: Name) -> None:
    """Delete a cap. What it has skipped stays skipped."""
    gone: DeletedCap = caller.ask(endpoints.delete_cap, name)
    tell(caller, gone, f"cap {name} is deleted")


def _cells(row: Cap) -> tuple[object, ...]:
    about = ", ".join(row.topics) or "all"
    return row.name, row.messages, row.period, ", ".join(row.channels), about, second(row.updated_at), row.updated_by
