"""The `settings` commands: the phone region and the time zone of a workspace."""

from typing import Annotated

import typer

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.terminal.output import tell
from dispatcher.features.workspaces import endpoints
from dispatcher.features.workspaces.models import Settings

app = group(help="Show and save the phone region and the time zone of a workspace.")


@command(app, "show")
def show(caller: Caller) -> None:
    """Show the settings of a workspace."""
    _tell(caller, caller.ask(endpoints.get_settings))


@command(app, "put", acts=True)
def put(
    caller: Caller,
    *,
    phone_region: Annotated[
        str | None, typer.Option(help="Whose phone numbers those without + or 00 are, such as DE; none without it.")
    ] = None,
    time_zone: Annotated[str, typer.Option(help="Like Europe/Berlin.")] = "UTC",
) -> None:
    """Save the settings of a workspace; what is left out has its default."""
    body = {"phone_region": phone_region, "time_zone": time_zone}
    _tell(caller, caller.ask(endpoints.put_settings, body=body))


def _tell(caller: Caller, found: Settings) -> None:
    tell(caller, found, f"phone region {found.phone_region or 'none'}, time zone {found.time_zone}")
