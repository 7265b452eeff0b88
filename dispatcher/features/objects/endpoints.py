"""The endpoints about objects: storing, listing and erasing files that messages carry."""

from typing import Any

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.engine.rules.object_cache import Name, is_name
from dispatcher.features.objects import models, store
from dispatcher.features.objects.models import OBJECT_BYTES_MAX
from dispatcher.http.cursors import read_name
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_name, page
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

NOUN = "objects"


@endpoint("GET", "/objects", Right.OBJECTS, query=models.ObjectQuery, answered=models.OBJECTS)
async def list_objects(call: Call) -> Done:
    """List the objects of the workspace by name."""
    asked: models.ObjectQuery = call.query
    start = read_name(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(call.database, call.workspace, start, asked.limit + 1)
    return Done(models.Objects(*page(rows, asked.limit, models.Object, by_name(NOUN))))


@endpoint("GET", "/objects/{name}", Right.OBJECTS, answered=models.OBJECT, problems=(NOT_FOUND,))
async def get_object(call: Call) -> Done:
    """Show an object without its content."""
    return Done(msgspec.convert(await _find(call), models.Object))


def _full(call: Call) -> Name:
    """The name in the path with its workspace. A text that cannot be a name is not found."""
    name = call.path["name"]
    if not is_name(name):
        raise not_found(f"object {name[:201]!r}: a name has 1 to 200 letters, digits and . _ / : @ + -")
    return call.workspace.tenant_id, call.workspace.workspace_id, name


async def _find(call: Call) -> dict[str, Any]:
    full = _full(call)
    found = await store.show(call.database, full)
    if found is None:
        raise not_found(f"object {full[2]}")
    return found


@endpoint(
    "PUT",
    "/objects/{name}",
    Right.OBJECTS,
    query=models.PutQuery,
    given=models.NewObject,
    example={"content": "YWJj", "content_type": "application/pdf"},
    raw=True,
    answered=models.PUT_OBJECT,
    status=201,
    problems=(NOT_FOUND, CONFLICT),
    large=True,
)
async def put_object(call: Call) -> Done:
    """Store a file under a name.

    The content of a name never changes, so that every attempt of a message sends the same. Another content takes
    another name (409). The body is JSON, or the file itself as application/octet-stream with its media type as the
    parameter.
    """
    content, content_type = _file(call)
    full = _full(call)
    answer = await store.put(call.database, full, content, content_type)
    if answer == "taken":
        words = f"the name {full[2]} means another content or type; put this under another name"
        raise Problem(CONFLICT, words, answer=answer)
    done = msgspec.convert(await _find(call) | {"answer": answer}, models.PutObject)
    return Done(done, 201 if answer == "stored" else 200)


def _file(call: Call) -> tuple[bytes, str]:
    """The content and media type in a request. Raises Problem."""
    given: models.NewObject | bytes = call.given
    said: str | None = call.query.content_type
    if isinstance(given, models.NewObject):
        if said is not None:
            raise faulty([Fault("query.content_type", "is a field of the JSON body: leave out the parameter")])
        return given.content, given.content_type
    if len(given) > OBJECT_BYTES_MAX:
        raise faulty([Fault("$", f"is larger than {OBJECT_BYTES_MAX} bytes")])
    return given, said or models.ANY_BYTES


@endpoint("POST", "/objects/{name}/erase", Right.OBJECTS, answered=models.ERASED_OBJECT, problems=(NOT_FOUND,))
async def erase_object(call: Call) -> Done:
    """Erase the content of an object.

    Deliveries that name it fail from then on. Its name stays taken: only the same content can be put there again.
    """
    full = _full(call)
    answer = await store.erase(call.database, full)
    if answer == "unknown":
        raise not_found(f"object {full[2]}")
    return Done(models.ErasedObject(full[2], answer))
