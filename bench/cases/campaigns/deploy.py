"""Deploying a campaign to a million contacts, beside a table of their ids; and when its first message is marked."""

import time

from bench.cases.campaigns import people
from bench.measure import Measure, beside, median
from bench.process import dispatching
from bench.server import Connection, Server

DELIVERIES = people.CONTACTS
ROUNDS = 5

FIRST_SECONDS_MAX = 2.0

DEPLOY = f"SELECT run_id FROM dispatcher.deploy_campaign('{people.EVERYBODY}')"  # noqa: S608 - our own text
# The audience of that campaign in the order of its ids, as deployment reads it.
TABLE = """
CREATE TEMPORARY TABLE chosen ON COMMIT DROP AS
SELECT id FROM dispatcher.contacts WHERE tenant_id = 'default' AND workspace_id = 'default' ORDER BY id
"""
METHOD = (
    "p50 of {rounds} deployments to {contacts} contacts, in turn with CREATE TABLE AS SELECT id of the same audience "
    "in order; each in a transaction that is rolled back. Less is better; limit 3."
)
METHOD_FIRST = (
    "From the answer to the COMMIT of a deployment to {contacts} contacts to the first mark, by an idle process. Less "
    "is better; limit 2 s."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both statements alternately, and then one deployment with a process that waits for it."""
    async with people.furnished(server, deliveries) as (url, connection):
        await _seconds(connection, DEPLOY)
        pairs = [(await _seconds(connection, DEPLOY), await _seconds(connection, TABLE)) for _ in range(rounds)]
        first = await _first(url, connection)
    deployed, table = (median(side) for side in zip(*pairs, strict=True))
    method = METHOD.format(rounds=rounds, contacts=deliveries)
    how = METHOD_FIRST.format(contacts=deliveries)
    return [
        beside("campaign.deploy", "s", deployed, "CREATE TABLE AS", table, method),
        beside("campaign.deploy.first", "s", first, "limit", FIRST_SECONDS_MAX, how),
    ]


async def _seconds(connection: Connection, statement: str) -> float:
    transaction = connection.transaction()
    await transaction.start()
    try:
        begun = time.perf_counter()
        await connection.execute(statement)
        return time.perf_counter() - begun
    finally:
        await transaction.rollback()


async def _first(url: str, connection: Connection) -> float:
    """Seconds from a commit to the first mark."""
    async with dispatching(url, **people.SETTINGS) as process:
        await process.started(connection)
        run_id = await people.deploy(connection, people.EVERYBODY)
        committed = time.time()
        await people.begun(process, connection, run_id, 1)
        marked = await connection.fetchval("SELECT min(key_used_at) FROM dispatcher.delivery_state")
    return max(0.0, float(marked.timestamp()) - committed)
