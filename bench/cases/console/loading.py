"""What the console's pages are measured with: much of what grows, and one of everything else that has a page."""

import json

from bench import outbox, runs, sequences
from bench.cases.campaigns import people
from bench.server import Connection

# Of the deliveries.
RUNS_SHARE, DEAD_SHARE, HELD_SHARE = 0.1, 0.01, 0.002
# Each contact has a message of the sequence, and one of the campaign.
CONTACTS_SHARE = 0.1

_TEMPLATES = [
    {
        "tenant_id": "default",
        "workspace_id": "default",
        "name": "bench",
        "channel": "sms",
        "default_locale": "en",
        "rights": [],
        "variables": people.READS,
        "sources": {"en": {"parts": people.TEMPLATE, "partials": {}}},
    }
]
# One of everything that has a page of its own and does not grow with the deliveries.
_FEW = """
SELECT dispatcher.create_webhook('default', 'default', 'bench', 'https://crm.example', '{run.failed}', true,
                                 'whsec_' || repeat('a', 32), 9, 'bench', 'bench');
SELECT dispatcher.put_schedule('default', 'default', 'bench', 'bench', '0 8 * * *', 'UTC', '{}', '2040-01-01', 'bench');
SELECT dispatcher.put_rules('default', 'default',
                            '[{"trigger": "lead_welcome", "channel": "sms", "audience": "bench"}]', 'bench');
INSERT INTO dispatcher.suppressions (kind, address, actor, reason)
SELECT 'email', format('bench%s@example.org', i), 'bench', 'bounced' FROM generate_series(1, 1000) AS i;
INSERT INTO dispatcher.captured_messages (delivery_id, attempt, tenant_id, workspace_id, channel, idempotency_key,
                                          recipient, parts, options)
SELECT id, 1, tenant_id, workspace_id, channel, idempotency_key, recipient, template, options
  FROM dispatcher.deliveries WHERE template IS NOT NULL ORDER BY id DESC LIMIT 1000;
"""
_SENT_BY_SEQUENCE = """
INSERT INTO dispatcher.deliveries (run_id, node, sequence_id, contact_id, idempotency_key, channel, recipient, template,
                                   scheduled_for)
SELECT e.id, t.id::text, e.sequence_id, e.contact_id, format('step-%s', e.id), 'sms', '+4915100000000',
       '{"body": "Hi"}', now()
  FROM dispatcher.sequence_enrollments e,
       (SELECT min(id) AS id FROM dispatcher.sequence_steps) AS t
"""
_SENT_BY_CAMPAIGN = """
INSERT INTO dispatcher.deliveries (run_id, job_id, contact_id, lane, idempotency_key, channel, recipient, template_name,
                                   template_version, locale, variables)
SELECT q.run_id, q.id, j.contact_id, 2, format('job-%s-%s', q.id, j.contact_id), 'sms', '+4915100000000', 'bench',
       1, 'en', '{}'
  FROM dispatcher.job_queue q, unnest(q.contact_ids) AS j (contact_id)
 WHERE q.run_id = $1
"""
_EXPANDED = """
WITH written AS (
    SELECT job_id, min(id) AS first_id, max(id) AS last_id, count(*) AS deliveries
      FROM dispatcher.deliveries WHERE run_id = $1 AND job_id IS NOT NULL GROUP BY job_id
), jobs AS (
    UPDATE dispatcher.job_queue q
       SET status = 'completed', locked_at = now(), expanded_at = now(), finished_at = now(), attempts = 1,
           first_id = w.first_id, last_id = w.last_id, intended = w.deliveries, sent = w.deliveries
      FROM written w WHERE q.id = w.job_id
)
UPDATE dispatcher.campaign_runs
   SET status = 'completed', started_at = now(), finished_at = now(), counted_at = now(), jobs_completed = jobs,
       expanded = s.deliveries, intended = s.deliveries, sent = s.deliveries
  FROM (SELECT sum(deliveries) AS deliveries FROM written) AS s
 WHERE id = $1
"""
_ALL_SENT = """
UPDATE dispatcher.delivery_state
   SET ready = false, token = 1, marked = true, attempt = 1, status = 'sent', finished_at = now()
 WHERE job_id IS NOT NULL OR channel = 'sms' AND id % $1::int <> 0
"""
_SOME_HELD = """
UPDATE dispatcher.delivery_state
   SET ready = false, token = 1, marked = true, attempt = 1, held = true, held_at = now(), error = 'no answer'
 WHERE id IN (SELECT id FROM dispatcher.delivery_state WHERE ready ORDER BY id LIMIT $1)
"""
_OTHERS_FAILED = """
UPDATE dispatcher.delivery_state
   SET ready = false, token = 1, marked = true, attempt = 1, status = 'failed', finished_at = now(),
       error = format('550 5.1.%s unknown user', id % 7)
 WHERE ready
"""


async def load(connection: Connection, deliveries: int) -> int:
    """Deliveries that were sent, some dead and held; runs that wait. Return the number of dead letters."""
    contacts = max(int(deliveries * CONTACTS_SHARE), 1)
    older = {"en": {"parts": {"body": "Hello"}, "partials": {}}}
    for templates in ([_TEMPLATES[0] | {"variables": [], "sources": older}], _TEMPLATES):
        text = json.dumps(templates)
        await connection.fetch("SELECT * FROM dispatcher.put_templates($1::jsonb, true, 'bench')", text)
    await sequences.contacts(connection, contacts)
    await sequences.publish(connection, (3, 7))
    await sequences.enrol_all(connection, contacts)
    await connection.execute(_SENT_BY_SEQUENCE)
    run = await _campaign(connection)
    await connection.execute(_SENT_BY_CAMPAIGN, run)
    others = deliveries - 2 * contacts
    await outbox.fill(connection, "sms", others, due_seconds=-60)
    dead, held = int(deliveries * DEAD_SHARE), int(deliveries * HELD_SHARE)
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(_EXPANDED, run)
    await connection.execute(_ALL_SENT, max(others // max(dead + held, 1), 1))
    await connection.execute("RESET session_replication_role")
    await connection.execute(_SOME_HELD, held)
    failed = await connection.execute(_OTHERS_FAILED)
    for delay_seconds in (3_600.0, 86_400.0):
        await runs.put(connection, runs.plan(delay_seconds))
    await runs.trigger(connection, int(deliveries * RUNS_SHARE))
    await connection.execute(_FEW)
    await connection.execute("VACUUM (ANALYZE)")
    await connection.execute("CHECKPOINT")
    return int(str(failed).split()[-1])


async def waits(connection: Connection) -> bool:
    """Whether the runs wait for their delay, and nothing is under way."""
    return not await connection.fetchval(
        """SELECT EXISTS (SELECT FROM dispatcher.runs WHERE available_at <= now())
                  OR EXISTS (SELECT FROM dispatcher.wakes)
                  OR EXISTS (SELECT FROM dispatcher.delivery_state WHERE status = 'queued' AND NOT held)"""
    )


async def _campaign(connection: Connection) -> int:
    """Deploy a campaign to all contacts."""
    await connection.execute(people.CAMPAIGN, people.EVERYBODY, '{"all": true}')
    return await people.deploy(connection, people.EVERYBODY)
