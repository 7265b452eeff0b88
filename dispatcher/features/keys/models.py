"""Models of the requests and answers about keys."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from dispatcher.http.bearer import KEY_NAME, KEY_NAME_FORM
from dispatcher.http.models import (
    BEGUN,
    Asked,
    Cursor,
    InWorkspace,
    Limit,
    LongCursor,
    Moment,
    Reason,
    ShortText,
    Tenant,
    page_model,
)
from dispatcher.http.roles import Role

# An old secret that is valid for longer is shared, not rotated.
OVERLAP_SECONDS_MAX = 90 * 86_400


class KeyQuery(Asked, frozen=True):
    """Which keys."""

    revoked: Annotated[bool, Meta(description="Also revoked keys.")] = False
    role: Role | None = None
    after: Annotated[ShortText | None, Meta(description="Only those with names after this one.")] = None
    tenant_id: Tenant | None = None
    workspace_id: InWorkspace | None = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class KeyLogQuery(Asked, frozen=True):
    """Which actions on the keys of a name."""

    tenant_id: Tenant | None = None
    workspace_id: InWorkspace | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key, without its secrets."""

    id: int
    tenant_id: str
    workspace_id: str
    name: str
    role: str
    state: Annotated[str, Meta(description="live, expired or revoked.")]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: Annotated[datetime | None, Meta(description="To the minute.")]
    prefixes: Annotated[list[str], Meta(description="How its valid secrets begin.")]
    old_secret_until: datetime | None


ApiKeys = page_model("ApiKeys", "keys", ApiKey, "A page, by name.")


class KeyChange(Asked, frozen=True, kw_only=True):
    """The workspace of a key, and why it is changed."""

    reason: Reason
    tenant_id: Tenant | None = None
    workspace_id: InWorkspace | None = None


class NewKey(KeyChange, frozen=True, kw_only=True):
    """A key to make."""

    name: Annotated[
        str, Meta(pattern=rf"^{KEY_NAME}$(?!\n)", extra=KEY_NAME_FORM, description="Its holder, or the application.")
    ]
    role: Annotated[Role, Meta(description="What the key may do.")]
    expires_at: Annotated[Moment | None, Meta(description="When it ends; never without it.")] = None


class RotateKey(KeyChange, frozen=True, kw_only=True):
    """The rotation of a key."""

    overlap_seconds: Annotated[
        float, Meta(ge=0, le=OVERLAP_SECONDS_MAX, description="How long the old secret stays valid.")
    ] = 86_400.0


class RevokeKey(KeyChange, frozen=True, kw_only=True):
    """The revocation of a key."""


class Secret(Struct, frozen=True, kw_only=True):
    """A secret of a key. It is shown only in this answer."""

    name: str
    tenant_id: str
    workspace_id: str
    prefix: Annotated[str, Meta(description="Its beginning, by which lists and logs name it.")]
    key: str


class NewSecret(Secret, frozen=True, kw_only=True):
    """A new key with its secret, which is shown only in this answer."""

    role: str


class RevokedKey(Struct, frozen=True):
    """The result of revoking a key."""

    name: str
    revoked: bool


class KeyAction(Struct, frozen=True, kw_only=True):
    """An action on a key."""

    id: int
    name: str
    role: str
    at: datetime
    actor: str
    action: str
    prefix: str | None
    reason: str


KeyActions = page_model("KeyActions", "actions", KeyAction, "A page, the newest first.")


_PREFIX = "dsp_a1B2c3D4e5F6"
_SECRET = {
    "name": "shop",
    "tenant_id": "default",
    "workspace_id": "default",
    "prefix": _PREFIX,
    "key": f"{_PREFIX}_{'x' * 43}",
}
_KEY = ApiKey(
    id=5,
    tenant_id="default",
    workspace_id="default",
    name="shop",
    role="triggerOperator",
    state="live",
    created_at=BEGUN,
    expires_at=None,
    revoked_at=None,
    last_used_at=BEGUN,
    prefixes=[_PREFIX],
    old_secret_until=None,
)
_ACTION = KeyAction(
    id=9,
    name="shop",
    role="triggerOperator",
    at=BEGUN,
    actor="key ann",
    action="create",
    prefix=_PREFIX,
    reason="the web shop",
)
API_KEYS = ApiKeys([_KEY], next_cursor=None)
NEW_SECRET = NewSecret(**_SECRET, role="triggerOperator")
SECRET = Secret(**_SECRET)
REVOKED_KEY = RevokedKey("shop", revoked=True)
KEY_ACTIONS = KeyActions([_ACTION], next_cursor=None)
