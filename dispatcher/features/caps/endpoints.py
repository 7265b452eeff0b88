"""The endpoints of caps: save, list, show and delete them."""

from msgspec import structs

from dispatcher.base.values.durations import duration
from dispatcher.features.caps import models, store
from dispatcher.features.caps.rules import CAPS_MAX, faults
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

_RIGHT = Right.RULES
_PATH = "/caps/{name}"
_EXAMPLE = {"messages": 3, "period": "7d", "channels": ["email", "sms"]}


@endpoint("GET", "/caps", _RIGHT, answered=models.CAPS)
async def list_caps(call: Call) -> Done:
    """List caps by name."""
    return Done(models.Caps(await store.listed(call.database, call.workspace)))


@endpoint("GET", _PATH, _RIGHT, answered=models.CAP, problems=(NOT_FOUND,))
async def get_cap(call: Call) -> Done:
    """Show a cap."""
    return Done(await _find(call))


async def _find(call: Call) -> models.Cap:
    name = call.named("cap")
    found = await store.listed(call.database, call.workspace, name)
    if not found:
        raise not_found(f"cap {name}")
    return found[0]


@endpoint(
    "PUT",
    _PATH,
    _RIGHT,
    given=models.NewCap,
    example=_EXAMPLE,
    answered=models.SAVED,
    status=201,
    problems=(NOT_FOUND, CONFLICT),
)
async def put_cap(call: Call) -> Done:
    """Save a cap: at most so many messages to one recipient in any period of this length.

    A message counts from the moment at which it is handed to its provider. One too many is skipped, with the reason
    `capped (3 in 7 days)`. Transactional messages are neither counted nor skipped.
    """
    given: models.NewCap = call.given
    name = call.named("cap")
    found = list(faults(given.messages, given.period, given.channels, call.served.config().channels))
    if found:
        raise faulty(found)
    seconds = duration(given.period) or 0.0
    sets = sorted(set(given.channels)), sorted(set(given.topics))
    definition = store.Definition(name, given.messages, seconds, *sets)
    answer = await store.put(call.database, call.workspace, definition, call.actor)
    if answer == "full":
        raise Problem(CONFLICT, f"the workspace has {CAPS_MAX} caps already: delete one first")
    saved = models.SavedCap(**structs.asdict(await _find(call)), answer=answer)  # type: ignore[arg-type]  # one of them
    return Done(saved, 201 if answer == "created" else 200)


@endpoint("DELETE", _PATH, _RIGHT, answered=models.DELETED, problems=(NOT_FOUND,))
async def delete_cap(call: Call) -> Done:
    """Delete a cap. What it has skipped stays skipped."""
    name = call.named("cap")
    if not await store.delete(call.database, call.workspace, name, call.actor):
        raise not_found(f"cap {name}")
    return Done(models.DeletedCap(name))


ENDPOINTS = (list_caps, get_cap, put_cap, delete_cap)
