"""Audit over HTTP: one list of all actions in a workspace."""

from dispatcher.features.audit import models, store
from dispatcher.features.audit.store import Place
from dispatcher.http.cursors import cursor, microseconds, moment, read_numbers
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import Row, page
from dispatcher.http.roles import Right

NOUN = "audit"


@endpoint("GET", "/audit", Right.AUDIT, query=models.AuditQuery, answered=models.AUDIT)
async def list_audit(call: Call) -> Done:
    """List actions, each with its actor, the newest first.

    Actions on deliveries, runs, workflows, templates, schedules and keys of the workspace, on suppressions and topics
    of its tenant, and pauses in it or everywhere.
    """
    asked: models.AuditQuery = call.query
    at = None
    if asked.cursor is not None:
        since, rank, *last = read_numbers(NOUN, asked.cursor, 4)
        at = Place(moment(since), min(rank, 2**31 - 1), *last)
    rows = await store.listed(call.database, call.workspace, asked, at, asked.limit + 1)
    return Done(models.Audit(*page(rows, asked.limit, models.AuditEntry, _end)))


def _end(row: Row) -> str:
    return cursor(NOUN, microseconds(row["at"]), row["rank"], row["id"], row["number"])
