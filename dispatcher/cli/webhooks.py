"""The `webhooks` commands: which endpoints are told what happens to deliveries and runs."""

from typing import Annotated, Any

import typer
from msgspec import structs

from dispatcher.cli.commands import command, group
from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.importing import require_name
from dispatcher.cli.operating import Actor, Reason, require_text, require_words, second, who
from dispatcher.cli.session import Session
from dispatcher.domain.plans.times import DURATION_WORDS, duration
from dispatcher.domain.webhooks import (
    CHANNEL,
    ENDPOINTS_MAX,
    EVENTS,
    OVERLAP_SECONDS_MAX,
    WILDCARDS,
    events_faults,
    is_name,
    url_fault,
)
from dispatcher.store import webhooks as store
from dispatcher.store.templates import Workspace
from dispatcher.store.webhooks import Endpoint, Refused

app = group(help="Let endpoints be told what happens to deliveries and runs, in signed messages.")

_WANTED = ", ".join((*WILDCARDS, *EVENTS))

Name = Annotated[str, typer.Argument(metavar="NAME", help="What it is called.")]
Tenant = Annotated[str, typer.Option(help="Whose it is.")]
InWorkspace = Annotated[str, typer.Option("--workspace", help="In which workspace.")]


@command(app, "create")
def create(
    session: Session,
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where it is: https://…")],
    reason: Reason,
    *,
    event: Annotated[list[str], typer.Option(help=f"What it wants to know, as often as needed: {_WANTED}.")],
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
    actor: Actor = None,
) -> None:
    """Make an endpoint. Its secret is shown now, and never again."""
    require_words("--reason", reason)
    whose, by = _workspace(tenant, workspace), who(session, actor)
    new = _sound(session, Endpoint(_name(name), url, tuple(dict.fromkeys(event)), enabled=True))
    with session.database() as database:
        made = session.run(lambda: store.create(database, whose, new, by, reason))
    if isinstance(made, Refused):
        words = {
            "taken": ("NameTaken", f"there is an endpoint {name}: change it, or take another name"),
            "full": ("Full", f"there are {ENDPOINTS_MAX} endpoints, and a workspace has no more"),
        }
        session.voice.fail(*words[made.why])
        raise typer.Exit(FAILED)
    _show_once(session, made, name, f"endpoint {name}, signed with this secret")


@command(app, "change")
def change(
    session: Session,
    name: Name,
    reason: Reason,
    *,
    url: Annotated[str | None, typer.Option(help="Where it is now.")] = None,
    event: Annotated[list[str] | None, typer.Option(help="What it wants to know now, all of it.")] = None,
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
    actor: Actor = None,
) -> None:
    """Let an endpoint be elsewhere, or want to know something else."""
    told = {"url": url, "events": tuple(dict.fromkeys(event)) if event else None}
    given = {key: value for key, value in told.items() if value is not None}
    _change(session, name, _workspace(tenant, workspace), given, (who(session, actor), reason))


@command(app, "enable")
def enable(
    session: Session,
    name: Name,
    reason: Reason,
    *,
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
    actor: Actor = None,
) -> None:
    """Let an endpoint be told what happens from now on."""
    _change(session, name, _workspace(tenant, workspace), {"enabled": True}, (who(session, actor), reason))


@command(app, "disable")
def disable(
    session: Session,
    name: Name,
    reason: Reason,
    *,
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
    actor: Actor = None,
) -> None:
    """Let an endpoint be told nothing. What waits for it is skipped when its time comes."""
    _change(session, name, _workspace(tenant, workspace), {"enabled": False}, (who(session, actor), reason))


def _change(session: Session, name: str, whose: Workspace, given: dict[str, Any], by: tuple[str, str]) -> None:
    """Change what is given of an endpoint; `by` says who, and why."""
    require_words("--reason", by[1])
    _name(name)
    with session.database() as database:
        was = session.run(lambda: store.show(database, whose, name))
        if was is None:
            raise _missing(session, name)
        new = Endpoint(name, was["url"], tuple(was["events"]), was["enabled"])
        sound = _sound(session, structs.replace(new, **given))
        answer = session.run(lambda: store.change(database, whose, sound, *by))
    if answer == "unknown":
        raise _missing(session, name)
    if session.voice.as_json:
        session.voice.record({"name": name, "answer": answer})
    else:
        session.voice.text(f"endpoint {name} " + ("is changed" if answer == "changed" else "is so already"))


