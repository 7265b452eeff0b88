"""Models of the requests and answers about pauses."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from dispatcher.engine.rules.pauses import Scope
from dispatcher.http.models import BEGUN, Asked, Cursor, InWorkspace, Limit, Reason, ShortText, Tenant, page_model

EVERYWHERE = "In all workspaces: for operators only. Providers and tenants are paused everywhere or not at all."


class PauseQuery(Asked, frozen=True):
    """Which pauses."""

    scope: Annotated[Scope | Literal["run", "campaign_run"] | None, Meta(description="Of the pause.")] = None
    tenant_id: Tenant | None = None
    workspace_id: InWorkspace | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class NewPause(Asked, frozen=True, kw_only=True):
    """A pause to open, and why."""

    scope: Annotated[Scope, Meta(description="What is paused.")]
    name: Annotated[ShortText | None, Meta(description="Of what is paused; optional for a workspace.")] = None
    reason: Reason
    everywhere: Annotated[bool, Meta(description=EVERYWHERE)] = False
    tenant_id: Tenant | None = None
    workspace_id: InWorkspace | None = None


class Pause(Struct, frozen=True, kw_only=True):
    """An open pause: what is paused, where, since when, by whom and why."""

    id: int
    scope: Annotated[
        str, Meta(description="channel, template, workspace, provider, tenant, run, campaign_run, or moved.")
    ]
    name: str
    tenant_id: Annotated[str | None, Meta(description="Of the workspace; null: everywhere.")]
    workspace_id: str | None
    since: datetime
    actor: str
    reason: str


class OpenedPause(Pause, frozen=True, kw_only=True):
    """The open pause."""

    already: Annotated[bool, Meta(description="Whether it was open before; then actor and reason are those of then.")]


Pauses = page_model("Pauses", "pauses", Pause, "A page, the oldest first.")


class Resumed(Struct, frozen=True, kw_only=True):
    """The pause that was resumed."""

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
    since=BEGUN,
    actor="key ann",
    reason="wrong prices",
)
PAUSES = Pauses([PAUSE], next_cursor=None)
OPENED_PAUSE = OpenedPause(**structs.asdict(PAUSE), already=False)
RESUMED = Resumed(id=7, scope="channel", name="sms", tenant_id="acme", workspace_id="default", resumed=True)
