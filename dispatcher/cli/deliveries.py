"""The `deliveries` commands: what became of deliveries, and what an operator may do to one."""

import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, get_args

import msgspec
import typer

from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import FAILED
from dispatcher.cli.intake import instant
from dispatcher.cli.session import Session
from dispatcher.cli.voice import Voice
from dispatcher.domain.life import Lane, Status
from dispatcher.store import deliveries as store
from dispatcher.store.database import Database

ID_MAX = 2**63 - 1
LIMIT_MAX = 10_000
LIVES = ("pending", "claimed", "sending", "held", "parked", *get_args(Status))
TRACE = ("attempts", "evidence", "actions", "captured")
DOCUMENTS = ("template", "variables", "options", "parts")

app = group(help="List and show deliveries; retry, cancel or move them.")

Id = Annotated[int, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Ids = Annotated[list[int], typer.Argument(min=1, max=ID_MAX, metavar="ID...")]
Tenant = Annotated[str, typer.Option(help="Whose the key is.")]
Workspace = Annotated[str, typer.Option(help="In which workspace the key is.")]
Reason = Annotated[str, typer.Option(help="Why; it is kept.")]
Actor = Annotated[str | None, typer.Option(help="Who; $USER at this host without it.")]
Action = Callable[[Database, int, str, str], Awaitable[str]]

# What the functions of the schema answer, in words. The first of each action is the one that means done.
ANSWERS: Mapping[str, Mapping[str, str]] = {
    "retry": {
        "reopened": "will be sent again",
        "queued": "is not finished, so there is nothing to retry",
    },
    "cancel": {
        "cancelled": "is cancelled",
        "skipped": "was skipped or cancelled before",
    },
    "move": {
        "moved": "is moved",
        "skipped": "was skipped or cancelled, so there is nothing to move",
    },
}
COMMON_ANSWERS = {
    "unknown": "does not exist",
    "sending": "is with its provider: too late",
    "held": "is held: a call was begun and nobody knows how it ended",
    "sent": "has been sent: too late",
    "called": "has been called: too late",
    "posted": "has been posted: too late",
    "failed": "has failed",
    "skipped": "was skipped",
}


def sentence(action: str, delivery_id: int, answer: str) -> tuple[bool, str]:
    """Whether it was done, and what to say about it."""
    answers = ANSWERS[action]
    words = answers.get(answer) or COMMON_ANSWERS.get(answer, answer)
    return answer == next(iter(answers)), f"delivery {delivery_id} {words}"


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
    _require_text("--channel", channel)
    _require_text("--tenant", tenant)
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
        _require_text(option, text)
    with session.database() as database:
        if key is not None:
            delivery_id = session.run(lambda: store.find(database, tenant, workspace, key))
        found = None if delivery_id is None else session.run(lambda: store.show(database, delivery_id))
    if found is None:
        named = f"delivery {delivery_id}" if key is None else f"delivery with the key {key}"
        session.voice.fail("NotFound", f"there is no {named}")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        session.voice.record(readable(found))
    else:
        _show_all(session.voice, found)


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
    _act(session, "retry", ids, reason, actor, store.reopen)


@command(app, "cancel")
def cancel(session: Session, ids: Ids, reason: Reason, actor: Actor = None) -> None:
    """Cancel deliveries that are not with their provider yet."""
    _act(session, "cancel", ids, reason, actor, store.cancel)


@command(app, "move")
def move(
    session: Session,
    delivery_id: Id,
    at: Annotated[str, typer.Option(metavar="RFC3339", help="When it shall go out instead.")],
    reason: Reason,
    actor: Actor = None,
) -> None:
    """Move a delivery that is not with its provider yet to another time."""
    try:
        run_at = instant(at)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint="--at") from fault

    async def action(database: Database, delivery_id: int, actor: str, reason: str) -> str:
        return await store.move(database, delivery_id, run_at, actor, reason)

    _act(session, "move", [delivery_id], reason, actor, action)


def _act(session: Session, name: str, ids: Sequence[int], reason: str, actor: str | None, action: Action) -> None:
    who = actor if actor is not None else f"{os.environ.get('USER') or 'unknown'}@{socket.gethostname()}"
    for option, text in (("--reason", reason), ("--actor", who)):
        _require_text(option, text)
        if not text.strip():
            raise typer.BadParameter("is empty", param_hint=option)
    all_done = True
    with session.database() as database:
        for delivery_id in ids:
            answer = session.run(lambda one=delivery_id: action(database, one, who, reason))  # type: ignore[misc]  # bound now
            done, words = sentence(name, delivery_id, answer)
            all_done = all_done and done
            if session.voice.as_json:
                session.voice.record({"id": delivery_id, "done": done, "answer": answer, "message": words})
            else:
                session.voice.text(words)
    if not all_done:
        raise typer.Exit(FAILED)


def _require_text(option: str, text: str | None) -> None:
    """Arguments are bytes to the system: what Postgres cannot keep is refused here."""
    if text is not None and ("\0" in text or any("\ud800" <= c <= "\udfff" for c in text)):
        raise typer.BadParameter("is not UTF-8", param_hint=option)
