"""Models of pauses: what requests say and what answers say about what is stopped."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from dispatcher.engine.rules.pauses import Scope
from dispatcher.http.models import Asked, Cursor, InWorkspace, Limit, Reason, ShortText, Tenant, page_model

EVERYWHERE = "In all workspaces: for operators only. Providers and tenants are paused everywhere or not at all."


class PauseQuery(Asked, frozen=True):
    """Which pauses."""

    scope: Annotated[Scope | Literal["run"] | None, Meta(description="Of what kind of thing.")] = None
    tenant_id: Tenant | None = None
    workspace_id: InWorkspace | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class NewPause(Asked, frozen=True, kw_only=True):
    """What is to be stopped, and why."""

    scope: Annotated[Scope, Meta(description="What it is.")]
    name: Annotated[ShortText | None, Meta(description="What it is called; the workspace itself needs none.")] = None
    reason: Reason
    everywhere: Annotated[bool, Meta(description=EVERYWHERE)] = False
    tenant_id: Tenant | None = None
    workspace_id: InWorkspace | None = None


class Pause(Struct, frozen=True, kw_only=True):
    """What is stopped, where, since when, by whom and why."""

    id: int
    scope: Annotated[str, Meta(description="channel, template, workspace, provider, tenant, or run.")]
    name: str
    tenant_id: Annotated[str | None, Meta(description="In whose workspace; null: everywhere.")]
    workspace_id: str | None
    since: datetime
    actor: str
    reason: str


class OpenedPause(Pause, frozen=True, kw_only=True):
    """The pause that is open now."""

    already: Annotated[bool, Meta(description="Whether it was paused before, by whom and for what it says.")]


Pauses = page_model("Pauses", "pauses", Pause, "A page, the oldest first.")


class Resumed(Struct, frozen=True, kw_only=True):
    """What goes on."""

    id: int
    scope: str
    name: str
    tenant_id: str | None
    workspace_id: str | None
    resumed: bool


PAUSE = Pause(
    id=7,
    scope="channel",
    name="sms",
    tenant_id="acme",
    workspace_id="default",
    since=datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC),
    actor="key ann",
    reason="wrong prices",
)
PAUSES = Pauses([PAUSE], next_cursor=None)
OPENED_PAUSE = OpenedPause(**structs.asdict(PAUSE), already=False)
RESUMED = Resumed(id=7, scope="channel", name="sms", tenant_id="acme", workspace_id="default", resumed=True)
