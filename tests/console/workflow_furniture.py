"""Workflows and runs among the furniture: two versions of a workflow, and a run that waits in the midst of it."""

import json
from typing import Any

from dispatcher.plans.definition.definition import Known, compile_definition
from dispatcher.plans.plan import Plan
from dispatcher.plans.plan import encode as encode_plan
from tests.support import flows
from tests.support.scene import Connection

NAME = "order-placed"
_KNOWN = Known(["email", "sms", "push", "voice", "http"], ["crm"])
_TRIGGER = "SELECT execution_id FROM dispatcher.trigger_workflow($1, $2, $3, triggered_by => $4)"
_ENTRY = """
    INSERT INTO dispatcher.run_entries (run_id, number, at, event, step, node, added, error)
    VALUES ($1, $2, now() - make_interval(secs => $3), $4, $5, $6, $7, $8)
"""
_ENDED = """
    UPDATE dispatcher.delivery_state SET ready = false, status = $2, finished_at = now(), error = $3 WHERE id = ANY ($1)
"""
# What happened: seconds ago, event, node; errors and results are put in below.
_LOG = (
    (4_200, "started", "confirm"),
    (4_190, "failed", "confirm"),
    (4_189, "started", "confirm-sms"),
    (4_187, "succeeded", "confirm-sms"),
    (4_186, "succeeded", "large"),
    (4_186, "skipped", "call-store"),
    (4_185, "started", "paid"),
    (3_229, "succeeded", "paid"),
    (3_228, "started", "shipped"),
)


def definition(words: str, *, days: int) -> dict[str, Any]:
    """A workflow with a branch, waits and messages, with these words in its texts."""
    nodes = [
        {
            "id": "confirm",
            "type": "email",
            "to": "{{ customer.email }}",
            "subject": f"Order {{{{ order.id }}}} {words}",
            "text": "Hello {{ customer.name }}",
            "on_failure": "continue",
        },
        {"id": "confirm-sms", "type": "sms", "to": "{{ customer.phone }}", "body": f"Order {{{{ order.id }}}} {words}"},
        {"id": "large", "type": "branch", "description": words},
        {"id": "call-store", "type": "voice", "to": "+4930123456", "body": "A large order"},
        {"id": "paid", "type": "wait", "event": "paid", "timeout": "1h"},
        {"id": "shipped", "type": "wait", "event": "shipped", "timeout": "7d"},
        {"id": "on-its-way", "type": "push", "to": "{{ customer.device }}", "title": "Shipped", "body": words},
        {"id": "later", "type": "delay", "duration": f"{days}d"},
        {"id": "review", "type": "email", "to": "{{ customer.email }}", "subject": "How was it?", "text": words},
    ]
    edges = [
        ("confirm", "confirm-sms", None),
        ("confirm", "large", None),
        ("confirm-sms", "shipped", None),
        ("large", "call-store", "order.total > 500"),
        ("large", "paid", f"order.note != '{words}'"),
        ("call-store", "shipped", None),
        ("paid", "shipped", None),
        ("shipped", "on-its-way", None),
        ("shipped", "later", None),
        ("later", "review", None),
    ]
    return {
        "name": NAME,
        "description": words,
        "entryNodeId": "confirm",
        "nodes": nodes,
        "edges": [
            {"from": start, "to": end} | ({} if condition is None else {"condition": condition})
            for start, end, condition in edges
        ],
        "required_fields": ["order", "customer"],
    }


async def furnish(connection: Connection, words: str) -> int:
    """Make all of it; answers the run."""
    for days in (5, 7):
        given = definition(words, days=days)
        made = compile_definition(given, _KNOWN)
        assert isinstance(made, Plan), made
        await connection.fetchrow(
            flows.PUT, "default", "default", NAME, json.dumps(given), encode_plan(made).decode(), words, True
        )
    customer = {"name": words, "email": "ann@example.org", "phone": "+4917012345", "device": "d-1"}
    given = {"order": {"id": 10482, "total": 84.5, "note": "a gift"}, "customer": customer}
    async with connection.transaction():
        run: int = await connection.fetchval(_TRIGGER, NAME, json.dumps(given), f"order-{words}", words)
        await flows.at_node(connection, run, "shipped", "waiting", 2_000_000_000.0)
        await _log(connection, run, words, [one["id"] for one in definition(words, days=5)["nodes"]])
        await connection.execute(_ENDED, await flows.ordered(connection, run, node="confirm-sms"), "sent", None)
        await connection.execute(_ENDED, await flows.ordered(connection, run, node="confirm"), "failed", words)
    return run


async def _log(connection: Connection, run: int, words: str, names: list[str]) -> None:
    await connection.execute("DELETE FROM dispatcher.run_entries WHERE run_id = $1", run)
    state = "UPDATE dispatcher.runs SET state = state || jsonb_build_object('entries', $2::int) WHERE id = $1"
    await connection.execute(state, run, len(_LOG))
    for number, (ago, event, node) in enumerate(_LOG):
        added = json.dumps({node: {"status": event, "by": words}}) if event == "succeeded" else None
        error = words if event in ("failed", "skipped") else None
        await connection.execute(_ENTRY, run, number, ago, event, names.index(node), node, added, error)
