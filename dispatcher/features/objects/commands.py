"""The `objects` commands: files that messages carry, under names that mean one content for ever."""

import sys
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import Yes, second
from dispatcher.cli.terminal.output import show_facts, show_list, tell
from dispatcher.cli.terminal.standard_streams import standard_input
from dispatcher.engine.rules.object_cache import is_media_type, is_name
from dispatcher.features.objects import endpoints
from dispatcher.features.objects.models import OBJECT_BYTES_MAX, ErasedObject, Object, PutObject

app = group(help="Keep files that deliveries carry as attachments or inline images.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What deliveries call it.")]
STANDARD_INPUT = Path("-")


@command(app, "put")
def put(
    caller: Caller,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to keep; - reads standard input.")],
    name: Annotated[str | None, typer.Option(help="What deliveries call it; the file's own name without it.")] = None,
    content_type: Annotated[str | None, typer.Option("--type", help="What it is, like application/pdf.")] = None,
) -> None:
    """Keep a file under a name.

    The name means this content for ever, so that a message that is sent again is the same. Another content takes
    another name.
    """
    called = name if name is not None else file.name
    if not is_name(called):
        words = "1 to 200 letters, digits and . _ / : @ + -, a letter or digit first; name it with --name"
        raise typer.BadParameter(words, param_hint="NAME")
    kind = content_type or guess_type(called)[0] or guess_type(file.name)[0] or "application/octet-stream"
    if not is_media_type(kind):
        raise typer.BadParameter("is not a media type; write one, like application/pdf", param_hint="--type")
    content = _read(file)
    kept: PutObject = caller.ask(endpoints.put_object, called, body=content, content_type=kind)
    already = " already" if kept.answer == "same" else ""
    tell(caller, kept, f"{called} is kept{already}: {len(content):,} bytes of {kind}")


@command(app, "list", limit=20)
def list_(caller: Caller) -> None:
    """List the objects of a workspace by name."""
    columns = ("name", "bytes", "type", "kept since", "state")
    show_list(caller, caller.listed(endpoints.list_objects), columns, _cells, "There are no objects here.")


@command(app, "show")
def show(caller: Caller, name: Name) -> None:
    """Show what is known about an object."""
    show_facts(caller, "object", name, caller.ask(endpoints.get_object, name))


@command(app, "delete")
def delete(caller: Caller, name: Name, yes: Yes = False) -> None:
    """Erase an object's content.

    Deliveries that name it fail from then on. Its name stays taken: only the same content can be put there again.
    """
    if not yes:
        if caller.output.as_json or not sys.stdin.isatty():
            caller.output.error("Unconfirmed", "nothing was done: confirm with --yes")
            raise typer.Exit(FAILED)
        if not typer.confirm(f"Deliveries that name {name} will fail. Go on?", err=True):
            caller.output.info("nothing was done")
            raise typer.Exit(FAILED)
    done: ErasedObject = caller.ask(endpoints.erase_object, name)
    tell(caller, done, f"{name} is erased" if done.answer == "erased" else f"{name} was erased before")


def _cells(row: Object) -> tuple[object, ...]:
    state = f"erased {second(row.erased_at)}" if row.erased_at else "there"
    return row.name, row.size, row.content_type, second(row.created_at), state


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
