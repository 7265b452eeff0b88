"""The store of the settings of workspaces."""

import msgspec

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.workspaces.models import Settings
from dispatcher.features.workspaces.rules import phone_rule

_SQL = statements(__name__)


async def show(database: Database, here: Workspace) -> Settings:
    """Return the settings of a workspace; what was never set has its default."""
    rows = await database.fetch(_SQL["show"], here.tenant_id, here.workspace_id)
    return msgspec.convert(dict(rows[0]), Settings) if rows else Settings()


async def put(database: Database, here: Workspace, region: str | None, time_zone: str, actor: str) -> None:
    """Save the settings of a workspace. Raises ValueError for a region that is not known."""
    rule = None if region is None else msgspec.json.encode(phone_rule(region)).decode()
    await database.fetch(_SQL["put"], here.tenant_id, here.workspace_id, region, time_zone, rule, actor)
