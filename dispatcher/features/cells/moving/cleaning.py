"""Cleaning: the rows of a tenant that is in another cell are deleted, page by page."""

from collections.abc import Callable

from dispatcher.base import fault_points
from dispatcher.base.errors import MoveInterrupted
from dispatcher.db.statements import statements
from dispatcher.features.cells.moving.cell_connections import AS_THEY_ARE, Cell
from dispatcher.features.cells.moving.rows.tables import tables

_SQL = statements(__name__)


async def delete_all(cell: Cell, tenant: str, tell: Callable[[str], None]) -> None:
    """Delete all rows of a tenant, those that lead to others first. Raises MoveInterrupted where it is at home."""
    await cell.data.execute(AS_THEY_ARE)
    side = cell.side(tenant)
    for table in reversed(list(tables())):
        for page in await side.pages(table):
            async with cell.data.transaction():
                if await cell.data.fetchval(_SQL["elsewhere"], tenant) is None:
                    raise MoveInterrupted(f"tenant {tenant} is not placed elsewhere: nothing more was deleted")
                await side.delete_page(table, page)
            if fault_points.ARMED:
                fault_points.passing("move.cleaned")
    tell(f"nothing of the tenant is left in cell {cell.number}")
