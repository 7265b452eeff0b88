"""The comparison of schemas sees every kind of difference."""

import pytest

from tests.db.snapshot import snapshot
from tests.support.scene import Connection


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE dispatcher.claims ADD COLUMN more int",
        "ALTER TABLE dispatcher.claims ALTER COLUMN claimed_at DROP DEFAULT",
        "ALTER TABLE dispatcher.claims ALTER COLUMN settle_seconds DROP NOT NULL",
        "ALTER TABLE dispatcher.delivery_state DROP CONSTRAINT delivery_state_status_known",
        "ALTER TABLE dispatcher.delivery_state SET (fillfactor = 100)",
        "DROP INDEX dispatcher.delivery_state_due",
        "DROP TRIGGER terminal_is_final ON dispatcher.delivery_state",
        "CREATE OR REPLACE FUNCTION dispatcher.fence(p_epoch bigint, p_lock_ms integer) RETURNS boolean"
        " LANGUAGE plpgsql AS 'BEGIN RETURN true; END'",
        "ALTER FUNCTION dispatcher.fence SECURITY DEFINER",
        "ALTER TABLE dispatcher.deliveries ENABLE TRIGGER a_erased_keys_stay",
        "COMMENT ON COLUMN dispatcher.deliveries.lane IS 'another'",
        "DROP VIEW dispatcher.delivery_life",
        "ALTER VIEW dispatcher.channel_outbox ALTER COLUMN lane SET DEFAULT 2",
        "ALTER VIEW dispatcher.visible_delivery_life SET (security_invoker = false)",
        "ALTER TABLE dispatcher.deliveries DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE dispatcher.deliveries FORCE ROW LEVEL SECURITY",
        "ALTER POLICY tenant ON dispatcher.deliveries USING (tenant_id <> 'x')",
        "ALTER POLICY tenant ON dispatcher.deliveries WITH CHECK (true)",
        "ALTER POLICY tenant ON dispatcher.deliveries TO PUBLIC",
        "DROP POLICY tenant ON dispatcher.deliveries",
        "GRANT SELECT ON dispatcher.claims TO dispatcher_tenant",
        "GRANT SELECT (token) ON dispatcher.claims TO dispatcher_tenant",
        "REVOKE USAGE ON SCHEMA dispatcher FROM dispatcher_tenant",
        "GRANT EXECUTE ON FUNCTION dispatcher.input_faults TO dispatcher_tenant",
        "GRANT EXECUTE ON FUNCTION dispatcher.input_faults TO PUBLIC",
    ],
)
async def test_every_kind_of_change_is_seen(connection: Connection, change: str) -> None:
    before = await snapshot(connection)
    await connection.execute(change)
    assert await snapshot(connection) != before
