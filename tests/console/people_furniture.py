"""People of the furniture: contacts with messages, suppressions and topics."""

import json

from tests.support.scene import Connection

# A contact that others are beside: its key is in paths.
ANN = "ann@shop:20118"
_OTHERS = (("c-20119", "Bo Chen", "trial"), ("c-20120", "Carla Diaz", "customer"), ("c-20121", "Dmitri Ek", "lead"))
_PUT = "SELECT dispatcher.put_contact('default', 'default', $1, $2, 'put', NULL, 'key shop')"
_SENT = """
    WITH sent AS (
        INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, template_name, topic,
                                           scheduled_for)
        VALUES ('ann:' || $1, 'email', 'ann@example.org', $2, 'first-steps', 'news', '2040-01-01') RETURNING id
    ) SELECT id FROM sent
"""
_ENDED = (
    "UPDATE dispatcher.delivery_state SET ready = false, status = $2, finished_at = now(), error = $3 WHERE id = $1"
)
_SAID = """
    INSERT INTO dispatcher.suppressions (kind, address, actor, reason, source)
    VALUES ('phone', '+4741200118', $1, $1, 'bounce');
"""
_TOPIC = """
    INSERT INTO dispatcher.topic_preferences (kind, address, topic, subscribed, actor, reason)
    SELECT 'email', 'ann@example.org', topic, topic <> 'news', $1, $1 FROM unnest('{news,orders}'::text[]) AS topic
"""


async def furnish(connection: Connection, words: str) -> dict[str, str]:
    """Make them, with these words in each text; answers their names in paths."""
    await connection.execute(_PUT, ANN, _contact(words, words))
    for key, name, status in _OTHERS:
        await connection.execute(_PUT, key, json.dumps({"name": name, "status": status, "tags": ["newsletter"]}))
    for status, error in (("sent", None), ("failed", words), ("skipped", words)):
        mail = json.dumps({"subject": words, "text": words})
        number = await connection.fetchval(_SENT, status, mail)
        await connection.execute(_ENDED, number, status, error)
    await connection.execute(_SAID, words)
    await connection.execute(_TOPIC, words)
    return {"contacts.key": ANN, "place": "0"}


def _contact(name: str, words: str) -> str:
    addresses = [("email", "ann@example.org"), ("phone", "+4741200118"), ("chat", words)]
    return json.dumps(
        {
            "name": name,
            "company": words,
            "status": words[:100],
            "time_zone": "Europe/Oslo",
            "locale": "en",
            "tags": [words[:100], "trial"],
            "attributes": {"plan": words},
            "addresses": [{"kind": kind, "address": one, "written": one} for kind, one in addresses],
        }
    )
