"""Items of jobs are no dead letters: a million failures are one line, that of their job."""

from typing import Any

import pytest

from dispatcher.db.database import Database
from dispatcher.db.health import checks

pytestmark = pytest.mark.anyio

FAILED = """
INSERT INTO dispatcher.deliveries (run_id, job_id, contact_id, idempotency_key, channel, recipient, template)
VALUES (1, 1, 1, 'item', 'sms', '+49151', '{"body": "Hello"}');
UPDATE dispatcher.delivery_state
   SET status = 'failed', ready = false, marked = true, token = 1, attempt = 5, error = 'refused', finished_at = now();
"""


async def test_a_failed_item_is_not_listed_and_breaks_no_invariant(database: Database, connection: Any) -> None:
    await connection.execute(FAILED)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.dead_deliveries") == 0
    assert await checks.check(database, "dead_deliveries_are_listed") is None


async def test_an_item_that_is_listed_breaks_the_invariant(database: Database, connection: Any) -> None:
    await connection.execute(FAILED)
    await connection.execute("INSERT INTO dispatcher.dead_deliveries SELECT id FROM dispatcher.delivery_state")
    assert await checks.check(database, "dead_deliveries_are_listed") is not None
