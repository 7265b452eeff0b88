"""Pauses: what is paused, where, since when, by whom and why; paused and resumed."""

from typing import get_args

from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.engine.rules.pauses import Scope
from dispatcher.features.pauses.endpoints import create_pause, get_pause, list_pauses, resume_pause
from dispatcher.http.roles import Right

ROWS = 50


@page("/pauses", Right.PAUSES)
async def pauses(visit: Visit) -> Answer:
    """List open pauses, the oldest first."""
    found = await visit.ask(list_pauses, query={"limit": ROWS, **visit.query})
    return visit.show("system/pauses.html", found=found, scopes=get_args(Scope))


@form("/pauses/new", create_pause)
async def pause(visit: Visit) -> Form:
    """Pause something."""
    scopes = [(one, one) for one in get_args(Scope)]
    asked = {name: visit.query.get(name, "") for name in ("scope", "name")}
    return Form(
        title="Pause what?",
        text="Marks stop within a second; what waits keeps waiting, also through restarts, until it is resumed.",
        fields=[
            Field("scope", "What", "choice", value=asked["scope"] or "channel", choices=scopes, required=True),
            Field("name", "Its name", value=asked["name"], hint="Leave it empty for the workspace."),
            Field("everywhere", "In all workspaces", "check", hint="For operators. Providers and tenants always are."),
        ],
        button="Pause it",
        risk=True,
        back="/pauses",
        done="It is paused.",
    )


@form("/pauses/{pause_id}/resume", resume_pause)
async def resume(visit: Visit) -> Form:
    """End a pause."""
    found = await visit.ask(get_pause)
    return Form(
        title=f"Resume {found.scope} {found.name}?",
        text=f"Paused by {found.actor}: {found.reason}. What waited for it is sent.",
        button="Resume it",
        back="/pauses",
        done=f"{found.scope.capitalize()} {found.name} goes on.",
    )
