"""Keys over HTTP: making, listing, rotating and revoking those of a workspace, and who did that."""

import re

from dispatcher.base.workspace import Workspace
from dispatcher.features.keys import models, store
from dispatcher.features.keys.store import New
from dispatcher.http import operators
from dispatcher.http.bearer import KEY_NAME
from dispatcher.http.cursors import ID_MAX, after_texts, below, cursor_after_texts, none_of_ours
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_id, page
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.reading import over
from dispatcher.http.roles import Right

NOUN = "keys"
LOG_NOUN = "key_actions"
_OPERATORS = "Keys of the operators' workspace (`api.operators`) may name another tenant and workspace."
_ONCE = (
    "The secret is in this answer and kept nowhere: with an Idempotency-Key the same request is done once, and asked "
    "again it is answered 409, that it was done and is not shown again."
)
_is_name = re.compile(KEY_NAME).fullmatch


@endpoint("GET", "/keys", Right.KEYS, query=models.KeyQuery, answered=models.API_KEYS, description=_OPERATORS)
async def list_keys(call: Call) -> Done:
    """List the keys of a workspace by name; their secrets are nowhere."""
    asked: models.KeyQuery = call.query
    whose = operators.meant(call, asked.tenant_id, asked.workspace_id)
    name, behind = (asked.after or "", ID_MAX) if asked.cursor is None else _place(asked.cursor)
    rows = await store.listed(
        call.database, whose, name, asked.limit + 1, revoked=asked.revoked, behind=behind, role=asked.role
    )
    some = page(rows, asked.limit, models.ApiKey, lambda row: cursor_after_texts(NOUN, row["name"], str(row["id"])))
    return Done(models.ApiKeys(*some))


def _place(text: str) -> tuple[str, int]:
    name, number = after_texts(NOUN, text, 2)
    if not (number.isascii() and number.isdecimal() and len(number) < len(str(ID_MAX))):
        raise none_of_ours()
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
    whose = operators.meant(call, given.tenant_id, given.workspace_id)
    if faults := over(given.expires_at, "$.expires_at"):
        raise faulty(faults)
    new = New(whose, given.name, given.role, given.expires_at)
    made = await store.create(call.database, new, operators.actor(call, whose), given.reason)
    if made is None:
        words = f"there is a key {given.name}: rotate or revoke it, or take another name"
        raise Problem(CONFLICT, words, answer="taken")
    secret = models.NewSecret(
        name=given.name,
        tenant_id=whose.tenant_id,
        workspace_id=whose.workspace_id,
        prefix=made.prefix,
        key=made.text,
        role=given.role.value,
    )
    return Done(secret, 201)


def _named(call: Call, tenant_id: str | None, workspace_id: str | None) -> tuple[Workspace, str]:
    """The key in the path. What cannot be a name is the name of nothing."""
    whose, name = operators.meant(call, tenant_id, workspace_id), call.path["name"]
    if not _is_name(name):
        raise not_found(f"key {name[:101]!r}")
    return whose, name


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
    """Give a key another secret; the old one stays good for a while, no older one does."""
    given: models.RotateKey = call.given
    whose, name = _named(call, given.tenant_id, given.workspace_id)
    told = operators.actor(call, whose), given.reason
    made = await store.rotate(call.database, whose, name, given.overlap_seconds, *told)
    if made == "unknown":
        raise not_found(f"key {name}")
    if isinstance(made, str):
        raise Problem(CONFLICT, f"the key {name} has expired: make another one", answer=made)
    secret = models.Secret(
        name=name, tenant_id=whose.tenant_id, workspace_id=whose.workspace_id, prefix=made.prefix, key=made.text
    )
    return Done(secret)


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
    """Take a key back: within a second or so nothing is done for it any more.

    A key may revoke itself.
    """
    given: models.RevokeKey = call.given
    whose, name = _named(call, given.tenant_id, given.workspace_id)
    if not await store.revoke(call.database, whose, name, operators.actor(call, whose), given.reason):
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
    """Show who made, rotated and revoked the keys of a name, and why."""
    asked: models.KeyLogQuery = call.query
    whose, name = _named(call, asked.tenant_id, asked.workspace_id)
    at = below(LOG_NOUN, asked.cursor)
    rows = await store.actions(call.database, whose, name, asked.limit + 1, at)
    if not rows and asked.cursor is None:
        raise not_found(f"key {name}, and never was")
    return Done(models.KeyActions(*page(rows, asked.limit, models.KeyAction, by_id(LOG_NOUN))))
