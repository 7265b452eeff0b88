"""The endpoints about pauses: of a workspace, or by operators of all workspaces."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from dispatcher.base.errors import Fault, did_you_mean
from dispatcher.base.workspace import Workspace
from dispatcher.engine.rules.pauses import PLACED
from dispatcher.features.pauses import models, store
from dispatcher.http import operators
from dispatcher.http.cursors import read_numbers
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_id, page
from dispatcher.http.models import Why
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

NOUN = "pauses"
_ONE = "/pauses/{pause_id}"
_GLOBAL = "pause something for all workspaces"
_OPERATORS_ONLY = "Only keys of the operators' workspace (`api.operators`) may pause something for all workspaces."


@endpoint("GET", "/pauses", Right.PAUSES, query=models.PauseQuery, answered=models.PAUSES)
async def list_pauses(call: Call) -> Done:
    """List pauses: those of the workspace, and those for all workspaces that concern it."""
    asked: models.PauseQuery = call.query
    is_all = call.shown is None and asked.tenant_id is None and asked.workspace_id is None
    here = None if is_all else operators.requested_workspace(call, asked.tenant_id, asked.workspace_id)
    at = 0 if asked.cursor is None else read_numbers(NOUN, asked.cursor, 1)[0]
    rows = await store.listed(call.database, here, at, asked.limit + 1, asked.scope)
    return Done(models.Pauses(*page(rows, asked.limit, models.Pause, by_id(NOUN))))


@endpoint(
    "POST",
    "/pauses",
    Right.PAUSES,
    given=models.NewPause,
    example={"scope": "template", "name": "promotion", "reason": "wrong prices"},
    answered=models.OPENED_PAUSE,
    description=_OPERATORS_ONLY,
    status=201,
    problems=(CONFLICT,),
)
async def create_pause(call: Call) -> Done:
    """Pause the workspace, or a channel or a template in it; or something everywhere.

    Sending stops within a second; what is with its provider is finished, what waits keeps waiting, also through
    restarts, until it is resumed.
    """
    given: models.NewPause = call.given
    where = _target(call, given)
    name = _name(call, given, where)
    by = operators.actor(call, where), given.reason
    opened = await store.pause(call.database, given.scope, name, *by, where)
    found = await store.show(call.database, opened.id)
    if found is None:
        raise Problem(CONFLICT, f"{given.scope} {name} was paused and has been resumed since: pause it again")
    answer = msgspec.convert(found | {"already": opened.already}, models.OpenedPause)
    return Done(answer, 200 if opened.already else 201)


def _target(call: Call, given: models.NewPause) -> Workspace | None:
    """The workspace of a new pause; None: everywhere, which only operators may."""
    if given.scope == "workspace" and given.everywhere:
        raise faulty([Fault("$.everywhere", "is not for the scope workspace: leave it out")])
    if given.scope in PLACED and not given.everywhere:
        return operators.requested_workspace(call, given.tenant_id, given.workspace_id)
    if given.tenant_id is not None or given.workspace_id is not None:
        raise faulty([Fault("$", "a pause everywhere has no tenant_id and workspace_id: leave them out")])
    operators.require(call, _GLOBAL)
    return None


def _name(call: Call, given: models.NewPause, where: Workspace | None) -> str:
    """The name of what is paused. An unknown channel or provider is refused, since its pause would stop nothing."""
    if given.scope == "workspace" and where is not None:
        if given.name not in (None, where.workspace_id):
            raise faulty([Fault("$.name", "is not the workspace_id, or the workspace of the key: leave it out")])
        return where.workspace_id
    if given.name is None or not given.name.strip():
        raise faulty([Fault("$.name", "is required")])
    known = _known(call).get(given.scope)
    if known is not None and given.name not in known:
        hint = did_you_mean(given.name, known)
        raise faulty([Fault("$.name", f"unknown {given.scope}{hint}; there are {', '.join(sorted(known))}")])
    return given.name


def _known(call: Call) -> Mapping[str, Collection[str]]:
    """The names that exist of scopes from the configuration; others may be created later."""
    channels = call.served.config().channels
    providers = {name for one in channels.values() for names in one.pausable for name in names}
    return {"channel": channels, "provider": providers}


@endpoint("GET", _ONE, Right.PAUSES, answered=models.PAUSE, problems=(NOT_FOUND,), elsewhere=True)
async def get_pause(call: Call) -> Done:
    """Show an open pause."""
    return Done(msgspec.convert(await _open(call), models.Pause))


@endpoint(
    "POST",
    f"{_ONE}/resume",
    Right.PAUSES,
    given=Why,
    example={"reason": "the carrier is back"},
    answered=models.RESUMED,
    description=_OPERATORS_ONLY,
    problems=(NOT_FOUND, CONFLICT),
    elsewhere=True,
)
async def resume_pause(call: Call) -> Done:
    """End a pause."""
    found = await _open(call)
    if found["scope"] == "moved":
        raise Problem(CONFLICT, f"tenant {found['name']} is not in this cell: it goes on where it is")
    if found["scope"] in ("run", "campaign_run"):
        noun = found["scope"].replace("_", " ")
        raise Problem(CONFLICT, f"{noun} {found['name']} has a pause of its own: resume the run")
    where = None
    if found["tenant_id"] is None:
        operators.require(call, _GLOBAL)
    else:
        where = Workspace(found["tenant_id"], found["workspace_id"])
    if not await store.resume(call.database, found["id"], operators.actor(call, where), call.given.reason):
        raise not_found(f"pause {found['id']} any more")
    return Done(msgspec.convert(found | {"resumed": True}, models.Resumed))


async def _open(call: Call) -> dict[str, Any]:
    """The open pause in the path, of the workspace or of all workspaces."""
    number = call.number("pause_id", "pause")
    found = await store.show(call.database, number)
    if found is None or not (operators.is_operator(call) or call.owns(found) or _is_global(call, found)):
        raise not_found(f"pause {number}")
    return found


def _is_global(call: Call, found: Mapping[str, Any]) -> bool:
    of_another = found["scope"] == "tenant" and found["name"] != call.workspace.tenant_id
    return found["tenant_id"] is None and not of_another
