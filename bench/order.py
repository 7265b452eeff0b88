"""Order mails in an outbox: the template of `bench.micro.templates`, stored, and deliveries of it."""

import json
from typing import Any

from bench.micro.templates import ORDER, VALUES
from bench.server import Connection

SENDER = "Shop <shop@shop.example>"


def variables(number: int) -> dict[str, Any]:
    """The variables of one order's mail."""
    return VALUES | {"name": f"Ann {number}", "order": f"A-{number}"}


async def fill(connection: Connection, deliveries: int) -> None:
    """Store the template, and insert so many order mails of it, due now, to addresses in ten domains."""
    draft = {
        "tenant_id": "default",
        "workspace_id": "default",
        "name": "order",
        "channel": "email",
        "default_locale": "en",
        "rights": [],
        "variables": sorted(variables(0)),
        "sources": {"en": {"parts": ORDER, "partials": {}}},
    }
    await connection.fetch("SELECT * FROM dispatcher.put_templates($1::jsonb, true, 'bench')", json.dumps([draft]))
    await connection.execute(
        """
        INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template_name, variables, scheduled_for)
        SELECT 'order-' || i, 'email', 'ann' || i || '@d' || i % 10 || '.example', 'order',
               $1::jsonb || jsonb_build_object('order', 'A-' || i, 'name', 'Ann ' || i), now()
          FROM generate_series(1, $2::int) AS i
        """,
        json.dumps(variables(0)),
        deliveries,
    )
