"""People and campaigns as a benchmark makes them: one furnished database a server, of which each round gets a copy."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from bench.measure import BenchError
from bench.process import Dispatcher
from bench.server import Connection, Server, connected
from dispatcher.db.schema import migrator

# What the cases are asked for by default.
CONTACTS = 1_000_000
SETTINGS = {"CHANNELS__SMS__PROVIDER": "blackhole", "CHANNELS__SMS__MARKED_MAX": "2000"}
EVERYBODY = "everybody"
# A campaign of so many contacts, beside the one of everybody.
FEW = "few"
FEW_CONTACTS = 100
RUN_SECONDS_MAX = 1_800.0

# An SMS of some 90 characters with two attributes of the contact.
TEMPLATE = {
    "body": "Hi {{ contact.attributes.first }}, your plan {{ contact.attributes.plan }} renews on Monday. "
    "Details: https://sms.example/plans"
}
READS = ["contact.attributes.first", "contact.attributes.plan"]

_CONTACTS = """
WITH made AS (
    INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, name, status, tags, attributes, updated_by)
    SELECT 'default', 'default', 'contact-' || i, 'Ann ' || i, 'active',
           CASE WHEN i <= $2 THEN '{few}' ELSE '{}' END::text[],
           jsonb_build_object('first', 'Ann ' || i, 'plan', CASE WHEN i % 3 = 0 THEN 'pro' ELSE 'basic' END,
                              'seats', i % 50), 'bench'
      FROM generate_series(1, $1::int) AS i
    RETURNING id
)
INSERT INTO dispatcher.contact_addresses (contact_id, position, tenant_id, workspace_id, kind, address, written)
SELECT id, 1, 'default', 'default', 'phone', '+49151' || 10000000 + id, '+49151' || 10000000 + id FROM made
"""
CAMPAIGN = """
INSERT INTO dispatcher.campaigns (tenant_id, workspace_id, name, channel, template_name, audience, updated_by)
VALUES ('default', 'default', $1, 'sms', 'bench', $2::jsonb, 'bench')
"""
_ENDED = "SELECT finished_at IS NOT NULL FROM dispatcher.campaign_runs WHERE id = $1"
_RUN = """
SELECT status, intended, sent, extract(epoch FROM finished_at - created_at)::float8 AS seconds
  FROM dispatcher.campaign_runs WHERE id = $1
"""
_LEDGER = """
SELECT count(*) FILTER (WHERE status = 'sent') AS sent, coalesce(sum(attempt), 0) AS attempts
  FROM dispatcher.delivery_state
"""


@asynccontextmanager
async def furnished(server: Server, contacts: int) -> AsyncIterator[tuple[str, Connection]]:
    """A database with so many contacts and two campaigns (to everybody, to a few of them), and a connection to it."""
    template = await server.template(f"contacts_{contacts}", partial(_furnish, contacts=contacts))
    async with server.database(template) as url, connected(url) as connection:
        # What is copied is not in the server's memory yet.
        await connection.execute("SELECT count(*) FROM dispatcher.contacts")
        await connection.execute("CHECKPOINT")
        yield url, connection


async def _furnish(url: str, contacts: int) -> None:
    await migrator.migrate(url)
    async with connected(url) as connection:
        await connection.execute(_CONTACTS, contacts, FEW_CONTACTS)
        draft = {
            "tenant_id": "default",
            "workspace_id": "default",
            "name": "bench",
            "channel": "sms",
            "default_locale": "en",
            "rights": [],
            "variables": READS,
            "sources": {"en": {"parts": TEMPLATE, "partials": {}}},
        }
        await connection.fetch("SELECT * FROM dispatcher.put_templates($1::jsonb, true, 'bench')", json.dumps([draft]))
        await connection.execute(CAMPAIGN, EVERYBODY, '{"all": true}')
        await connection.execute(CAMPAIGN, FEW, '{"tags": ["few"]}')
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")


async def deploy(connection: Connection, campaign: str) -> int:
    """Deploy a campaign; answers its run."""
    return int(await connection.fetchval("SELECT run_id FROM dispatcher.deploy_campaign($1)", campaign))


async def begun(process: Dispatcher, connection: Connection, run: int, deliveries: int) -> None:
    """Return when so many deliveries of a run were sent: connections are open, statements are prepared."""

    async def sent() -> bool:
        found = await connection.fetchval("SELECT sent FROM dispatcher.campaign_runs WHERE id = $1", run)
        return bool(found >= deliveries)

    await process.until(sent, f"run {run} begins", RUN_SECONDS_MAX)


async def ended(connection: Connection, run: int) -> bool:
    """Whether a run has ended."""
    return bool(await connection.fetchval(_ENDED, run))


async def completed(process: Dispatcher, connection: Connection, run: int) -> float:
    """Wait for the end of a run, which has to be completed; answers its seconds from the deployment."""

    async def holds() -> bool:
        return await ended(connection, run)

    await process.until(holds, f"run {run} ends", RUN_SECONDS_MAX)
    found = await connection.fetchrow(_RUN, run)
    if found is None or (found["status"], found["sent"]) != ("completed", found["intended"]):
        raise BenchError(f"run {run} did not complete: {dict(found or {})}")
    return float(found["seconds"])


async def require_sent(connection: Connection, deliveries: int) -> None:
    """A rate counts only when every delivery of every run was sent, once."""
    found = await connection.fetchrow(_LEDGER)
    if found is None or (found["sent"], found["attempts"]) != (deliveries, deliveries):
        raise BenchError(f"{dict(found or {})} for {deliveries} contacts")
