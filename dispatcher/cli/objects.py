"""The `objects` commands: files that messages carry, under names that mean one content for ever."""

import sys
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated, Any

import typer

from dispatcher.cli.commands import command, group
from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Yes, second
from dispatcher.cli.session import Session
from dispatcher.cli.streams import standard_input
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.domain.shelf import is_media_type, is_name
from dispatcher.store.objects import OBJECT_BYTES_MAX

app = group(help="Keep files that deliveries carry as attachments or inline images.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What deliveries call it.")]
STANDARD_INPUT = Path("-")
_NO_NAME = "1 to 200 letters, digits and . _ / : @ + -, a letter or digit first"


@command(app, "put")
def put(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to keep; - reads standard input.")],
    name: Annotated[str | None, typer.Option(help="What deliveries call it; the file's own name without it.")] = None,
    content_type: Annotated[str | None, typer.Option("--type", help="What it is, like application/pdf.")] = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Keep a file under a name.

    The name means this content for ever, so that a message that is sent again is the same. Another content takes
    another name.
    """
    called = name if name is not None else file.name
    here = place(tenant, workspace)
    _require_name(called)
    kind = content_type or guess_type(called)[0] or guess_type(file.name)[0] or "application/octet-stream"
    if not is_media_type(kind):
        raise typer.BadParameter("is not a media type; write one, like application/pdf", param_hint="--type")
    content = _read(file)
    with session.doors() as doors:
        kept = session.run(lambda: doors.objects.put(here, called, content, kind))
    if kept is None:
        session.voice.fail("NameTaken", f"the name {called} means another content or type; put this under another name")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        session.voice.record(kept)
    else:
        already = " already" if kept["answer"] == "same" else ""
        session.voice.text(f"{called} is kept{already}: {len(content):,} bytes of {kind}")


@command(app, "list")
def list_(
    session: Session,
    after: Annotated[str, typer.Option(help="Begin behind this name.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 20,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """List the objects of a workspace by name."""
    here = place(tenant, workspace)
    if after and not is_name(after):
        raise typer.BadParameter(_NO_NAME, param_hint="--after")
    with session.doors() as doors:
        found = session.run(lambda: doors.objects.listed(here, after, limit))
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
def show(session: Session, name: Name, tenant: Tenant = None, workspace: InWorkspace = None) -> None:
    """Show what is known about an object."""
    here = place(tenant, workspace)
    _require_name(name)
    with session.doors() as doors:
        found = session.run(lambda: doors.objects.show(here, name))
    if found is None:
        raise _not_found(session, name)
    if session.voice.as_json:
        session.voice.record(found)
    else:
        session.voice.table(("object", name), ((key, value) for key, value in found.items() if value is not None))


@command(app, "delete")
def delete(
    session: Session, name: Name, yes: Yes = False, tenant: Tenant = None, workspace: InWorkspace = None
) -> None:
    """Erase an object's content.

    Deliveries that name it fail from then on. Its name stays taken: only the same content can be put there again.
    """
    here = place(tenant, workspace)
    _require_name(name)
    if not yes:
        if session.voice.as_json or not sys.stdin.isatty():
            session.voice.fail("Unconfirmed", "nothing was done: confirm with --yes")
            raise typer.Exit(FAILED)
        if not typer.confirm(f"Deliveries that name {name} will fail. Go on?", err=True):
            session.voice.say("nothing was done")
            raise typer.Exit(FAILED)
    with session.doors() as doors:
        answer = session.run(lambda: doors.objects.erase(here, name))
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


def _require_name(name: str) -> None:
    if not is_name(name):
        raise typer.BadParameter(f"{_NO_NAME}; name it with --name", param_hint="NAME")


def _read(file: Path) -> bytes:
    """A file, or as much of it as shows that it is too large."""
    try:
        if file == STANDARD_INPUT:
            content = standard_input().read(OBJECT_BYTES_MAX + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(OBJECT_BYTES_MAX + 1)
    except OSError as trouble:
        raise typer.BadParameter(f"cannot be read: {trouble.strerror}", param_hint="FILE") from trouble
    if len(content) > OBJECT_BYTES_MAX:
        raise typer.BadParameter(f"is larger than {OBJECT_BYTES_MAX} bytes", param_hint="FILE")
    return content
