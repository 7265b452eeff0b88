"""The `pause`, `resume` and `pauses` commands: what is stopped, by whom and why."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

import typer

from channels.registry import PROVIDERS
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, Reason, require_reason, require_words, second, who
from dispatcher.cli.session import Session
from dispatcher.cli.template_work import place
from dispatcher.cli.voice import plain
from dispatcher.config import Config
from dispatcher.doors.kept import Pauses
from dispatcher.doors.nouns import Whose
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
    if session.address is None:
        # A server knows its own channels.
        _require_known(session.config, chosen, name)
    asked = _asked(chosen, name, tenant, workspace)
    require_reason(reason)
    by = who(session, actor)
    with session.doors() as doors:
        where = _where(session, doors.pauses, asked)
        # What an answer that was lost has stopped was not stopped before.
        before = {row["id"] for row in session.run(lambda: doors.pauses.listed(where))}
        row = session.run(lambda: doors.pauses.pause(chosen, name, where, by, reason))
    what = _called(chosen, name, where)
    if row is None:
        session.voice.fail("Resumed", f"{what} was paused, and somebody has resumed it since")
        raise typer.Exit(FAILED)
    already = row["id"] in before
    if session.voice.as_json:
        session.voice.record(row | {"already": already})
    else:
        since = f" already, since {second(row['since'])}, by {row['actor']}: {row['reason']}" if already else ""
        session.voice.text(plain(f"{what} is paused{since}"))


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
    asked = _asked(chosen, name, tenant, workspace)
    by = who(session, actor)
    with session.doors() as doors:
        where = _where(session, doors.pauses, asked)
        of_scope = [row for row in session.run(lambda: doors.pauses.listed(where)) if row["scope"] == chosen]
        others = sorted(_called(chosen, row["name"], _place(row)) for row in of_scope)
        # Resumed by ourselves, with the answer lost on the way, is resumed too.
        what = _called(chosen, name, where)
        resumed = session.run(lambda: doors.pauses.resume(chosen, name, where, by)) or what in others
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
        session.voice.text(plain(f"{what} goes on"))


def pauses(session: Session) -> None:
    """List what is paused: where, since when, by whom and why. A server lists what stops anything for its key."""
    with session.doors() as doors:
        found = session.run(lambda: doors.pauses.listed(None))
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


def _where(session: Session, pauses: Pauses, asked: Whose | None) -> Workspace | None:
    """The workspace in which it is stopped; None: everywhere."""
    return None if asked is None else session.run(lambda: pauses.place(asked))


def _asked(scope: ScopeName, name: str, tenant: str | None, workspace: str | None) -> Whose | None:
    """What the options name of it."""
    if scope == "workspace":
        if workspace is not None:
            raise typer.BadParameter("NAME says which workspace it is", param_hint="--workspace")
        return place(tenant, name)
    if tenant is None and workspace is None:
        return None
    if scope not in PLACED:
        raise typer.BadParameter(f"a {scope} is paused everywhere", param_hint="--tenant, --workspace")
    return place(tenant, workspace)


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
