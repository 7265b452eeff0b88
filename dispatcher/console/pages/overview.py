"""The overview: what needs somebody, and what goes on."""

from markupsafe import Markup

from dispatcher.console.page import Answer, Visit, page
from dispatcher.features.deliveries.endpoints import list_deliveries
from dispatcher.http.roles import Right


@page("/", Right.LOGS)
async def overview(visit: Visit) -> Answer:
    """Show what needs somebody, and what goes on; a stream keeps it up to date."""
    drawn = await visit.board.look()
    if not drawn.figures.has_ended and not drawn.figures.needs and await _is_empty(visit):
        lacks = " ".join(f"{one}." for one in drawn.figures.lacks)
        return visit.show("overview_empty.html", lacks=lacks, channels=sorted(visit.config().channels))
    # They were drawn from templates of their own, which escape.
    fragments = {name: Markup(html) for name, html in drawn.fragments.items()}  # noqa: S704 - as the line above says
    return visit.show("overview.html", board=drawn.figures, fragments=fragments)


async def _is_empty(visit: Visit) -> bool:
    """Whether nothing was ever written, as far as the key may see."""
    if not visit.may(Right.DELIVERIES):
        return False
    return not (await visit.ask(list_deliveries, query={"limit": 1})).deliveries
