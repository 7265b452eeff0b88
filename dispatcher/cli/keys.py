"""The `keys` commands: who may use the HTTP door, and for what."""

import re
from datetime import datetime
from typing import Annotated, Any

import typer

from dispatcher.cli.commands import command, group
from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.importing import require_name
from dispatcher.cli.operating import UNNAMED, Actor, Reason, require_reason, second, who
from dispatcher.cli.session import Session
from dispatcher.domain.bearer import KEY_NAME, Bearer
from dispatcher.domain.plans.times import DURATION_WORDS, duration
from dispatcher.domain.roles import MATRIX, Role
from dispatcher.doors.nouns import Whose
from dispatcher.store.intake import instant

app = group(help="Make, list, rotate and revoke the keys of the HTTP door.")

_NAME = re.compile(KEY_NAME)
# An old secret that is good for longer is not rotated, but shared.
OVERLAP_SECONDS_MAX = 90 * 86_400

Name = Annotated[str, typer.Argument(metavar="NAME", help="What it is called: whose it is, or what uses it.")]
Tenant = Annotated[str | None, typer.Option(help=f"Which tenant it opens; {UNNAMED}.")]
InWorkspace = Annotated[str | None, typer.Option("--workspace", help=f"Which of its workspaces; {UNNAMED}.")]


@command(app, "create")
def create(
    session: Session,
    name: Name,
    role: Annotated[Role, typer.Option(help="What it is good for.")],
    reason: Reason,
    *,
    expires_at: Annotated[str | None, typer.Option(metavar="RFC3339", help="When it ends; never without it.")] = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
    actor: Actor = None,
) -> None:
    """Make a key. Its secret is shown now, and never again."""
    _require_name(name)
    require_reason(reason)
    whose, by = _workspace(tenant, workspace), who(session, actor)
    end = None if expires_at is None else _instant("--expires-at", expires_at)
    with session.doors() as doors:
        if end is not None and session.run(lambda: doors.keys.is_over(end)):
            raise typer.BadParameter("is over already", param_hint="--expires-at")
        made = session.run(lambda: doors.keys.create(whose, name, role, end, by, reason))
    if made is None:
        session.voice.fail("NameTaken", f"there is a key {name}: rotate or revoke it, or take another name")
        raise typer.Exit(FAILED)
    rights = ", ".join(sorted(MATRIX[role]))
    _show_once(session, made, {"name": name, "role": role.value}, f"key {name} ({role.value}: {rights})")


@command(app, "rotate")
def rotate(
    session: Session,
    name: Name,
    reason: Reason,
    *,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old secret is good yet: 24h, 0s.")
    ] = "24h",
    tenant: Tenant = None,
    workspace: InWorkspace = None,
    actor: Actor = None,
) -> None:
    """Give a key another secret, shown now and never again. The old one stays good for a while, no older one does."""
    require_reason(reason)
    seconds = _overlap(overlap)
    whose, by = _workspace(tenant, workspace), who(session, actor)
    with session.doors() as doors:
        made = session.run(lambda: doors.keys.rotate(whose, name, seconds, by, reason))
    if isinstance(made, str):
        raise _refused(session, name, made)
    old = f"the old one is good for {overlap} yet" if seconds else "the old one is not good any more"
    _show_once(session, made, {"name": name}, f"another secret of the key {name}; {old}")


@command(app, "revoke")
def revoke(
    session: Session,
    name: Name,
    reason: Reason,
    *,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
    actor: Actor = None,
) -> None:
    """Take a key back: within a second nothing is done for it any more."""
    require_reason(reason)
    whose, by = _workspace(tenant, workspace), who(session, actor)
    with session.doors() as doors:
        done = session.run(lambda: doors.keys.revoke(whose, name, by, reason))
    if not done:
        raise _refused(session, name, "unknown")
    if session.voice.as_json:
        session.voice.record({"name": name, "revoked": True})
    else:
        session.voice.text(f"key {name} is revoked")


@command(app, "list")
def list_(
    session: Session,
    *,
    after: Annotated[str, typer.Option(metavar="NAME", help="Begin behind this one.")] = "",
    revoked: Annotated[bool, typer.Option("--revoked", help="Also those that were revoked.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """List the keys of a workspace; their secrets are nowhere."""
    whose = _workspace(tenant, workspace)
    if after:
        _require_name(after, "--after")
    with session.doors() as doors:
        found = session.run(lambda: doors.keys.listed(whose, after, limit, revoked=revoked))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        columns = ("name", "role", "state", "begins with", "made", "last used", "ends")
        session.voice.table(columns, map(_cells, found))
        if len(found) == limit:
            session.voice.say(f"more: --after {found[-1]['name']}")
    else:
        session.voice.text("There are no keys here.")


@command(app, "log")
def log(
    session: Session,
    name: Name,
    *,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Show who made, rotated and revoked the keys of a name, and why."""
    whose = _workspace(tenant, workspace)
    _require_name(name)
    with session.doors() as doors:
        found = session.run(lambda: doors.keys.actions(whose, name, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        columns = ("at", "what", "by", "secret", "why")
        rows = ((second(row["at"]), row["action"], row["actor"], row["prefix"], row["reason"]) for row in found)
        session.voice.table(columns, rows)
    else:
        session.voice.text(f"There was never a key {name} here.")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    def at(name: str) -> str:
        return second(row[name]) if row[name] else ""

    state = f"{row['state']}; old secret until {at('old_secret_until')}" if row["old_secret_until"] else row["state"]
    ends = at("revoked_at") or at("expires_at") or "never"
    return row["name"], row["role"], state, ", ".join(row["prefixes"]), at("created_at"), at("last_used_at"), ends


def _show_once(session: Session, made: Bearer, facts: dict[str, str], words: str) -> None:
    """The secret alone on standard output, so that it can be piped to where it is kept."""
    if session.voice.as_json:
        session.voice.record(facts | {"prefix": made.prefix, "key": made.text})
        return
    session.voice.say(f"{words}. It is shown only now:")
    session.voice.text(made.text)


def _refused(session: Session, name: str, answer: str) -> typer.Exit:
    words = {"unknown": f"there is no key {name}", "expired": f"the key {name} has expired: make another one"}[answer]
    session.voice.fail("NotFound" if answer == "unknown" else "Expired", words)
    return typer.Exit(FAILED)


def _workspace(tenant: str | None, workspace: str | None) -> Whose:
    for option, given in (("--tenant", tenant), ("--workspace", workspace)):
        if given is not None:
            require_name(option, given)
    return Whose(tenant, workspace)


def _require_name(name: str, hint: str = "NAME") -> None:
    if not _NAME.fullmatch(name):
        words = "1 to 100 letters, digits and . _ @ / -, a letter or digit first"
        raise typer.BadParameter(words, param_hint=hint)


def _instant(option: str, text: str) -> datetime:
    try:
        return instant(text)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint=option) from fault


def _overlap(text: str) -> float:
    found = duration(text)
    if found is None:
        raise typer.BadParameter(f"expected a duration: {DURATION_WORDS}", param_hint="--overlap")
    if found > OVERLAP_SECONDS_MAX:
        raise typer.BadParameter("is more than 90 days", param_hint="--overlap")
    return found
