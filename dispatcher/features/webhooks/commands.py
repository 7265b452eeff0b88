"""The `webhooks` commands: endpoints that receive events of deliveries, runs and campaigns."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from dispatcher.base.values.durations import DURATION_WORDS, duration
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.options import Reason, second
from dispatcher.cli.terminal.output import show_list, tell
from dispatcher.features.webhooks import endpoints
from dispatcher.features.webhooks.models import Webhook, WebhookAction, WebhookChanged, WebhookSecret
from dispatcher.features.webhooks.rules import EVENTS, OVERLAP_SECONDS_MAX, WILDCARDS, events_faults, is_name
from dispatcher.http.problems import Problem

app = group(help="Send events of deliveries, runs and campaigns to endpoints, in signed messages.")

_WANTED = ", ".join((*WILDCARDS, *EVENTS))

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the endpoint.")]


@command(app, "create", acts=True)
def create(
    caller: Caller,
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="Its URL: https://…")],
    reason: Reason,
    *,
    event: Annotated[list[str], typer.Option(help=f"A type of events, any number of times: {_WANTED}.")],
) -> None:
    """Create an endpoint. Its secret is shown only now."""
    body = {"name": _name(name), "url": url, "events": _events(event), "reason": reason}
    with _about_url("URL"):
        made: WebhookSecret = caller.ask(endpoints.create_webhook, body=body)
    _show_once(caller, made, f"endpoint {name}, signed with this secret")


@command(app, "change", acts=True)
def change(
    caller: Caller,
    name: Name,
    reason: Reason,
    *,
    url: Annotated[str | None, typer.Option(help="Its new URL.")] = None,
    event: Annotated[list[str] | None, typer.Option(help="All types of events, in place of those before.")] = None,
) -> None:
    """Change the URL or the events of an endpoint."""
    _change(caller, name, reason, {"url": url, "events": _events(event) if event else None})


@command(app, "enable", acts=True)
def enable(caller: Caller, name: Name, reason: Reason) -> None:
    """Enable an endpoint: it gets events from now on."""
    _change(caller, name, reason, {"enabled": True})


@command(app, "disable", acts=True)
def disable(caller: Caller, name: Name, reason: Reason) -> None:
    """Disable an endpoint. Deliveries that wait for it are skipped when they are due."""
    _change(caller, name, reason, {"enabled": False})


def _change(caller: Caller, name: str, reason: str, changes: dict[str, object]) -> None:
    """Change the given fields of an endpoint."""
    was: Webhook = caller.ask(endpoints.get_webhook, name)
    body = {"url": was.url, "events": was.events, "enabled": was.enabled, "reason": reason}
    given = {field: value for field, value in changes.items() if value is not None}
    with _about_url("--url"):
        done: WebhookChanged = caller.ask(endpoints.change_webhook, name, body=body | given)
    tell(caller, done, f"endpoint {name} {'is changed' if done.answer == 'changed' else 'is so already'}")


@command(app, "rotate", acts=True)
def rotate(
    caller: Caller,
    name: Name,
    reason: Reason,
    *,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old secret signs, too: 24h, 0s.")
    ] = "24h",
) -> None:
    """Give an endpoint another secret, shown only now. The old one signs beside it for a while."""
    seconds = duration(overlap)
    if seconds is None:
        raise typer.BadParameter(f"expected a duration: {DURATION_WORDS}", param_hint="--overlap")
    if seconds > OVERLAP_SECONDS_MAX:
        raise typer.BadParameter("is more than 90 days", param_hint="--overlap")
    body = {"overlap_seconds": seconds, "reason": reason}
    made: WebhookSecret = caller.ask(endpoints.rotate_webhook, name, body=body)
    old = f"the old one signs, too, for {overlap}" if seconds else "the old one does not sign any more"
    _show_once(caller, made, f"another secret of the endpoint {name}; {old}")


@command(app, "delete", acts=True)
def delete(caller: Caller, name: Name, reason: Reason) -> None:
    """Delete an endpoint. Deliveries that wait for it are skipped when they are due."""
    caller.ask(endpoints.delete_webhook, name, reason=reason)
    tell(caller, {"name": name, "deleted": True}, f"endpoint {name} is deleted")


@command(app, "list", limit=100)
def list_(caller: Caller) -> None:
    """List the endpoints of a workspace, without their secrets."""
    columns = ("name", "url", "wants to know", "state", "made")
    show_list(caller, caller.listed(endpoints.list_webhooks), columns, _cells, "There are no endpoints here.")


@command(app, "log", limit=100, after=False)
def log(caller: Caller, name: Name) -> None:
    """Show the actions on the endpoints of a name, with actor and reason."""
    found = caller.listed(endpoints.get_webhook_log, name)
    show_list(caller, found, ("at", "what", "by", "why"), _of_action, "")


def _cells(row: Webhook) -> tuple[object, ...]:
    state = "enabled" if row.enabled else "disabled"
    if row.old_secret_until:
        state += f"; old secret until {second(row.old_secret_until)}"
    return row.name, row.url, ", ".join(row.events), state, second(row.created_at)


def _of_action(one: WebhookAction) -> tuple[object, ...]:
    return second(one.at), one.action, one.actor, one.reason


def _show_once(caller: Caller, made: WebhookSecret, words: str) -> None:
    """Show a secret; it alone goes to standard output, so that it can be piped."""
    caller.output.info(f"{words}. It is shown only now:")
    tell(caller, made, made.secret)


def _name(name: str) -> str:
    if not is_name(name):
        raise typer.BadParameter("1 to 100 letters, digits and . _ -, a letter or digit first", param_hint="NAME")
    return name


def _events(given: list[str]) -> list[str]:
    events = list(dict.fromkeys(given))
    if faults := [fault.message for fault in events_faults(tuple(events))]:
        raise typer.BadParameter("; ".join(faults), param_hint="--event")
    return events


@contextmanager
def _about_url(hint: str) -> Iterator[None]:
    """Show faults of the URL, which only the endpoint can find, as wrong usage."""
    try:
        yield
    except Problem as problem:
        if not problem.faults or any(fault.path != "$.url" for fault in problem.faults):
            raise
        raise typer.BadParameter("; ".join(one.message for one in problem.faults), param_hint=hint) from problem
