"""The `webhooks` commands: which endpoints are told what happens to deliveries and runs."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from dispatcher.cli.commands import command, group
from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, Reason, require_reason, second, who
from dispatcher.cli.session import Session
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.domain.plans.times import DURATION_WORDS, duration
from dispatcher.domain.webhooks import (
    ENDPOINTS_MAX,
    EVENTS,
    OVERLAP_SECONDS_MAX,
    WILDCARDS,
    events_faults,
    is_name,
)
from dispatcher.doors.attached import Changes
from dispatcher.doors.nouns import Whose
from dispatcher.errors import WebhookRefused
from dispatcher.store.webhooks import Endpoint, Refused

app = group(help="Let endpoints be told what happens to deliveries and runs, in signed messages.")

T = TypeVar("T")
_WANTED = ", ".join((*WILDCARDS, *EVENTS))

Name = Annotated[str, typer.Argument(metavar="NAME", help="What it is called.")]


@command(app, "create")
def create(
    session: Session,
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where it is: https://…")],
    reason: Reason,
    *,
    event: Annotated[list[str], typer.Option(help=f"What it wants to know, as often as needed: {_WANTED}.")],
    tenant: Tenant = None,
    workspace: InWorkspace = None,
    actor: Actor = None,
) -> None:
    """Make an endpoint. Its secret is shown now, and never again."""
    require_reason(reason)
    whose, by = place(tenant, workspace), who(session, actor)
    new = Endpoint(_name(name), url, _events(event), enabled=True)
    with session.doors() as doors:
        made = _sound("URL", lambda: session.run(lambda: doors.webhooks.create(whose, new, by, reason)))
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
    tenant: Tenant = None,
    workspace: InWorkspace = None,
    actor: Actor = None,
) -> None:
    """Let an endpoint be elsewhere, or want to know something else."""
    changes = Changes(url=url, events=_events(event) if event else None)
    _change(session, name, place(tenant, workspace), changes, (who(session, actor), reason))


@command(app, "enable")
def enable(
    session: Session,
    name: Name,
    reason: Reason,
    *,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
    actor: Actor = None,
) -> None:
    """Let an endpoint be told what happens from now on."""
    _change(session, name, place(tenant, workspace), Changes(enabled=True), (who(session, actor), reason))


@command(app, "disable")
def disable(
    session: Session,
    name: Name,
    reason: Reason,
    *,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
    actor: Actor = None,
) -> None:
    """Let an endpoint be told nothing. What waits for it is skipped when its time comes."""
    _change(session, name, place(tenant, workspace), Changes(enabled=False), (who(session, actor), reason))


def _change(session: Session, name: str, whose: Whose, changes: Changes, by: tuple[str, str]) -> None:
    """Change what is given of an endpoint; `by` says who, and why."""
    require_reason(by[1])
    _name(name)
    with session.doors() as doors:
        answer = _sound("--url", lambda: session.run(lambda: doors.webhooks.change(whose, name, changes, *by)))
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
    tenant: Tenant = None,
    workspace: InWorkspace = None,
    actor: Actor = None,
) -> None:
    """Give an endpoint another secret, shown now and never again. The old one signs beside it for a while."""
    require_reason(reason)
    seconds = duration(overlap)
    if seconds is None:
        raise typer.BadParameter(f"expected a duration: {DURATION_WORDS}", param_hint="--overlap")
    if seconds > OVERLAP_SECONDS_MAX:
        raise typer.BadParameter("is more than 90 days", param_hint="--overlap")
    whose, by = place(tenant, workspace), who(session, actor)
    _name(name)
    with session.doors() as doors:
        made = session.run(lambda: doors.webhooks.rotate(whose, name, seconds, by, reason))
    if made is None:
        raise _missing(session, name)
    old = f"the old one signs for {overlap} yet" if seconds else "the old one does not sign any more"
    _show_once(session, made, name, f"another secret of the endpoint {name}; {old}")


@command(app, "delete")
def delete(
    session: Session,
    name: Name,
    reason: Reason,
    *,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
    actor: Actor = None,
) -> None:
    """Delete an endpoint. What waits for it is skipped when its time comes."""
    require_reason(reason)
    whose, by = place(tenant, workspace), who(session, actor)
    _name(name)
    with session.doors() as doors:
        done = session.run(lambda: doors.webhooks.delete(whose, name, by, reason))
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
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """List the endpoints of a workspace; their secrets are not shown."""
    whose = place(tenant, workspace)
    if after:
        _name(after, "--after")
    with session.doors() as doors:
        found = session.run(lambda: doors.webhooks.listed(whose, after, limit))
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
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Show who made, changed, rotated, disabled and deleted the endpoints of a name, and why."""
    whose = place(tenant, workspace)
    _name(name)
    with session.doors() as doors:
        found = session.run(lambda: doors.webhooks.actions(whose, name, limit))
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


def _sound(hint: str, done: Callable[[], T]) -> T:
    """What is done, or what is wrong with the address of an endpoint, which only who is to tell it knows."""
    try:
        return done()
    except WebhookRefused as refused:
        raise typer.BadParameter("; ".join(fault.message for fault in refused.faults), param_hint=hint) from refused


def _events(given: list[str]) -> tuple[str, ...]:
    events = tuple(dict.fromkeys(given))
    faults = [fault.message for fault in events_faults(events)]
    if faults:
        raise typer.BadParameter("; ".join(faults), param_hint="--event")
    return events


def _missing(session: Session, name: str) -> typer.Exit:
    session.voice.fail("NotFound", f"there is no endpoint {name}")
    return typer.Exit(FAILED)


def _name(name: str, hint: str = "NAME") -> str:
    if not is_name(name):
        words = "1 to 100 letters, digits and . _ -, a letter or digit first"
        raise typer.BadParameter(words, param_hint=hint)
    return name
