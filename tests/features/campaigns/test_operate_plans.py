"""Housekeeping of campaigns reads what it needs: it runs ten times a second while a run is open."""

from typing import Any

import pytest

from dispatcher.db.database import Database

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

FURNISHED = """
INSERT INTO dispatcher.campaign_runs
       (scheduled_for, status, campaign_id, tenant_id, workspace_id, campaign, channel, lane, template_name,
        template_version, variables, reads, frozen_at, created_by, jobs, intended)
VALUES (now(), 'running', 'c', 'default', 'default', 'c', 'sms', 2, 't', 1, '{}', '{}', '1', 'test', 3, 3000);
INSERT INTO dispatcher.job_queue
       (run_id, tenant_id, workspace_id, job_type, status, locked_at, expanded_at, first_id, last_id, intended,
        contact_ids)
SELECT r.id, 'default', 'default', 'sms_send_batch', 'locked', now(), now(), n * 1000 + 1, n * 1000 + 1000, 1000,
       ARRAY(SELECT generate_series(n * 1000 + 1, n * 1000 + 1000))
  FROM dispatcher.campaign_runs r, generate_series(0, 2) AS n;
INSERT INTO dispatcher.deliveries (run_id, job_id, contact_id, idempotency_key, channel, recipient, template)
SELECT q.run_id, q.id, i, 'item-' || i, 'sms', '+49151' || i, '{"body": "Hello"}'
  FROM dispatcher.job_queue q, unnest(q.contact_ids) AS i ORDER BY i;
"""
FETCHED = "SELECT pg_stat_get_xact_tuples_fetched('dispatcher.delivery_state'::regclass)"


async def test_without_a_cancelled_run_no_delivery_is_looked_at(database: Database, connection: Any) -> None:
    await connection.execute("VACUUM (ANALYZE)")
    async with database.session() as session:
        # Its plan is made for good while the tables are empty, and known to be.
        for _ in range(10):
            assert await session.fetchval("SELECT dispatcher.skip_cancelled(1000)") == 0
        await connection.execute(FURNISHED)
        async with session.transaction():
            assert await session.fetchval("SELECT dispatcher.skip_cancelled(1000)") == 0
            assert await session.fetchval(FETCHED) == 0


async def test_of_a_cancelled_run_pages_are_skipped(database: Database, connection: Any) -> None:
    await connection.execute(FURNISHED)
    await connection.execute("UPDATE dispatcher.campaign_runs SET cancelled_at = now()")
    assert await database.value("SELECT dispatcher.skip_cancelled(1500)") == 1500
    assert await database.value("SELECT dispatcher.skip_cancelled(5000)") == 1500
    left = await connection.fetchval("SELECT count(*) FROM dispatcher.delivery_state WHERE status <> 'skipped'")
    assert left == 0
