"""Furniture: a workspace with something of everything that the console shows, with the same words in each text."""

import json
from typing import Any

from msgspec import Struct

from tests.console import (
    campaign_furniture,
    people_furniture,
    rule_furniture,
    sequence_furniture,
    template_furniture,
    workflow_furniture,
)
from tests.support import home
from tests.support.scene import Connection

_DELIVERY = """
    INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, variables, scheduled_for)
    VALUES ($1, $2, $3, $4, $5, '2040-01-01') RETURNING id
"""
# Words for pictures; tests plant script.
PLAIN = "550 5.1.1 unknown user"
# The states of a delivery, as the engine leaves them.
STATES = {
    "pending": "ready = ready",
    "held": "ready = false, marked = true, held = true, token = 1, held_at = now(), error = $2",
    "sent": "ready = false, status = 'sent', finished_at = now(), error = NULL, provider_message_id = $2",
    "failed": "ready = false, status = 'failed', finished_at = now(), error = $2",
    "skipped": "ready = false, status = 'skipped', finished_at = now(), error = $2",
}


class Furnished(Struct):
    """The names of what there is, by the names in paths; and deliveries by their state."""

    names: dict[str, str]
    deliveries: dict[str, int]

    def path(self, pattern: str) -> str:
        """A page's path with its names filled in."""
        parts = pattern.split("/")
        section = parts[1]
        named = [self._name(section, part[1:-1]) if part.startswith("{") else part for part in parts]
        return "/".join(named)

    def _name(self, section: str, name: str) -> str:
        return self.names.get(f"{section}.{name}") or self.names[name]


async def furnish(connection: Connection, words: str) -> Furnished:
    """Make all of it, with these words in each text."""
    there = await home.furnish(connection)
    deliveries = {state: await _delivery(connection, state, words) for state in STATES}
    captured = await connection.fetchval("SELECT max(id) FROM dispatcher.captured_messages WHERE channel = 'email'")
    await rule_furniture.furnish(connection, words)
    names = {
        "delivery_id": str(deliveries["failed"]),
        "run_id": str(there.runs[""]),
        "campaign_run_id": str(there.campaign_runs[""]),
        "pause_id": str(there.pause),
        "job_id": str(there.job),
        "captured_id": str(captured),
        "erasure_id": str(there.erasure),
        "event_id": str(there.event),
        "enrolment_id": str(there.enrolment),
        "step": str(there.step),
        "key": "customer-17",
        "name": "welcome",
        "runs.run_id": str(await workflow_furniture.furnish(connection, words)),
        "workflows.name": workflow_furniture.NAME,
        **{f"{section}.name": name.replace("%2F", "/") for section, name in home._NAMES.items()},
        **await campaign_furniture.furnish(connection, words),
        "sequences.name": sequence_furniture.NAME,
        "rules.name": rule_furniture.NAME,
        "enrolments.enrolment_id": str(await sequence_furniture.furnish(connection, words)),
        **await people_furniture.furnish(connection, words),
        **await template_furniture.furnish(connection, words),
    }
    return Furnished(names, deliveries)


async def _delivery(connection: Connection, state: str, said: str) -> int:
    """A mail in a state, with these words in all of its texts; captured, if it was sent."""
    mail = {"subject": said, "text": said, "html": f"<p>{said}</p>"}
    given = f"{state}:{said}", "email", f"{said}@example.org", json.dumps(mail), json.dumps({"name": said})
    number: int = await connection.fetchval(_DELIVERY, *given)
    words: tuple[Any, ...] = (said,) if "$2" in STATES[state] else ()
    await connection.execute(f"UPDATE dispatcher.delivery_state SET {STATES[state]} WHERE id = $1", number, *words)
    if state in ("sent", "failed"):
        await connection.execute(
            """INSERT INTO dispatcher.captured_messages (delivery_id, attempt, tenant_id, workspace_id, channel,
                                                         idempotency_key, recipient, parts, options)
               SELECT id, 1, tenant_id, workspace_id, channel, idempotency_key, recipient, template, options
                 FROM dispatcher.deliveries WHERE id = $1""",
            number,
        )
        await connection.execute(
            """INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, reason)
               VALUES ($1, 1, 1, 'retry', $2)""",
            number,
            said,
        )
        await connection.execute(
            """INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
               VALUES ($1, $2, 'move', 'queued', $2)""",
            number,
            said,
        )
    return number
