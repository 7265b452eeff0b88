"""The audit: every action in the workspace, with its actor and reason."""

from typing import get_args

from dispatcher.console.forms import read_times
from dispatcher.console.page import Answer, Visit, page
from dispatcher.features.audit.endpoints import list_audit
from dispatcher.features.audit.models import Kind
from dispatcher.http.roles import Right

ROWS = 50
# Where what an action was about is shown.
PLACES = {
    "delivery": "/deliveries/",
    "run": "/runs/",
    "workflow": "/workflows/",
    "template": "/templates/",
    "schedule": "/schedules/",
    "key": "/keys/",
    "campaign": "/campaigns/",
    "sequence": "/sequences/",
}


@page("/audit", Right.AUDIT)
async def audit(visit: Visit) -> Answer:
    """List actions, the newest first."""
    times = read_times(visit.query, "since", "until")
    found = await visit.ask(list_audit, query={"limit": ROWS, **visit.query, **times})
    return visit.show("system/audit.html", found=found, kinds=get_args(Kind), places=PLACES)
