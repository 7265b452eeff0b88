"""The `pause`, `resume` and `pauses` commands: what is stopped, by whom and why."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

import typer

from channels.registry import PROVIDERS
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, Reason, require_words, second, who
from dispatcher.cli.session import Session
from dispatcher.cli.template_work import place
from dispatcher.config import Config
from dispatcher.store import pauses as store
from dispatcher.store.pauses import PLACED, SCOPES
from dispatcher.store.pauses import Scope as ScopeName
from dispatcher.store.templates import Workspace

# What the schema allows a tenant; a template's name is kept as short.
NAME_MAX = 100

Scope = Annotated[str, typer.Argument(metavar="|".join(SCOPES))]
Name = Annotated[str, typer.Argument(metavar="NAME")]
Tenant = Annotated[
    str | None, typer.Option(help="Only in a workspace of this tenant; a channel or template everywhere without it.")
]
InWorkspace = Annotated[str | None, typer.Option("--workspace", help="Only in this workspace.")]


def pause(
    session: Session,
    scope: Scope,
    name: Name,
    reason: Reason,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Stop a channel, provider, tenant, template or workspace.

    What is with its provider is finished, what waits keeps waiting, also through restarts, until it is resumed.
    """
    chosen = _scope(scope)
    _require_name(name)
    _require_known(session.config, chosen, name)
    where = _where(chosen, name, tenant, workspace)
    require_words("--reason", reason)
    by = who(session, actor)
    with session.database() as database:
        before = {row["id"] for row in session.run(lambda: store.listed(database))}
        pause_id = session.run(lambda: store.pause(database, chosen, name, by, reason, where)).id
        found = [row for row in session.run(lambda: store.listed(database)) if row["id"] == pause_id]
    what = _called(chosen, name, where)
    if not found:
        session.voice.fail("Resumed", f"{what} was paused, and somebody has resumed it since")
        raise typer.Exit(FAILED)
    row, already = found[0], pause_id in before
    if session.voice.as_json:
        session.voice.record(row | {"already": already})
    else:
        since = f" already, since {second(row['since'])}, by {row['actor']}: {row['reason']}" if already else ""
        session.voice.text(f"{what} is paused{since}")


def resume(
    session: Session,
    scope: Scope,
    name: Name,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Let a channel, provider, tenant, template or workspace go on."""
    chosen = _scope(scope)
    _require_name(name)
    where = _where(chosen, name, tenant, workspace)
    by = who(session, actor)
    with session.database() as database:
        of_scope = [row for row in session.run(lambda: store.listed(database)) if row["scope"] == chosen]
        others = sorted(_called(chosen, row["name"], _place(row)) for row in of_scope)
        # Resumed by ourselves, with the answer lost on the way, is resumed too.
        what = _called(chosen, name, where)
        resumed = session.run(lambda: store.resume(database, chosen, name, by, where)) or what in others
    if not resumed:
        paused = (
            f"paused: {', '.join(one.removeprefix(f'{chosen} ') for one in others)}" if others else f"no {chosen} is"
        )
        session.voice.fail("NotPaused", f"{what} is not paused; {paused}")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        place = {"tenant_id": where and where.tenant_id, "workspace_id": where and where.workspace_id}
        session.voice.record({"scope": chosen, "name": name, "resumed": True} | place)
    else:
        session.voice.text(f"{what} goes on")


def pauses(session: Session) -> None:
    """List what is paused: where, since when, by whom and why."""
    with session.database() as database:
        found = session.run(lambda: store.listed(database))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        session.voice.table(("what", "name", "where", "since", "by", "why"), (_cells(row) for row in found))
    else:
        session.voice.text("Nothing is paused.")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    place = _place(row)
    where = "everywhere" if place is None else f"{place.tenant_id}/{place.workspace_id}"
    return row["scope"], row["name"], where, second(row["since"]), row["actor"], row["reason"]


def _place(row: Mapping[str, Any]) -> Workspace | None:
    return None if row["tenant_id"] is None else Workspace(row["tenant_id"], row["workspace_id"])


def _called(scope: str, name: str, where: Workspace | None) -> str:
    """What is stopped, for a sentence."""
    if where is None:
        return f"{scope} {name}"
    return f"{scope} {name} of {where.tenant_id}" + ("" if scope == "workspace" else f"/{where.workspace_id}")


def _where(scope: ScopeName, name: str, tenant: str | None, workspace: str | None) -> Workspace | None:
    """The workspace in which it is stopped; None: everywhere."""
    if scope == "workspace":
        if workspace is not None:
            raise typer.BadParameter("NAME says which workspace it is", param_hint="--workspace")
        return place(tenant or "default", name).workspace
    if tenant is None and workspace is None:
        return None
    if scope not in PLACED:
        raise typer.BadParameter(f"a {scope} is paused everywhere", param_hint="--tenant, --workspace")
    return place(tenant or "default", workspace or "default").workspace


def _scope(text: str) -> ScopeName:
    for scope in SCOPES:
        if text == scope:
            return scope
    raise typer.BadParameter(f"expected one of {', '.join(SCOPES)}", param_hint="SCOPE")


def _require_name(name: str) -> None:
    require_words("NAME", name)
    if len(name) > NAME_MAX:
        raise typer.BadParameter(f"is longer than {NAME_MAX} characters", param_hint="NAME")


def _require_known(config: Config, scope: ScopeName, name: str) -> None:
    """A pause of what does not exist stops nothing, and whoever asked for it believes that it did."""
    known: Collection[str]
    match scope:
        case "channel":
            known = config.channels
        case "provider":
            known = PROVIDERS
        case "tenant" | "template" | "workspace":
            # Any may come to be.
            return
    if name not in known:
        raise typer.BadParameter(f"unknown {scope}; there are {', '.join(sorted(known))}", param_hint="NAME")
