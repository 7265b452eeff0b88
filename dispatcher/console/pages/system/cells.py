"""All cells of the installation, each as it answers within two seconds, for operators."""

from dispatcher.console.page import Answer, Visit, page
from dispatcher.features.cells.endpoints import list_cells
from dispatcher.http.problems import NOT_FOUND, Problem
from dispatcher.http.roles import Right


@page("/cells", Right.KEYS)
async def cells(visit: Visit) -> Answer:
    """Show each cell, and what is wrong among them."""
    try:
        found = await visit.ask(list_cells)
    except Problem as problem:
        if problem.kind is not NOT_FOUND:
            raise
        found = None
    return visit.show("system/cells.html", found=found, own=visit.config().cell.number)
