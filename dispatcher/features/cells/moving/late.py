"""Late rows: what people and providers have told the source while its doors were being shut goes to the target.

Suppressions, preferences and receipts are taken whatever the placement is, some by a request that had looked at it
before. What came behind the copy is brought over before the source is cleaned.
"""

from dispatcher.db.statements import statements
from dispatcher.features.cells.moving.cell_connections import Cell

_SQL = statements(__name__)

KINDS = ("suppressions", "preferences", "receipts")


async def bring(source: Cell, target: Cell, tenant: str, move: int) -> None:
    """Bring what has come since the tenant was stopped; what the target has already is left as it is."""
    since = await source.control.fetchval(_SQL["since"], move)
    for kind in KINDS:
        rows = await source.control.fetchval(_SQL[kind], tenant, since)
        await target.control.fetch(_SQL[f"bring_{kind}"], rows)
