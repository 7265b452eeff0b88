"""Furniture of sequences: one with contacts at its steps, and messages of every outcome."""

import json

from tests.support.scene import Connection

NAME = "onboarding"
_STEPS = (("Welcome", 0, "email"), ("First steps", 2, "email"), ("Trial ends", 7, "sms"))
_DAY = {"kind": "day", "step": 0, "days": 3}
_ENTRY = {"days": 3, "hour": None, "zone": "UTC", "contact_zone": False}
_LOGS = ("sent", "sent", "skipped", "failed", "pending")
_LOG = """
    INSERT INTO dispatcher.deliveries (run_id, node, sequence_id, contact_id, idempotency_key, channel, recipient,
                                       template, scheduled_for)
    SELECT $1, $2, s.id, r.contact_id, $3, 'email', 'ann@example.org', $4, '2040-01-01'
      FROM dispatcher.sequences s, dispatcher.runs r WHERE s.name = 'onboarding' AND r.id = $1 RETURNING id
"""
_STATES = {
    "sent": "ready = false, status = 'sent', finished_at = now()",
    "skipped": "ready = false, status = 'skipped', finished_at = now(), error = $2",
    "failed": "ready = false, status = 'failed', finished_at = now(), error = $2",
}


async def furnish(connection: Connection, words: str) -> int:
    """Make it, with these words in each text; answer an enrolment. Its contacts are those of campaigns."""
    settings = {"timeZone": "Europe/Berlin", "description": words, "stopOn": "bought", "topic": "news"}
    steps = [
        {"name": f"{name} {words}", "dayOffset": day, "stepOrder": order, "sendHour": 9}
        | {"channel": channel, "content": words}
        for order, (name, day, channel) in enumerate(_STEPS, 1)
    ]
    put = "SELECT dispatcher.put_sequence('default', 'default', $1, $2, $3, NULL, $4)"
    await connection.execute(put, NAME, json.dumps(settings), json.dumps(steps), words)
    ids = await connection.fetch(
        "SELECT t.id FROM dispatcher.sequence_steps t JOIN dispatcher.sequences s ON s.id = t.sequence_id"
        " WHERE s.name = $1 ORDER BY t.step_order",
        NAME,
    )
    node = f"day-{ids[0]['id']}"
    await connection.execute(
        "SELECT dispatcher.publish_sequence('default', 'default', $1, 1, '{}', $2, $3, 2::smallint, $4)",
        NAME,
        json.dumps({"name": NAME, "entry": node, "nodes": {node: _DAY}}),
        json.dumps(_ENTRY | {"node": node}),
        words,
    )
    enrol = "SELECT enrollment_id FROM dispatcher.enrol($1, $2, actor => $3)"
    first, second, _ = [await connection.fetchval(enrol, NAME, key, words) for key in ("ann", "kwame", "rosa")]
    await connection.execute("SELECT dispatcher.pause_run($1, $2, 'default', 'default', $2)", second, words)
    for number, outcome in enumerate(_LOGS):
        said = str(ids[number % len(ids)]["id"]), f"log {number}: {words}", json.dumps({"text": words})
        delivery = await connection.fetchval(_LOG, first, *said)
        if outcome in _STATES:
            given = (words,) if "$2" in _STATES[outcome] else ()
            change = f"UPDATE dispatcher.delivery_state SET {_STATES[outcome]} WHERE id = $1"
            await connection.execute(change, delivery, *given)
    return int(first)
