"""The `deliveries` commands: what became of deliveries, and what an operator may do to one."""

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, get_args

import msgspec
import typer

from dispatcher.cli.acting import Action, Named, act
from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import UNNAMED, Actor, Reason, require_filter
from dispatcher.cli.session import Session
from dispatcher.cli.voice import Voice
from dispatcher.domain.life import Status
from dispatcher.doors.nouns import Deliveries, DeliveryFilter, Row, Whose
from dispatcher.errors import Fault
from dispatcher.store.intake import instant

ID_MAX = 2**63 - 1
LIMIT_MAX = 10_000
LIVES = ("pending", "claimed", "sending", "held", "parked", *get_args(Status))
TRACE = ("attempts", "evidence", "receipts", "actions", "captured")
# In the order in which they are read.
FACTS = (
    "tenant_id",
    "workspace_id",
    "idempotency_key",
    "channel",
    "lane",
    "recipient",
    "template_name",
    "template_version",
    "locale",
    "template",
    "variables",
    "options",
    "topic",
    "run_id",
    "job_id",
    "scheduled_for",
    "expires_at",
    "created_at",
    "life",
    "status",
    "attempt",
    "max_attempts",
    "run_at",
    "finished_at",
    "provider_message_id",
    "error",
    "receipt",
    "token",
    "owner",
)

app = group(help="List and show deliveries; retry, cancel or move them.")

Id = Annotated[int, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Ids = Annotated[list[int], typer.Argument(min=1, max=ID_MAX, metavar="ID...")]
AnyIds = Annotated[list[int] | None, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Keys = Annotated[list[str] | None, typer.Option("--key", help="By its key; any number of times.")]
Tenant = Annotated[str | None, typer.Option(help=f"Whose the key is; {UNNAMED}.")]
Workspace = Annotated[str | None, typer.Option(help=f"In which workspace the key is; {UNNAMED}.")]


@command(app, "list")
def list_(
    session: Session,
    *,
    life: Annotated[str | None, typer.Option("--life", "--status", help=f"One of {', '.join(LIVES)}.")] = None,
    channel: Annotated[str | None, typer.Option(help="Of one channel.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Of one tenant.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 20,
    before: Annotated[int, typer.Option(min=1, max=ID_MAX, metavar="ID", help="Only older ones.")] = ID_MAX,
) -> None:
    """List the newest deliveries."""
    if life is not None and life not in LIVES:
        raise typer.BadParameter(f"expected one of {', '.join(LIVES)}", param_hint="--life")
    require_filter("--channel", channel)
    require_filter("--tenant", tenant)
    which = DeliveryFilter(life=life, channel=channel, tenant_id=tenant)
    with session.doors() as doors:
        found = session.run(lambda: doors.deliveries.listed(which, before, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
        return
    columns = ("id", "channel", "life", "tries", "due or ended", "to", "error")
    session.voice.table(columns, (_cells(row) for row in found))
    if len(found) == limit:
        session.voice.say(f"older ones: --before {found[-1]['id']}")


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    when = row["finished_at"] or row["run_at"]
    tries = f"{row['attempt']}/{row['max_attempts']}"
    return row["id"], row["channel"], row["life"], tries, f"{when:%Y-%m-%d %H:%M:%S}", row["recipient"], row["error"]


@command(app, "show")
def show(
    session: Session,
    delivery_id: Annotated[int | None, typer.Argument(min=1, max=ID_MAX, metavar="ID")] = None,
    key: Annotated[str | None, typer.Option(help="By its key instead.")] = None,
    tenant: Tenant = None,
    workspace: Workspace = None,
) -> None:
    """Show one delivery with everything that happened to it."""
    if (delivery_id is None) == (key is None):
        raise typer.BadParameter("name the delivery by its ID or by --key", param_hint="ID")
    for option, text in (("--key", key), ("--tenant", tenant), ("--workspace", workspace)):
        require_filter(option, text)
    with session.doors() as doors:
        if key is not None:
            delivery_id = session.run(lambda: doors.deliveries.find(Whose(tenant, workspace), [key])).get(key)
        found = None if delivery_id is None else session.run(lambda: doors.deliveries.show(delivery_id))
    show_found(session, found, f"delivery {delivery_id}" if key is None else f"delivery with the key {key}")


def show_found(session: Session, found: Row | None, named: str) -> None:
    """Show one that was asked for by a name, or say that there is none."""
    if found is None:
        session.voice.fail("NotFound", f"there is no {named}")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        session.voice.record(found)
    else:
        _show_all(session.voice, found)


@command(app, "mail")
def mail(session: Session, delivery_id: Id) -> None:
    """Write a captured mail to standard output, as a server would get it."""
    with session.doors() as doors:
        found = session.run(lambda: doors.deliveries.mail(delivery_id))
    if found is None:
        session.voice.fail("NotFound", f"no mail was captured of delivery {delivery_id}")
        raise typer.Exit(FAILED)
    session.voice.flush()
    sys.stdout.buffer.write(found)


def _show_all(voice: Voice, found: Mapping[str, Any]) -> None:
    facts = {name: found[name] for name in FACTS if found.get(name) is not None}
    voice.table(("delivery", str(found["id"])), ((name, _fact(value)) for name, value in facts.items()))
    for name in TRACE:
        rows = found[name]
        if rows:
            voice.text(f"\n{name}")
            voice.table(tuple(rows[0]), ([_fact(value) for value in row.values()] for row in rows))


def _fact(value: object) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S.%f %Z}"
        case msgspec.Raw():
            return bytes(value).decode()
        case _:
            return str(value)


@command(app, "retry")
def retry(session: Session, ids: Ids, reason: Reason, actor: Actor = None) -> None:
    """Send failed or skipped deliveries again, with all their attempts anew."""
    act(session, Action("retry", lambda noun, *said: noun.retry(*said)), Named(ids), reason, actor)


@command(app, "cancel")
def cancel(
    session: Session,
    reason: Reason,
    *,
    ids: AnyIds = None,
    keys: Keys = None,
    tenant: Tenant = None,
    workspace: Workspace = None,
    actor: Actor = None,
) -> None:
    """Cancel deliveries that are not with their provider yet, named by their IDs, by --key, or both."""
    named = Named(ids or [], keys or [], tenant, workspace)
    act(session, Action("cancel", lambda noun, *said: noun.cancel(*said)), named, reason, actor)


@command(app, "move")
def move(
    session: Session,
    at: Annotated[str, typer.Option(metavar="RFC3339", help="When they shall go out instead.")],
    reason: Reason,
    *,
    ids: AnyIds = None,
    keys: Keys = None,
    tenant: Tenant = None,
    workspace: Workspace = None,
    actor: Actor = None,
) -> None:
    """Move deliveries that are not with their provider yet to another time, named by their IDs, by --key, or both."""
    run_at, faults = _when(at)

    async def move_one(noun: Deliveries, delivery_id: int, who: str, reason: str) -> str:
        return await noun.move(delivery_id, run_at, who, reason)

    named = Named(ids or [], keys or [], tenant, workspace)
    act(session, Action("move", move_one, faults), named, reason, actor)


def _when(at: str) -> tuple[datetime, list[Fault]]:
    """The time; or any, and what is wrong with what was given."""
    try:
        return instant(at), []
    except ValueError as fault:
        return datetime.max, [Fault("--at", str(fault))]
