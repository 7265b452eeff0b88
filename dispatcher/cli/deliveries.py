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
from dispatcher.cli.operating import Actor, Reason, require_text
from dispatcher.cli.session import Session
from dispatcher.cli.voice import Voice
from dispatcher.domain.life import Lane, Status
from dispatcher.errors import Fault
from dispatcher.store import deliveries as store
from dispatcher.store.database import Database
from dispatcher.store.intake import instant

ID_MAX = 2**63 - 1
LIMIT_MAX = 10_000
LIVES = ("pending", "claimed", "sending", "held", "parked", *get_args(Status))
TRACE = ("attempts", "evidence", "receipts", "actions", "captured")
DOCUMENTS = ("template", "variables", "options", "parts")

app = group(help="List and show deliveries; retry, cancel or move them.")

Id = Annotated[int, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Ids = Annotated[list[int], typer.Argument(min=1, max=ID_MAX, metavar="ID...")]
AnyIds = Annotated[list[int] | None, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Keys = Annotated[list[str] | None, typer.Option("--key", help="By its key; any number of times.")]
Tenant = Annotated[str, typer.Option(help="Whose the key is.")]
Workspace = Annotated[str, typer.Option(help="In which workspace the key is.")]


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
    require_text("--channel", channel)
    require_text("--tenant", tenant)
    with session.database() as database:
        found = session.run(lambda: store.listed(database, before, limit, life=life, channel=channel, tenant_id=tenant))
    if session.voice.as_json:
        for row in found:
            session.voice.record(readable(row))
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
    tenant: Tenant = "default",
    workspace: Workspace = "default",
) -> None:
    """Show one delivery with everything that happened to it."""
    if (delivery_id is None) == (key is None):
        raise typer.BadParameter("name the delivery by its ID or by --key", param_hint="ID")
    for option, text in (("--key", key), ("--tenant", tenant), ("--workspace", workspace)):
        require_text(option, text)
    with session.database() as database:
        if key is not None:
            delivery_id = session.run(lambda: store.find(database, tenant, workspace, key))
        found = None if delivery_id is None else session.run(lambda: _whole(database, delivery_id))
    if found is None:
        named = f"delivery {delivery_id}" if key is None else f"delivery with the key {key}"
        session.voice.fail("NotFound", f"there is no {named}")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        session.voice.record(readable(found))
    else:
        _show_all(session.voice, found)


async def _whole(database: Database, delivery_id: int) -> dict[str, Any] | None:
    found = await store.show(database, delivery_id)
    return None if found is None else found | await store.claimed(database, delivery_id)


@command(app, "mail")
def mail(session: Session, delivery_id: Id) -> None:
    """Write a captured mail to standard output, as a server would get it."""
    with session.database() as database:
        found = session.run(lambda: store.raw(database, delivery_id))
    if found is None:
        session.voice.fail("NotFound", f"no mail was captured of delivery {delivery_id}")
        raise typer.Exit(FAILED)
    session.voice.flush()
    sys.stdout.buffer.write(found)


def _show_all(voice: Voice, found: Mapping[str, Any]) -> None:
    facts = {name: value for name, value in readable(found).items() if name not in TRACE and value is not None}
    voice.table(("delivery", str(found["id"])), ((name, _fact(value)) for name, value in facts.items() if name != "id"))
    for name in TRACE:
        rows = [readable(row) for row in found[name]]
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


def readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as JSON shows it: lanes by name, documents as what they are and not as text about it."""
    shown = dict(row)
    for name, value in row.items():
        if name == "lane":
            shown[name] = Lane(value).name.lower()
        elif name in DOCUMENTS and isinstance(value, str):
            shown[name] = msgspec.Raw(value.encode())
        elif name in TRACE:
            shown[name] = [readable(inner) for inner in value]
    return shown


@command(app, "retry")
def retry(session: Session, ids: Ids, reason: Reason, actor: Actor = None) -> None:
    """Send failed or skipped deliveries again, with all their attempts anew."""
    act(session, Action("retry", store.reopen), Named(ids), reason, actor)


@command(app, "cancel")
def cancel(
    session: Session,
    reason: Reason,
    *,
    ids: AnyIds = None,
    keys: Keys = None,
    tenant: Tenant = "default",
    workspace: Workspace = "default",
    actor: Actor = None,
) -> None:
    """Cancel deliveries that are not with their provider yet, named by their IDs, by --key, or both."""
    named = Named(ids or [], keys or [], tenant, workspace)
    act(session, Action("cancel", store.cancel), named, reason, actor)


@command(app, "move")
def move(
    session: Session,
    at: Annotated[str, typer.Option(metavar="RFC3339", help="When they shall go out instead.")],
    reason: Reason,
    *,
    ids: AnyIds = None,
    keys: Keys = None,
    tenant: Tenant = "default",
    workspace: Workspace = "default",
    actor: Actor = None,
) -> None:
    """Move deliveries that are not with their provider yet to another time, named by their IDs, by --key, or both."""
    run_at, faults = _when(at)

    async def move_one(database: Database, delivery_id: int, who: str, reason: str) -> str:
        return await store.move(database, delivery_id, run_at, who, reason)

    named = Named(ids or [], keys or [], tenant, workspace)
    act(session, Action("move", move_one, faults), named, reason, actor)


def _when(at: str) -> tuple[datetime, list[Fault]]:
    """The time; or any, and what is wrong with what was given."""
    try:
        return instant(at), []
    except ValueError as fault:
        return datetime.max, [Fault("--at", str(fault))]
