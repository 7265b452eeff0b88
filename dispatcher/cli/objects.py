"""The `objects` commands: files that messages carry, under names that mean one content for ever."""

import sys
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated, Any

import typer

from dispatcher.cli.commands import command, group
from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Yes, require_words, second
from dispatcher.cli.session import Session
from dispatcher.domain.shelf import Name as FullName
from dispatcher.domain.shelf import is_media_type, is_name
from dispatcher.store import objects as store
from dispatcher.store.objects import OBJECT_BYTES_MAX

app = group(help="Keep files that deliveries carry as attachments or inline images.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What deliveries call it.")]
Tenant = Annotated[str, typer.Option(help="Whose it is.")]
Workspace = Annotated[str, typer.Option(help="In which of its workspaces.")]
# What the schema allows a tenant, and a workspace.
TENANT_MAX = 100
STANDARD_INPUT = Path("-")


@command(app, "put")
def put(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to keep; - reads standard input.")],
    name: Annotated[str | None, typer.Option(help="What deliveries call it; the file's own name without it.")] = None,
    content_type: Annotated[str | None, typer.Option("--type", help="What it is, like application/pdf.")] = None,
    tenant: Tenant = "default",
    workspace: Workspace = "default",
) -> None:
    """Keep a file under a name.

    The name means this content for ever, so that a message that is sent again is the same. Another content takes
    another name.
    """
    called = name if name is not None else file.name
    full = _full(tenant, workspace, called)
    kind = content_type or guess_type(called)[0] or guess_type(file.name)[0] or "application/octet-stream"
    if not is_media_type(kind):
        raise typer.BadParameter("is not a media type; write one, like application/pdf", param_hint="--type")
    content = _read(file)
    with session.database() as database:
        answer = session.run(lambda: store.put(database, full, content, kind))
        found = session.run(lambda: store.show(database, full))
    if answer == "taken":
        session.voice.fail("NameTaken", f"the name {called} means another content or type; put this under another name")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        session.voice.record({"answer": answer} | (found or {}))
    else:
        already = " already" if answer == "same" else ""
        session.voice.text(f"{called} is kept{already}: {len(content):,} bytes of {kind}")


@command(app, "list")
def list_(
    session: Session,
    after: Annotated[str, typer.Option(help="Begin behind this name.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 20,
    tenant: Tenant = "default",
    workspace: Workspace = "default",
) -> None:
    """List the objects of a workspace by name."""
    _require_place(tenant, workspace)
    if after:
        require_words("--after", after)
    with session.database() as database:
        found = session.run(lambda: store.listed(database, tenant, workspace, after, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        session.voice.table(("name", "bytes", "type", "kept since", "state"), (_cells(row) for row in found))
        if len(found) == limit:
            session.voice.say(f"there may be more: see --after {found[-1]['name']}")
    else:
        session.voice.text("There are no objects here.")


@command(app, "show")
def show(session: Session, name: Name, tenant: Tenant = "default", workspace: Workspace = "default") -> None:
    """Show what is known about an object."""
    full = _full(tenant, workspace, name)
    with session.database() as database:
        found = session.run(lambda: store.show(database, full))
    if found is None:
        raise _not_found(session, name)
    if session.voice.as_json:
        session.voice.record(found)
    else:
        session.voice.table(("object", name), ((key, value) for key, value in found.items() if value is not None))


@command(app, "delete")
def delete(
    session: Session, name: Name, yes: Yes = False, tenant: Tenant = "default", workspace: Workspace = "default"
) -> None:
    """Erase an object's content.

    Deliveries that name it fail from then on. Its name stays taken: only the same content can be put there again.
    """
    full = _full(tenant, workspace, name)
    if not yes:
        if session.voice.as_json or not sys.stdin.isatty():
            session.voice.fail("Unconfirmed", "nothing was done: confirm with --yes")
            raise typer.Exit(FAILED)
        if not typer.confirm(f"Deliveries that name {name} will fail. Go on?", err=True):
            session.voice.say("nothing was done")
            raise typer.Exit(FAILED)
    with session.database() as database:
        answer = session.run(lambda: store.erase(database, full))
    if answer == "unknown":
        raise _not_found(session, name)
    if session.voice.as_json:
        session.voice.record({"name": name, "answer": answer})
    else:
        session.voice.text(f"{name} is erased" if answer == "erased" else f"{name} was erased before")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    state = f"erased {second(row['erased_at'])}" if row["erased_at"] else "there"
    return row["name"], row["size"], row["content_type"], second(row["created_at"]), state


def _not_found(session: Session, name: str) -> typer.Exit:
    session.voice.fail("NotFound", f"there is no object {name}")
    return typer.Exit(FAILED)


def _full(tenant: str, workspace: str, name: str) -> FullName:
    _require_place(tenant, workspace)
    if not is_name(name):
        words = "1 to 200 letters, digits and . _ / : @ + -, a letter or digit first; name it with --name"
        raise typer.BadParameter(words, param_hint="NAME")
    return tenant, workspace, name


def _require_place(tenant: str, workspace: str) -> None:
    require_words("--tenant", tenant)
    require_words("--workspace", workspace)
    for option, text in (("--tenant", tenant), ("--workspace", workspace)):
        if len(text) > TENANT_MAX:
            raise typer.BadParameter(f"is longer than {TENANT_MAX} characters", param_hint=option)


def _read(file: Path) -> bytes:
    """A file, or as much of it as shows that it is too large."""
    try:
        if file == STANDARD_INPUT:
            content = sys.stdin.buffer.read(OBJECT_BYTES_MAX + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(OBJECT_BYTES_MAX + 1)
    except OSError as trouble:
        raise typer.BadParameter(f"cannot be read: {trouble.strerror}", param_hint="FILE") from trouble
    if len(content) > OBJECT_BYTES_MAX:
        raise typer.BadParameter(f"is larger than {OBJECT_BYTES_MAX} bytes", param_hint="FILE")
    return content
