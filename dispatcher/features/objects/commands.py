"""The `objects` commands: files that messages carry."""

from mimetypes import guess_type
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.files import opened
from dispatcher.cli.options import Yes, confirm, second
from dispatcher.cli.terminal.output import show_facts, show_list, tell
from dispatcher.engine.rules.object_cache import is_media_type, is_name
from dispatcher.features.objects import endpoints
from dispatcher.features.objects.models import ANY_BYTES, OBJECT_BYTES_MAX, ErasedObject, Object, PutObject

app = group(help="Store files that deliveries carry as attachments or inline images.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the object in deliveries.")]


@command(app, "put")
def put(
    caller: Caller,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- is the standard input.")],
    name: Annotated[str | None, typer.Option(help="Of the object; without it that of the file.")] = None,
    content_type: Annotated[str | None, typer.Option("--type", help="Media type, like application/pdf.")] = None,
) -> None:
    """Store a file under a name.

    The content of a name never changes, so that every attempt of a message sends the same. Another content takes
    another name.
    """
    target = name if name is not None else file.name
    if not is_name(target):
        words = "1 to 200 letters, digits and . _ / : @ + -, a letter or digit first; name it with --name"
        raise typer.BadParameter(words, param_hint="NAME")
    kind = content_type or guess_type(target)[0] or guess_type(file.name)[0] or ANY_BYTES
    if not is_media_type(kind):
        raise typer.BadParameter(f"{kind} is not a media type: write one like application/pdf", param_hint="--type")
    with opened(file, "FILE") as source:
        content = source.read(OBJECT_BYTES_MAX + 1)
    if len(content) > OBJECT_BYTES_MAX:
        raise typer.BadParameter(f"is larger than {OBJECT_BYTES_MAX} bytes", param_hint="FILE")
    stored: PutObject = caller.ask(endpoints.put_object, target, body=content, content_type=kind)
    already = " already" if stored.answer == "same" else ""
    tell(caller, stored, f"{target} is kept{already}: {len(content):,} bytes of {kind}")


@command(app, "list", limit=20)
def list_(caller: Caller) -> None:
    """List the objects of a workspace by name."""
    columns = ("name", "bytes", "type", "stored", "state")
    show_list(caller, caller.listed(endpoints.list_objects), columns, _cells, "There are no objects here.")


@command(app, "show")
def show(caller: Caller, name: Name) -> None:
    """Show an object without its content."""
    show_facts(caller, "object", name, caller.ask(endpoints.get_object, name))


@command(app, "delete")
def delete(caller: Caller, name: Name, yes: Yes = False) -> None:
    """Erase the content of an object.

    Deliveries that name it fail from then on. Its name stays taken: only the same content can be put there again.
    """
    confirm(caller.output, yes, 1, f"deliveries that name {name} will fail", "objects")
    done: ErasedObject = caller.ask(endpoints.erase_object, name)
    tell(caller, done, f"{name} is erased" if done.answer == "erased" else f"{name} was erased before")


def _cells(row: Object) -> tuple[object, ...]:
    state = f"erased {second(row.erased_at)}" if row.erased_at else "there"
    return row.name, row.size, row.content_type, second(row.created_at), state
