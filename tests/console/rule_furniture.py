"""Furniture of rules: an own trigger, and a rule of it with several steps."""

import json

from tests.support.scene import Connection

# As it stands in a path.
NAME = "order_paid%2Femail%2Flead"
_TRIGGER = {
    "variables": ["order.id", "lead.name"],
    "pairs": {"email/lead": "caller", "sms/lead": "none"},
}
_TEMPLATE = {
    "tenant_id": "default",
    "workspace_id": "default",
    "name": "receipt",
    "channel": "email",
    "default_locale": "en",
    "rights": [],
    "variables": ["order.id", "lead.name"],
}


async def furnish(connection: Connection, words: str) -> None:
    """Make it, with these words in each text."""
    parts = {"subject": "Order {{ order.id }} is paid", "text": f"Thank you, {{{{ lead.name }}}}. {words}"}
    template = _TEMPLATE | {"sources": {"en": {"parts": parts, "partials": {}}}}
    await connection.execute("SELECT dispatcher.put_templates($1, true, $2)", json.dumps([template]), words)
    sample = {"order": {"id": 17}, "lead": {"name": f"Ann {words}", "email": "ann@example.org"}}
    trigger = _TRIGGER | {"description": words, "sample": sample}
    put = "SELECT dispatcher.put_event_trigger('default', 'default', 'order_paid', $1, $2)"
    await connection.execute(put, json.dumps(trigger), words)
    steps = [
        {"template": "receipt", "offset_seconds": 0, "recipients": {"includeLeadContact": True}, "enabled": True},
        {
            "template": "receipt",
            "offset_seconds": 259_200,
            "recipients": {"customEmails": ["kim@example.org"], "includeAgent": True},
            "enabled": False,
        },
    ]
    rules = [
        {"trigger": "order_paid", "channel": "email", "audience": "lead", "enabled": True, "steps": steps},
        {"trigger": "order_paid", "channel": "sms", "audience": "lead", "enabled": False, "steps": []},
    ]
    await connection.execute("SELECT dispatcher.put_rules('default', 'default', $1, $2)", json.dumps(rules), words)
