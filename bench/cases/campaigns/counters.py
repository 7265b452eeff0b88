"""What counting the results of jobs costs a drain, beside the same deliveries without a job."""

from bench.cases.campaigns import people
from bench.measure import BenchError, Measure, beside, median
from bench.process import dispatching
from bench.server import Connection, Server

DELIVERIES = 200_000
ROUNDS = 5

# A run and jobs as an expansion leaves them behind.
_EXPANDED = """
WITH jobs AS (
    UPDATE dispatcher.job_queue q
       SET status = 'locked', locked_at = now(), expanded_at = now(), first_id = d.first_id, last_id = d.last_id
      FROM (SELECT job_id, min(id) AS first_id, max(id) AS last_id FROM dispatcher.deliveries GROUP BY job_id) AS d
     WHERE q.run_id = $1 AND q.id = d.job_id
)
UPDATE dispatcher.campaign_runs SET status = 'running', started_at = now(), expanded = intended WHERE id = $1
"""
_WITH_JOBS = "SELECT q.run_id, q.id, j.contact_id FROM dispatcher.job_queue q, unnest(q.contact_ids) AS j (contact_id)"
_WITHOUT = "SELECT NULL::bigint, NULL::bigint, c.id FROM dispatcher.contacts c"
_FILL = """
INSERT INTO dispatcher.deliveries (run_id, job_id, contact_id, lane, idempotency_key, channel, recipient, template_name,
                                   template_version, locale, variables)
SELECT i.run_id, i.job_id, CASE WHEN i.job_id IS NOT NULL THEN c.id END, 2, encode(sha256(c.key::bytea), 'hex'),
       'sms', a.written, t.name, t.published, 'en',
       jsonb_build_object('contact', jsonb_build_object('attributes', c.attributes))
  FROM ({items}) AS i (run_id, job_id, contact_id)
  JOIN dispatcher.contacts c ON c.id = i.contact_id
  JOIN dispatcher.contact_addresses a ON a.contact_id = c.id
  JOIN dispatcher.templates t ON t.name = 'bench'
 ORDER BY i.job_id
"""
METHOD = (
    "{deliveries} pre-filled deliveries of jobs of 1,000 drained through blackhole (marked_max 2000) by one process, "
    "their results counted and the run completed; {rounds} rounds in turn, medians, from the start of the instance to "
    "the last flush. Reference: the same deliveries without jobs. More is better; limit 0.9."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure with and without jobs alternately."""
    pairs = [(await _rate(server, deliveries, True), await _rate(server, deliveries, False)) for _ in range(rounds)]
    counted, plain = (median(side) for side in zip(*pairs, strict=True))
    method = METHOD.format(deliveries=deliveries, rounds=rounds)
    return [beside("campaign.counters", "deliveries/s", counted, "without jobs", plain, method)]


async def _rate(server: Server, deliveries: int, jobs: bool) -> float:
    async with people.furnished(server, deliveries) as (url, connection):
        run_id = await _fill(connection, deliveries) if jobs else None
        if run_id is None:
            await connection.execute(_FILL.format(items=_WITHOUT))
        await connection.execute("VACUUM (ANALYZE) dispatcher.deliveries, dispatcher.delivery_state")
        await connection.execute("CHECKPOINT")
        async with dispatching(url, **people.SETTINGS) as process:
            await process.started(connection)
            began = await connection.fetchval("SELECT min(started_at) FROM dispatcher.instances")
            await process.drained(connection, "sms")
            if run_id is not None:
                await people.completed(process, connection, run_id)
        await people.require_sent(connection, deliveries)
        ended = await connection.fetchval("SELECT max(finished_at) FROM dispatcher.delivery_state")
    return float(deliveries / (ended - began).total_seconds())


async def _fill(connection: Connection, deliveries: int) -> int:
    run_id = await people.deploy(connection, people.EVERYBODY)
    await connection.execute(_FILL.format(items=_WITH_JOBS))
    last = await connection.fetchval("SELECT max(id) FROM dispatcher.deliveries")
    if last != deliveries:
        raise BenchError(f"{last} deliveries were written for {deliveries} contacts")
    await connection.execute(_EXPANDED, run_id)
    return run_id
