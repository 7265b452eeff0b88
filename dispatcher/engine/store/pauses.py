"""Pauses as the pipeline asks for them: what is stopped now, and what waited for a pause that is over."""

from collections.abc import Iterable, Mapping
from typing import Any

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.pauses import PLACED, SCOPES, CampaignLimit, Inside, Pauses

_SQL = statements(__name__)


# Of one run or sequence, wherever it is; or of a tenant that is not in this cell.
RUNS = ("run", "campaign_run", "sequence", "moved")


async def current(database: Database) -> Pauses:
    """Return the open pauses, and the limits of open campaign runs."""
    found = await database.fetch(_SQL["current"])
    limits = {row["id"]: CampaignLimit(row["rate"], row["opens_at"]) for row in found if row["scope"] is None}
    return _sorted((row for row in found if row["scope"] is not None), limits)


def _sorted(found: Iterable[Mapping[str, Any]], limits: Mapping[int, CampaignLimit]) -> Pauses:
    everywhere: dict[str, dict[str, int]] = {scope: {} for scope in (*SCOPES, *RUNS)}
    places: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for one in found:
        if one["tenant_id"] is None or one["scope"] in RUNS:
            everywhere[one["scope"]][one["name"]] = one["id"]
        else:
            place = places.setdefault((one["tenant_id"], one["workspace_id"]), {scope: {} for scope in PLACED})
            place[one["scope"]][one["name"]] = one["id"]
    return Pauses(
        channels=everywhere["channel"],
        providers=everywhere["provider"],
        tenants=everywhere["tenant"] | everywhere["moved"],
        templates=everywhere["template"],
        runs=everywhere["run"],
        campaign_runs=everywhere["campaign_run"],
        sequences=everywhere["sequence"],
        campaign_limits=limits,
        places={
            at: Inside(next(iter(of["workspace"].values()), None), of["channel"], of["template"])
            for at, of in places.items()
        },
    )


async def unpark(database: Database, page: int) -> int:
    """Make ready what waited for a pause that is over; says how many it were."""
    return int(await database.value(_SQL["unpark"], page))
