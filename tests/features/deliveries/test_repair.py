"""What may be written anew with other variables, and what may not."""

import pytest

from tests.support.scene import Connection

DELIVERY = """
    INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, lane, run_id, node, job_id,
                                       contact_id, ended, topic, variables, expires_at)
    VALUES ('origin', 'sms', '1', '{"body": "{{ name }}"}', 2, $1, $2, $3, $4, $5, 'news', '{"a": 1, "b": 2}',
            '2040-01-01Z')
    RETURNING id"""
FAILED = """UPDATE dispatcher.delivery_state SET ready = false, status = 'failed', finished_at = now(), error = $1"""
REPAIR = "SELECT * FROM dispatcher.repair_delivery($1, $2, 'ann', 'it lacked one')"
ALIKE = ("channel", "recipient", "template", "lane", "topic", "expires_at", "max_attempts", "tenant_id", "workspace_id")


async def _put(connection: Connection, **columns: object) -> int:
    names = ("run_id", "node", "job_id", "contact_id", "ended")
    return int(await connection.fetchval(DELIVERY, *(columns.get(name) for name in names)))


async def _repair(connection: Connection, number: int, variables: str) -> tuple[str, int | None, bool | None]:
    row = await connection.fetchrow(REPAIR, number, variables)
    assert row is not None
    return row["answer"], row["delivery_id"], row["duplicate"]


async def test_the_new_one_differs_in_its_key_its_variables_and_its_origin(connection: Connection) -> None:
    number = await _put(connection)
    await connection.execute(FAILED, "template.body: 'name' is undefined")
    answer, new, duplicate = await _repair(connection, number, '{"name": "Ann", "b": 3}')
    assert (answer, duplicate) == ("repaired", False)
    rows = await connection.fetch("SELECT * FROM dispatcher.deliveries ORDER BY id")
    origin, written = map(dict, rows)
    assert {name: written[name] for name in ALIKE} == {name: origin[name] for name in ALIKE}
    assert (written["idempotency_key"], written["retry_of"], written["run_id"]) == (f"retry-of-{number}", number, None)
    assert written["variables"] == '{"a": 1, "b": 3, "name": "Ann"}'
    assert await connection.fetchval("SELECT ready FROM dispatcher.delivery_state WHERE id = $1", new)
    # Its origin is no dead letter any more, and is not sent a second time.
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.dead_deliveries WHERE discarded_at IS NULL") == 0
    assert await connection.fetchval("SELECT dispatcher.reopen_delivery($1, 'ann', '')", number) == "repaired"
    again = await _repair(connection, number, '{"b": 3, "name": "Ann"}')
    assert again == ("repaired", new, True)
    assert await _repair(connection, number, '{"name": "Bob"}') == ("other", new, True)


async def test_an_item_of_a_campaign_is_written_anew_outside_of_it(connection: Connection) -> None:
    number = await _put(connection, run_id=1, job_id=1, contact_id=1)
    await connection.execute(FAILED, "template.body: 'name' is undefined")
    _, new, _ = await _repair(connection, number, '{"name": "Ann"}')
    alone = "SELECT run_id IS NULL AND job_id IS NULL AND contact_id IS NULL FROM dispatcher.deliveries WHERE id = $1"
    assert await connection.fetchval(alone, new)


@pytest.mark.parametrize(
    ("columns", "change", "answer"),
    [
        ({}, None, "queued"),
        ({}, "ready = false, token = 1, marked = true, held = true", "queued"),
        ({}, "ready = false, status = 'sent', finished_at = now()", "sent"),
        ({}, "ready = false, status = 'skipped', finished_at = now(), error = 'erased'", "erased"),
        ({"run_id": 1, "node": "mail"}, "ready = false, status = 'failed', finished_at = now()", "ordered"),
        ({"run_id": 1, "job_id": 1, "contact_id": 1, "ended": "skipped: no address"}, None, "never queued"),
    ],
)
async def test_what_is_refused_says_why(
    connection: Connection, columns: dict[str, object], change: str | None, answer: str
) -> None:
    number = await _put(connection, **columns)
    if change is not None:
        await connection.execute(f"UPDATE dispatcher.delivery_state SET {change}")
    assert await _repair(connection, number, '{"name": "Ann"}') == (answer, None, None)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries") == 1


async def test_another_delivery_with_the_derived_key_is_no_repair(connection: Connection) -> None:
    number = await _put(connection)
    await connection.execute(FAILED, "template.body: 'name' is undefined")
    taken = await connection.fetchval(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, variables)
           VALUES ('retry-of-' || $1::bigint, 'sms', '1', '{"body": "x"}', '{"a": 1, "b": 2, "name": "Ann"}')
           RETURNING id""",
        number,
    )
    assert await _repair(connection, number, '{"name": "Ann"}') == ("other", taken, True)
    assert await connection.fetchval("SELECT dispatcher.reopen_delivery($1, 'ann', '')", number) == "reopened"