@command(app, "rotate")
def rotate(
    session: Session,
    name: Name,
    reason: Reason,
    *,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old secret signs yet: 24h, 0s.")
    ] = "24h",
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
    actor: Actor = None,
) -> None:
    """Give an endpoint another secret, shown now and never again. The old one signs beside it for a while."""
    require_words("--reason", reason)
    seconds = duration(overlap)
    if seconds is None:
        raise typer.BadParameter(f"expected a duration: {DURATION_WORDS}", param_hint="--overlap")
    if seconds > OVERLAP_SECONDS_MAX:
        raise typer.BadParameter("is more than 90 days", param_hint="--overlap")
    whose, by = _workspace(tenant, workspace), who(session, actor)
    _name(name)
    with session.database() as database:
        made = session.run(lambda: store.rotate(database, whose, name, seconds, by, reason))
    if isinstance(made, Refused):
        raise _missing(session, name)
    old = f"the old one signs for {overlap} yet" if seconds else "the old one does not sign any more"
    _show_once(session, made, name, f"another secret of the endpoint {name}; {old}")


@command(app, "delete")
def delete(
    session: Session,
    name: Name,
    reason: Reason,
    *,
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
    actor: Actor = None,
) -> None:
    """Delete an endpoint. What waits for it is skipped when its time comes."""
    require_words("--reason", reason)
    whose, by = _workspace(tenant, workspace), who(session, actor)
    _name(name)
    with session.database() as database:
        done = session.run(lambda: store.delete(database, whose, name, by, reason))
    if not done:
        raise _missing(session, name)
    if session.voice.as_json:
        session.voice.record({"name": name, "deleted": True})
    else:
        session.voice.text(f"endpoint {name} is deleted")


@command(app, "list")
def list_(
    session: Session,
    *,
    after: Annotated[str, typer.Option(metavar="NAME", help="Begin behind this one.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
) -> None:
    """List the endpoints of a workspace; their secrets are not shown."""
    whose = _workspace(tenant, workspace)
    require_text("--after", after)
    with session.database() as database:
        found = session.run(lambda: store.listed(database, whose, after, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        session.voice.table(("name", "url", "wants to know", "state", "made"), map(_cells, found))
    else:
        session.voice.text("There are no endpoints here.")


@command(app, "log")
def log(
    session: Session,
    name: Name,
    *,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
) -> None:
    """Show who made, changed, rotated, disabled and deleted the endpoints of a name, and why."""
    whose = _workspace(tenant, workspace)
    _name(name)
    with session.database() as database:
        found = session.run(lambda: store.actions(database, whose, name, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        rows = ((second(row["at"]), row["action"], row["actor"], row["reason"]) for row in found)
        session.voice.table(("at", "what", "by", "why"), rows)
    else:
        session.voice.text(f"There was never an endpoint {name} here.")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    state = "enabled" if row["enabled"] else "disabled"
    if row["old_secret_until"]:
        state += f"; old secret until {second(row['old_secret_until'])}"
    return row["name"], row["url"], ", ".join(row["events"]), state, second(row["created_at"])


def _show_once(session: Session, secret: str, name: str, words: str) -> None:
    """The secret alone on standard output, so that it can be piped to where it is kept."""
    if session.voice.as_json:
        session.voice.record({"name": name, "secret": secret})
        return
    session.voice.say(f"{words}. It is shown only now:")
    session.voice.text(secret)


def _sound(session: Session, one: Endpoint) -> Endpoint:
    plain = bool(session.config.channels[CHANNEL].options.get("allow_addresses"))
    wrong = url_fault(one.url, plain=plain)
    if wrong is not None:
        raise typer.BadParameter(wrong, param_hint="URL")
    faults = [fault.message for fault in events_faults(one.events)]
    if faults:
        raise typer.BadParameter("; ".join(faults), param_hint="--event")
    return one


def _missing(session: Session, name: str) -> typer.Exit:
    session.voice.fail("NotFound", f"there is no endpoint {name}")
    return typer.Exit(FAILED)


def _workspace(tenant: str, workspace: str) -> Workspace:
    require_name("--tenant", tenant)
    require_name("--workspace", workspace)
    return Workspace(tenant, workspace)


def _name(name: str) -> str:
    if not is_name(name):
        words = "1 to 100 letters, digits and . _ -, a letter or digit first"
        raise typer.BadParameter(words, param_hint="NAME")
    return name
