"""Audit over HTTP: what was done by whom in a workspace, whatever it was done to, as one list."""

from dispatcher.features.audit import models, store
from dispatcher.features.audit.store import Place
from dispatcher.http.cursors import cursor, microseconds, moment, read_numbers
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import Row, page
from dispatcher.http.roles import Right

NOUN = "audit"


@endpoint("GET", "/audit", Right.AUDIT, query=models.AuditQuery, answered=models.AUDIT)
async def list_audit(call: Call) -> Done:
    """List what was done by whom, the newest first.

    To deliveries, runs, workflows, templates, schedules and keys of the workspace; to suppressions and topics of its
    tenant, and what was paused in it or everywhere.
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


ENDPOINTS = (list_audit,)
