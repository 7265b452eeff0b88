"""Rules for tests: a template, a rule, and an event, each by one call."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.scene import Connection

LEAD = {"name": "Ann", "email": "ann@example.org", "phone": "+4917012345"}
QUOTE = {"number": "Q-17", "total": "120 EUR"}
STEP = {"template": "quote/sent", "recipients": {"includeLeadContact": True}}
ALL = "SELECT * FROM dispatcher.deliveries ORDER BY id"


async def put_template(
    connection: Connection, name: str = "quote/sent", channel: str = "email", *, reads: Sequence[str] = (), **where: str
) -> None:
    """Save and publish a template that reads these variables."""
    text = "Hello " + " ".join(f"{{{{ {one} }}}}" for one in reads)
    parts = {"subject": "Quote", "text": text} if channel == "email" else {"body": text}
    draft = {
        "tenant_id": "default",
        "workspace_id": "default",
        "name": name,
        "channel": channel,
        "default_locale": "en",
        "rights": [],
        "variables": list(reads),
        "sources": {"en": {"parts": parts, "partials": {}}},
    }
    await connection.execute("SELECT dispatcher.put_templates($1, true, 'ann')", json.dumps([draft | where]))


async def put_rule(
    connection: Connection,
    name: str = "quote_sent/email/lead",
    *steps: Mapping[str, Any],
    enabled: bool = True,
    **where: str,
) -> None:
    """Save a rule with these steps, or with one to the lead."""
    trigger, channel, audience = name.split("/")
    rule = {
        "trigger": trigger,
        "channel": channel,
        "audience": audience,
        "enabled": enabled,
        "steps": [dict(step) for step in steps or (STEP,)],
    }
    place = where.get("tenant_id", "default"), where.get("workspace_id", "default")
    await connection.execute("SELECT dispatcher.put_rules($1, $2, $3, 'ann')", *place, json.dumps([rule]))


async def notify(connection: Connection, trigger: str = "quote_sent", **fields: Any) -> list[dict[str, Any]]:
    """Tell an event, and return the answer. Objects are written as JSON; the lead is Ann, unless said otherwise."""
    fields = {"variables": {"quote": QUOTE}, "lead": LEAD} | fields
    names = list(fields)
    given = [json.dumps(one) if isinstance(one, dict) else one for one in fields.values()]
    arguments = ", ".join(f"{name} => ${place}" for place, name in enumerate(names, 2))
    rows = await connection.fetch(f"SELECT * FROM dispatcher.notify($1, {arguments})", trigger, *given)
    return [dict(row) | {"steps": json.loads(row["steps"])} for row in rows]


def by_pair(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The decisions of an answer, by channel and audience."""
    return {f"{row['channel']}/{row['audience']}": row["decision"] for row in rows}
