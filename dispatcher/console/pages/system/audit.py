"""The audit: every action in the workspace, with its actor and reason."""

from typing import get_args

from dispatcher.base.errors import Fault
from dispatcher.console.forms import read_time
from dispatcher.console.page import Answer, Visit, page
from dispatcher.features.audit.endpoints import list_audit
from dispatcher.features.audit.models import Kind
from dispatcher.http.problems import faulty
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
    asked = {name: _time(name, text) if name in ("since", "until") else text for name, text in visit.query.items()}
    found = await visit.ask(list_audit, query={"limit": ROWS, **asked})
    return visit.show("system/audit.html", found=found, kinds=get_args(Kind), places=PLACES)


def _time(name: str, text: str) -> str:
    try:
        return read_time(text) if text else ""
    except ValueError as fault:
        raise faulty([Fault(f"query.{name}", str(fault))]) from None
