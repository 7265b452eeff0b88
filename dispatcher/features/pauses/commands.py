"""The `pause`, `resume` and `pauses` commands."""

from typing import Annotated, NoReturn

import typer

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import Reason, one_of, second
from dispatcher.cli.terminal.output import show_list, tell
from dispatcher.engine.rules.pauses import PLACED, SCOPES
from dispatcher.features.pauses import endpoints
from dispatcher.features.pauses.models import OpenedPause, Pause
from dispatcher.http.problems import NOT_FOUND, Problem

app = group(help="Pause and resume sending.")

Scope = Annotated[str, typer.Argument(metavar="|".join(SCOPES), callback=one_of(SCOPES))]
Name = Annotated[str, typer.Argument(metavar="NAME")]


@command(app, "pause", acts=True, spans=True, cells=True)
def pause(caller: Caller, scope: Scope, name: Name, reason: Reason) -> None:
    """Pause a channel, provider, tenant, template or workspace.

    A channel or template is paused everywhere, or only in the workspace that --tenant and --workspace name. What is
    with its provider is finished; what waits keeps waiting, also through restarts, until it is resumed.
    """
    body = {"scope": scope, "name": name, "reason": reason, "everywhere": _is_everywhere(caller, scope)}
    made: OpenedPause = caller.ask(endpoints.create_pause, body=body | _workspace(scope, name))
    since = f" already, since {second(made.since)}, by {made.actor}: {made.reason}" if made.already else ""
    tell(caller, made, f"{_title(made)} is paused{since}")


@command(app, "resume", acts=True, spans=True, cells=True)
def resume(caller: Caller, scope: Scope, name: Name, reason: Reason) -> None:
    """Resume a channel, provider, tenant, template or workspace."""
    everywhere = _is_everywhere(caller, scope)
    place = {"tenant_id": name} if scope == "tenant" else _workspace(scope, name)
    found: list[Pause] = caller.listed(endpoints.list_pauses, scope=scope, **place)
    row = next((one for one in found if (one.name, one.tenant_id is None) == (name, everywhere)), None)
    if row is None:
        _refuse(caller, scope, f"{scope} {name} is not paused" + ("" if everywhere else " there"))
    try:
        caller.ask(endpoints.resume_pause, row.id, body={"reason": reason})
    except Problem as problem:
        # Resumed meanwhile, perhaps by this command if its answer was lost.
        if problem.kind is not NOT_FOUND:
            raise
    where = {"tenant_id": row.tenant_id, "workspace_id": row.workspace_id}
    tell(caller, {"scope": scope, "name": name, "resumed": True} | where, f"{_title(row)} goes on")


@command(app, "pauses", spans=True, cells=True)
def pauses(caller: Caller) -> None:
    """List pauses: where, since when, by whom and why. A server lists those that concern the workspace of the key."""
    columns = ("what", "name", "where", "since", "by", "why")
    show_list(caller, caller.listed(endpoints.list_pauses), columns, _cells, "Nothing is paused.")


def _is_everywhere(caller: Caller, scope: str) -> bool:
    """Whether the pause is for all workspaces: if none is named, and always for scopes without workspaces."""
    named = caller.given.tenant is not None or caller.given.workspace is not None
    if scope == "workspace" and caller.given.workspace is not None:
        raise typer.BadParameter("goes with other scopes: here NAME is the workspace", param_hint="--workspace")
    if named and scope not in PLACED:
        raise typer.BadParameter(
            f"goes with other scopes: a {scope} is paused everywhere", param_hint="--tenant, --workspace"
        )
    return not named and scope != "workspace"


def _workspace(scope: str, name: str) -> dict[str, object]:
    """The workspace that NAME is, for the scope workspace."""
    return {"workspace_id": name} if scope == "workspace" else {}


def _refuse(caller: Caller, scope: str, words: str) -> NoReturn:
    """Fail, with the open pauses of the scope."""
    others = sorted(_title(one).removeprefix(f"{scope} ") for one in caller.listed(endpoints.list_pauses, scope=scope))
    caller.output.error("NotPaused", f"{words}; " + (f"paused: {', '.join(others)}" if others else f"no {scope} is"))
    raise typer.Exit(FAILED)


def _title(row: Pause) -> str:
    """The paused thing, for a sentence."""
    workspace = "" if row.scope == "workspace" else f"/{row.workspace_id}"
    return f"{row.scope} {row.name}" + ("" if row.tenant_id is None else f" of {row.tenant_id}{workspace}")


def _cells(row: Pause) -> tuple[object, ...]:
    where = "everywhere" if row.tenant_id is None else f"{row.tenant_id}/{row.workspace_id}"
    return row.scope.replace("_", " "), row.name, where, second(row.since), row.actor, row.reason
