"""A template of the furniture: three versions, of which the second is published."""

import json

from tests.support.scene import Connection

NAME = "order/confirmed"
_PUT = "SELECT dispatcher.put_templates($1::jsonb, $2, $3)"


async def furnish(connection: Connection, words: str) -> dict[str, str]:
    """Make it, with these words in each text; answers its name in paths."""
    for number in (1, 2, 3):
        await connection.execute(_PUT, json.dumps([_version(words, number)]), number == 2, words)
    return {"templates.name": NAME.replace("/", "%2F")}


def _version(words: str, number: int) -> dict[str, object]:
    lines = [f"Hello {{{{ contact.name }}}}, {words}", "", *(f"{n}. item" for n in range(12)), f"Version {number}"]
    texts = {"subject": f"Order {{{{ order }}}} {words}", "text": "\n".join(lines), "html": f"<p>{lines[0]}</p>{words}"}
    content = {"parts": texts, "partials": {"footer": f"{words} {number // 2}"}}
    return {
        "tenant_id": "default",
        "workspace_id": "default",
        "name": NAME,
        "channel": "email",
        "default_locale": "en",
        "rights": [],
        "variables": ["contact.name", "order", words],
        "sources": {"en": content, "de": content},
    }
