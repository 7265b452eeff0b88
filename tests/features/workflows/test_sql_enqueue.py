"""The SQL function for deliveries: its answer, and all faults of a call at once."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from dispatcher.db.database import Database
from tests.features.templates.support import draft, save
from tests.support.flows import faults
from tests.support.scene import Connection

LATER = datetime(2040, 1, 1, tzinfo=UTC)
GOOD: dict[str, Any] = {
    "channel": "sms",
    "recipient": "+4917012345",
    "idempotency_key": "k",
    "template": '{"body": "Hello"}',
}


async def _enqueue(connection: Connection, **given: Any) -> Any:
    named = ", ".join(f"{name} => ${number}" for number, name in enumerate(given, 1))
    return await connection.fetchrow(f"SELECT * FROM dispatcher.enqueue_delivery({named})", *given.values())


async def test_a_delivery_is_written_as_it_was_asked_for(connection: Connection) -> None:
    asked = {
        **GOOD,
        "variables": '{"name": "Ann"}',
        "options": '{"from": "x"}',
        "lane": "bulk",
        "scheduled_for": LATER,
        "expires_at": LATER + timedelta(days=1),
        "max_attempts": 7,
        "locale": "de",
        "topic": "news",
        "tenant_id": "acme",
        "workspace_id": "shop",
    }
    answer = await _enqueue(connection, **asked)
    row = await connection.fetchrow(
        """SELECT channel, recipient, idempotency_key, template::text, variables::text, options::text, lane,
                  scheduled_for, expires_at, max_attempts, locale, topic, tenant_id, workspace_id
             FROM dispatcher.deliveries WHERE id = $1""",
        answer["delivery_id"],
    )
    assert (answer["duplicate"], answer["status"]) == (False, "queued")
    assert row is not None
    assert dict(row) == {**asked, "lane": 2}


async def test_omitted_and_null_fields_get_defaults(connection: Connection) -> None:
    nulls = dict.fromkeys(
        ("variables", "options", "lane", "scheduled_for", "max_attempts", "tenant_id", "workspace_id")
    )
    one = await _enqueue(connection, **GOOD)
    other = await _enqueue(connection, **{**GOOD, "idempotency_key": "l"}, **nulls)
    rows = await connection.fetch(
        """SELECT to_jsonb(d) - '{id,idempotency_key,created_at,scheduled_for}'::text[] AS said
             FROM dispatcher.deliveries d
            WHERE id = ANY ($1)""",
        [one["delivery_id"], other["delivery_id"]],
    )
    assert rows[0]["said"] == rows[1]["said"]
    assert json.loads(rows[0]["said"])["lane"] == 1


async def test_a_known_key_answers_its_delivery_whatever_is_asked_now(connection: Connection) -> None:
    first = await _enqueue(connection, **GOOD)
    await connection.execute("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", first["delivery_id"])
    again = await _enqueue(connection, channel="?", recipient="", idempotency_key="k")
    assert (again["delivery_id"], again["duplicate"], again["status"]) == (first["delivery_id"], True, "skipped")


async def test_a_bad_call_names_every_fault(connection: Connection) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
        await _enqueue(
            connection,
            channel="E-Mail",
            recipient="",
            idempotency_key="x" * 256,
            variables="[]",
            options='"x"',
            lane="fast",
            scheduled_for=datetime.max,
            expires_at=datetime(2020, 1, 1, tzinfo=UTC),
            max_attempts=0,
            locale="",
            topic="Ä",
            tenant_id="",
            workspace_id="x" * 101,
        )
    assert sorted(faults(refused.value)) == sorted(
        "$." + name
        for name in (
            *("channel", "recipient", "idempotency_key", "template", "variables", "options", "lane", "scheduled_for"),
            *("expires_at", "max_attempts", "locale", "topic", "tenant_id", "workspace_id"),
        )
    )
    # The message has them too, for those who see no DETAIL.
    assert "recipient: expected 1 to 2000 characters" in str(refused.value)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries") == 0


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"template": "[]"}, "$.template", "expected an object"),
        ({"template": "{}"}, "$.template", "has no parts"),
        ({"template": '{"body": 1}'}, "$.template", "the part 'body' is no text"),
        ({"template": json.dumps({"body": "x" * 262_145})}, "$.template", "larger than 262144 bytes"),
        ({"variables": json.dumps({"a": "x" * 262_145})}, "$.variables", "larger than 262144 bytes"),
        ({"variables": '{"a": ' + "[" * 130 + "]" * 130 + "}"}, "$.variables", "nested more than 128 deep"),
        ({"variables": '{"a": [{"b": 18446744073709551616}]}'}, "$.variables", "more than 64 bits"),
        ({"options": '{"a": 1e400}'}, "$.options", "more than 64 bits"),
        ({"recipient": "x" * 2_001}, "$.recipient", "expected 1 to 2000 characters"),
        ({"recipient": None}, "$.recipient", "expected 1 to 2000 characters"),
        ({"channel": None}, "$.channel", "expected a channel's name"),
        ({"idempotency_key": None}, "$.idempotency_key", "expected 1 to 255"),
        ({"template": None}, "$.template", "expected a template, or the template_name"),
        ({"template": None, "template_name": "nobody"}, "$.template_name", "there is no template 'nobody'"),
        ({"template": None, "template_name": "x" * 101}, "$.template_name", "expected 1 to 100 characters"),
        ({"template": None, "template_name": "draft"}, "$.template_name", "'draft' has no published version"),
        ({"template": None, "template_name": "mail"}, "$.template_name", "'mail' is for email, not for sms"),
        ({"expires_at": LATER, "scheduled_for": LATER}, "$.expires_at", "is not after scheduled_for"),
    ],
)
async def test_a_fault_stands_at_its_path(
    connection: Connection, database: Database, given: dict[str, Any], path: str, words: str
) -> None:
    await save(database, draft("draft"), publish=False)
    await save(database, draft("mail", channel="email", locales={"default": {"subject": "x", "text": "y"}}))
    with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
        await _enqueue(connection, **{**GOOD, **given})
    found = faults(refused.value)
    assert list(found) == [path]
    assert words in found[path]


async def test_a_value_at_its_limit_is_accepted(connection: Connection, database: Database) -> None:
    await save(database, draft())
    deep = '{"a": ' + "[" * 127 + "]" * 127 + "}"
    numbers = '{"a": [18446744073709551615, -9223372036854775808, 0.1, 1.5e-300, null]}'
    answer = await _enqueue(connection, **{**GOOD, "template": None, "template_name": "welcome", "variables": deep})
    assert answer["status"] == "queued"
    again = await _enqueue(connection, **{**GOOD, "idempotency_key": "l", "variables": numbers})
    assert not again["duplicate"]


@pytest.mark.parametrize("given", [{"template": "{"}, {"variables": "no json"}, {"variables": '{"a": "\\u0000"}'}])
async def test_text_that_is_no_jsonb_is_postgres_own_refusal(connection: Connection, given: dict[str, Any]) -> None:
    with pytest.raises((asyncpg.InvalidTextRepresentationError, asyncpg.UntranslatableCharacterError)):
        await _enqueue(connection, **{**GOOD, **given})


async def test_it_goes_with_the_callers_transaction(connection: Connection) -> None:
    transaction = connection.transaction()
    await transaction.start()
    inside = await _enqueue(connection, **GOOD)
    assert (await _enqueue(connection, **GOOD))["delivery_id"] == inside["delivery_id"]
    await transaction.rollback()
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.delivery_state") == 0
    assert not (await _enqueue(connection, **GOOD))["duplicate"]
