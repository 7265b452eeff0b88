"""The overview: what needs somebody, and what goes on."""

from dispatcher.console.page import Answer, Visit, page
from dispatcher.features.held.endpoints import list_held
from dispatcher.features.pauses.endpoints import list_pauses
from dispatcher.http.roles import Right


@page("/", None)
async def overview(visit: Visit) -> Answer:
    """Show what needs somebody."""
    held = await visit.ask(list_held, query={"limit": 1}) if visit.may(Right.HELD) else None
    pauses = await visit.ask(list_pauses) if visit.may(Right.PAUSES) else None
    return visit.show("overview.html", held=held, pauses=pauses)
