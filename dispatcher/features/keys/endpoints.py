"""The endpoints about keys: making, listing, rotating and revoking them, and their log."""

import re

from dispatcher.base.workspace import Workspace
from dispatcher.features.keys import models, store
from dispatcher.http import operators
from dispatcher.http.bearer import KEY_NAME, Bearer
from dispatcher.http.cursors import ID_MAX, cursor, invalid_cursor, read_id, read_texts
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_id, page
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.reading import past_time_faults
from dispatcher.http.roles import Right

NOUN = "keys"
LOG_NOUN = "key_actions"
_OPERATORS = "Keys of the operators' workspace (`api.operators`) may name another tenant and workspace."
_ONCE = (
    "The secret is in this answer only: a repeated request with the same Idempotency-Key makes no other one, and is "
    "answered 409."
)
_is_name = re.compile(KEY_NAME).fullmatch


@endpoint("GET", "/keys", Right.KEYS, query=models.KeyQuery, answered=models.API_KEYS, description=_OPERATORS)
async def list_keys(call: Call) -> Done:
    """List the keys of a workspace by name, without their secrets."""
    asked: models.KeyQuery = call.query
    workspace = operators.requested_workspace(call, asked.tenant_id, asked.workspace_id)
    name, behind = (asked.after or "", ID_MAX) if asked.cursor is None else _place(asked.cursor)
    rows = await store.listed(
        call.database, workspace, name, asked.limit + 1, revoked=asked.revoked, behind=behind, role=asked.role
    )
    some = page(rows, asked.limit, models.ApiKey, lambda row: cursor(NOUN, row["name"], str(row["id"])))
    return Done(models.ApiKeys(*some))


def _place(text: str) -> tuple[str, int]:
    name, number = read_texts(NOUN, text, 2)
    if not (number.isascii() and number.isdecimal() and len(number) < len(str(ID_MAX))):
        raise invalid_cursor()
    return name, int(number)


@endpoint(
    "POST",
    "/keys",
    Right.KEYS,
    given=models.NewKey,
    example={"name": "shop", "role": "triggerOperator", "reason": "the web shop"},
    answered=models.NEW_SECRET,
    description=f"{_ONCE} {_OPERATORS}",
    status=201,
    problems=(CONFLICT,),
    shown_once=True,
)
async def create_key(call: Call) -> Done:
    """Make a key."""
    given: models.NewKey = call.given
    workspace = operators.requested_workspace(call, given.tenant_id, given.workspace_id)
    if faults := past_time_faults(given.expires_at, "$.expires_at"):
        raise faulty(faults)
    by = operators.actor(call, workspace), given.reason
    made = await store.create(call.database, workspace, given.name, given.role, given.expires_at, by=by)
    if made is None:
        words = f"there is a key {given.name}: rotate or revoke it, or take another name"
        raise Problem(CONFLICT, words, answer="taken")
    return Done(models.NewSecret(**_shown(workspace, given.name, made), role=given.role.value), 201)


def _shown(workspace: Workspace, name: str, made: Bearer) -> dict[str, str]:
    place = {"tenant_id": workspace.tenant_id, "workspace_id": workspace.workspace_id}
    return {"name": name, **place, "prefix": made.prefix, "key": made.text}


def _named(call: Call, asked: models.KeyChange | models.KeyLogQuery) -> tuple[Workspace, str]:
    """The key in the path. A text that cannot be a name is not found."""
    workspace, name = operators.requested_workspace(call, asked.tenant_id, asked.workspace_id), call.path["name"]
    if not _is_name(name):
        raise not_found(f"key {name[:101]!r}")
    return workspace, name


@endpoint(
    "POST",
    "/keys/{name}/rotate",
    Right.KEYS,
    given=models.RotateKey,
    example={"reason": "every quarter", "overlap_seconds": 86_400},
    answered=models.SECRET,
    description=f"{_ONCE} {_OPERATORS}",
    problems=(NOT_FOUND, CONFLICT),
    shown_once=True,
)
async def rotate_key(call: Call) -> Done:
    """Give a key another secret; the old one stays valid for the overlap, an older one does not."""
    given: models.RotateKey = call.given
    workspace, name = _named(call, given)
    by = operators.actor(call, workspace), given.reason
    made = await store.rotate(call.database, workspace, name, given.overlap_seconds, by=by)
    if made == "unknown":
        raise not_found(f"key {name}")
    if isinstance(made, str):
        raise Problem(CONFLICT, f"the key {name} has expired: make another one", answer=made)
    return Done(models.Secret(**_shown(workspace, name, made)))


@endpoint(
    "POST",
    "/keys/{name}/revoke",
    Right.KEYS,
    given=models.RevokeKey,
    example={"reason": "it was mailed around"},
    answered=models.REVOKED_KEY,
    description=_OPERATORS,
    problems=(NOT_FOUND,),
)
async def revoke_key(call: Call) -> Done:
    """Revoke a key: it is invalid within a second or so.

    A key may revoke itself.
    """
    given: models.RevokeKey = call.given
    workspace, name = _named(call, given)
    by = operators.actor(call, workspace), given.reason
    if not await store.revoke(call.database, workspace, name, by=by):
        raise not_found(f"key {name}")
    return Done(models.RevokedKey(name, revoked=True))


@endpoint(
    "GET",
    "/keys/{name}/log",
    Right.KEYS,
    query=models.KeyLogQuery,
    answered=models.KEY_ACTIONS,
    description=_OPERATORS,
    problems=(NOT_FOUND,),
)
async def get_key_log(call: Call) -> Done:
    """Show the actions on the keys of a name, with actor and reason."""
    asked: models.KeyLogQuery = call.query
    workspace, name = _named(call, asked)
    at = read_id(LOG_NOUN, asked.cursor)
    rows = await store.actions(call.database, workspace, name, asked.limit + 1, at)
    if not rows and asked.cursor is None:
        raise not_found(f"key {name}, and never was")
    return Done(models.KeyActions(*page(rows, asked.limit, models.KeyAction, by_id(LOG_NOUN))))
