"""The `pause`, `resume` and `pauses` commands: what is stopped, by whom and why."""

from collections.abc import Collection
from typing import Annotated, Any

import typer

from channels.registry import PROVIDERS
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, Reason, require_words, second, who
from dispatcher.cli.session import Session
from dispatcher.config import Config
from dispatcher.store import pauses as store
from dispatcher.store.pauses import SCOPES
from dispatcher.store.pauses import Scope as ScopeName

# What the schema allows a tenant; a template's name is kept as short.
NAME_MAX = 100

Scope = Annotated[str, typer.Argument(metavar="|".join(SCOPES))]
Name = Annotated[str, typer.Argument(metavar="NAME")]


def pause(session: Session, scope: Scope, name: Name, reason: Reason, actor: Actor = None) -> None:
    """Stop a channel, provider, tenant or template.

    What is with its provider is finished, what waits keeps waiting, also through restarts, until it is resumed.
    """
    chosen = _scope(scope)
    _require_name(name)
    _require_known(session.config, chosen, name)
    require_words("--reason", reason)
    by = who(session, actor)
    with session.database() as database:
        before = {row["id"] for row in session.run(lambda: store.listed(database))}
        pause_id = session.run(lambda: store.pause(database, chosen, name, by, reason))
        found = [row for row in session.run(lambda: store.listed(database)) if row["id"] == pause_id]
    if not found:
        session.voice.fail("Resumed", f"{chosen} {name} was paused, and somebody has resumed it since")
        raise typer.Exit(FAILED)
    row, already = found[0], pause_id in before
    if session.voice.as_json:
        session.voice.record(row | {"already": already})
    else:
        since = f" already, since {second(row['since'])}, by {row['actor']}: {row['reason']}" if already else ""
        session.voice.text(f"{chosen} {name} is paused{since}")


def resume(session: Session, scope: Scope, name: Name, actor: Actor = None) -> None:
    """Let a channel, provider, tenant or template go on."""
    chosen = _scope(scope)
    _require_name(name)
    by = who(session, actor)
    with session.database() as database:
        others = sorted(row["name"] for row in session.run(lambda: store.listed(database)) if row["scope"] == chosen)
        # Resumed by ourselves, with the answer lost on the way, is resumed too.
        resumed = session.run(lambda: store.resume(database, chosen, name, by)) or name in others
    if not resumed:
        paused = f"paused: {', '.join(others)}" if others else f"no {chosen} is"
        session.voice.fail("NotPaused", f"{chosen} {name} is not paused; {paused}")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        session.voice.record({"scope": chosen, "name": name, "resumed": True})
    else:
        session.voice.text(f"{chosen} {name} goes on")


def pauses(session: Session) -> None:
    """List what is paused: since when, by whom and why."""
    with session.database() as database:
        found = session.run(lambda: store.listed(database))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        session.voice.table(("what", "name", "since", "by", "why"), (_cells(row) for row in found))
    else:
        session.voice.text("Nothing is paused.")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    return row["scope"], row["name"], second(row["since"]), row["actor"], row["reason"]


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
        case "tenant" | "template":
            # Any may come to be.
            return
    if name not in known:
        raise typer.BadParameter(f"unknown {scope}; there are {', '.join(sorted(known))}", param_hint="NAME")
