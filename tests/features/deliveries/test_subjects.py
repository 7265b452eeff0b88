"""The subjects of deliveries in lists: rendered as they are sent, and left out where that cannot be told."""

import json

import pytest

from dispatcher.config.settings import Limits
from dispatcher.db.database import Database
from dispatcher.features.deliveries.store import SUBJECT_BYTES_MAX
from dispatcher.features.deliveries.subjects import CHARACTERS_MAX, subjects
from tests.support.scene import Connection

DELIVERY = """
    INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, template_name, locale, variables)
    SELECT gen_random_uuid(), 'email', 'ann@example.org', parts, CASE WHEN parts IS NULL THEN 'order' END, $2, $3
      FROM (SELECT $1::jsonb AS parts) AS given RETURNING id"""
LOOP = "{% for i in (1..900) %}{% for j in (1..900) %}x{% endfor %}{% endfor %}"


async def _put(connection: Connection, parts: object, locale: str | None = None, **variables: object) -> int:
    source = None if parts is None else json.dumps(parts)
    return int(await connection.fetchval(DELIVERY, source, locale, json.dumps(variables)))


@pytest.mark.parametrize(
    ("parts", "subject"),
    [
        ({"subject": "Order {{ id }}", "text": "Hello"}, "Order 17"),
        ({"title": "Title {{ id }}", "body": "Hello"}, "Title 17"),
        ({"body": "\n \n  Hello\t{{ name }}, \nyour order"}, "Hello Ann,"),
        ({"html": "<p>Hello</p>", "text": "In plain"}, "In plain"),
        ({"body": "x" * 200}, "x" * (CHARACTERS_MAX - 1) + "…"),
        # Each of these cannot be told.
        ({"subject": "Order {{ number }}"}, None),
        ({"html": "<p>Hello</p>"}, None),
        ({"body": " "}, None),
        ({"body": LOOP}, None),
        ({"body": "x" * (SUBJECT_BYTES_MAX + 1)}, None),
        ({"body": "{% if"}, None),
    ],
)
async def test_the_subject_or_the_first_line_is_rendered(
    database: Database, connection: Connection, parts: object, subject: str | None
) -> None:
    number = await _put(connection, parts, id=17, name="Ann")
    assert await subjects(database, Limits(), [number]) == ({} if subject is None else {number: subject})


async def _publish(connection: Connection, subject: str) -> None:
    sources = {
        "en": {"parts": {"subject": subject, "text": "x"}, "partials": {}},
        "de": {"parts": {"subject": "{% render 'hail' %} {{ id }}", "text": "x"}, "partials": {"hail": "Bestellung"}},
    }
    draft: dict[str, object] = {
        "tenant_id": "default",
        "workspace_id": "default",
        "name": "order",
        "channel": "email",
        "rights": [],
    }
    draft |= {"default_locale": "en", "variables": ["id"], "sources": sources}
    await connection.execute("SELECT dispatcher.put_templates($1, true, 'ann')", json.dumps([draft]))


async def test_a_stored_template_is_rendered_in_the_version_and_locale_of_the_delivery(
    database: Database, connection: Connection
) -> None:
    await _publish(connection, "Order {{ id }}")
    old = await _put(connection, None, id=17)
    await _publish(connection, "Your order {{ id }}")
    new, german = await _put(connection, None, id=18), await _put(connection, None, locale="de", id=19)
    plain = await _put(connection, {"subject": "Hi", "text": "x"})
    found = await subjects(database, Limits(), [plain, new, old, german])
    assert found == {old: "Order 17", new: "Your order 18", german: "Bestellung 19", plain: "Hi"}
