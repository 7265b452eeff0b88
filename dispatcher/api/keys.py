"""Keys over HTTP: making, listing, rotating and revoking those of a workspace, and who did that."""

import re

from dispatcher.api import key_models as models
from dispatcher.api import operators
from dispatcher.api.cursors import after_texts, below, cursor_after_texts, none_of_ours
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import by_id, page
from dispatcher.api.problems import CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.api.reading import over
from dispatcher.domain.bearer import KEY_NAME
from dispatcher.domain.roles import Right
from dispatcher.store import keys as store
from dispatcher.store.keys import New
from dispatcher.store.templates import Workspace

NOUN = "keys"
LOG_NOUN = "key_actions"
_is_name = re.compile(KEY_NAME).fullmatch


async def list_(call: Call) -> Done:
    """By name."""
    asked: models.KeyQuery = call.query
    whose = operators.meant(call, asked.tenant_id, asked.workspace_id)
    name, behind = (asked.after or "", store.ID_MAX) if asked.cursor is None else _place(asked.cursor)
    rows = await store.listed(
        call.database, whose, name, asked.limit + 1, revoked=asked.revoked, behind=behind, role=asked.role
    )
    some = page(rows, asked.limit, models.ApiKey, lambda row: cursor_after_texts(NOUN, row["name"], str(row["id"])))
    return Done(models.ApiKeys(*some))


def _place(text: str) -> tuple[str, int]:
    name, number = after_texts(NOUN, text, 2)
    if not (number.isascii() and number.isdecimal() and len(number) < len(str(store.ID_MAX))):
        raise none_of_ours()
    return name, int(number)


async def create(call: Call) -> Done:
    """Make one. Its secret is in this answer, and nowhere else."""
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


async def rotate(call: Call) -> Done:
    """Give one another secret."""
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


async def revoke(call: Call) -> Done:
    """Take one back."""
    given: models.RevokeKey = call.given
    whose, name = _named(call, given.tenant_id, given.workspace_id)
    if not await store.revoke(call.database, whose, name, operators.actor(call, whose), given.reason):
        raise not_found(f"key {name}")
    return Done(models.RevokedKey(name, revoked=True))


async def log(call: Call) -> Done:
    """What was done to those of a name."""
    asked: models.KeyLogQuery = call.query
    whose, name = _named(call, asked.tenant_id, asked.workspace_id)
    at = below(LOG_NOUN, asked.cursor)
    rows = await store.actions(call.database, whose, name, asked.limit + 1, at)
    if not rows and asked.cursor is None:
        raise not_found(f"key {name}, and never was")
    return Done(models.KeyActions(*page(rows, asked.limit, models.KeyAction, by_id(LOG_NOUN))))


_OPERATORS = "Keys of the operators' workspace (`api.operators`) may name another tenant and workspace."
_ONCE = (
    "The secret is in this answer and kept nowhere: with an Idempotency-Key the same request is done once, and asked "
    "again it is answered 409, that it was done and is not shown again."
)

ENDPOINTS = (
    Endpoint(
        operation="listKeys",
        method="GET",
        path="/keys",
        right=Right.KEYS,
        summary="List the keys of a workspace by name; their secrets are nowhere",
        description=_OPERATORS,
        query=models.KeyQuery,
        answer=models.ApiKeys,
        handle=list_,
    ),
    Endpoint(
        operation="createKey",
        method="POST",
        path="/keys",
        right=Right.KEYS,
        summary="Make a key",
        description=f"{_ONCE} {_OPERATORS}",
        given=models.NewKey,
        example={"name": "shop", "role": "triggerOperator", "reason": "the web shop"},
        answer=models.NewSecret,
        status=201,
        problems=(CONFLICT,),
        handle=create,
        shown_once=True,
    ),
    Endpoint(
        operation="rotateKey",
        method="POST",
        path="/keys/{name}/rotate",
        right=Right.KEYS,
        summary="Give a key another secret; the old one stays good for a while, no older one does",
        description=f"{_ONCE} {_OPERATORS}",
        given=models.RotateKey,
        example={"reason": "every quarter", "overlap_seconds": 86_400},
        answer=models.Secret,
        problems=(NOT_FOUND, CONFLICT),
        handle=rotate,
        shown_once=True,
    ),
    Endpoint(
        operation="revokeKey",
        method="POST",
        path="/keys/{name}/revoke",
        right=Right.KEYS,
        summary="Take a key back: within a second or so nothing is done for it any more",
        description=f"A key may revoke itself. {_OPERATORS}",
        given=models.RevokeKey,
        example={"reason": "it was mailed around"},
        answer=models.RevokedKey,
        problems=(NOT_FOUND,),
        handle=revoke,
    ),
    Endpoint(
        operation="getKeyLog",
        method="GET",
        path="/keys/{name}/log",
        right=Right.KEYS,
        summary="Show who made, rotated and revoked the keys of a name, and why",
        description=_OPERATORS,
        query=models.KeyLogQuery,
        answer=models.KeyActions,
        problems=(NOT_FOUND,),
        handle=log,
    ),
)
