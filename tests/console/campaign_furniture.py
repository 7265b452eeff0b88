"""Furniture of campaigns: one with contacts who get it and who do not, and a paused run in the middle of its way."""

import json

from tests.support.scene import Connection

_TEMPLATE = [
    {
        "tenant_id": "default",
        "workspace_id": "default",
        "name": "sale",
        "channel": "email",
        "default_locale": "en",
        "rights": [],
        "variables": ["contact.name", "discount"],
        "sources": {
            "en": {
                "parts": {
                    "subject": "{{ discount }} % for you, {{ contact.name }}",
                    "text": "Hello {{ contact.name }},\n\nall shoes are {{ discount }} % cheaper until Sunday.",
                    "html": "<h1>Hello {{ contact.name }}</h1>",
                },
                "partials": {},
            }
        },
    }
]
_CONTACTS = (("ann", "ann.larsen@example.org"), ("kwame", "kwame@example.org"), ("rosa", None))
_CAMPAIGN = {
    "channel": "email",
    "template_name": "sale",
    "variables": {"discount": 20},
    "audience": {"tags": ["spring-list"]},
    "lane": 2,
    "topic": "news",
    "rate": 200,
    "send_window": {"from": "09:00", "to": "18:00", "days": ["mon", "tue"], "time_zone": "Europe/Berlin"},
}
_RUN = """
    INSERT INTO dispatcher.campaign_runs
           (campaign_id, tenant_id, workspace_id, campaign, channel, template_name, template_version, variables, reads,
            scheduled_for, started_at, frozen_at, lane, created_by, paused_at, status, topic, rate, idempotency_key,
            jobs, jobs_completed, jobs_partial, jobs_dead, intended, sent, skipped, failed, held, expired)
    SELECT id, tenant_id, workspace_id, name, channel, template_name, 1, '{}', '{}', now(), now(), '0', 2, $1, now(),
           'running', topic, rate, $1, 1205, 850, 15, 1, 1204331, 849210, 17004, 2000, 198, 12
      FROM dispatcher.campaigns WHERE name = 'spring-2026' RETURNING id
"""
_REASONS = (
    ("skipped", "unsubscribed: from news", 12_041),
    ("skipped", "no email address", 3_310),
    ("failed", "job is dead", 1_000),
    ("failed", "552 5.2.2 mailbox full; gave up", 711),
    ("expired", "the send window ended", 12),
)
_EVENTS = (("status", None, "queued"), ("status", "queued", "running"), ("pause", None, None))
_JOBS = """
    INSERT INTO dispatcher.job_queue
           (run_id, tenant_id, workspace_id, job_type, intended, contact_ids, sent, failed, skipped, error, expanded_at,
            finished_at, status, attempts)
    SELECT $1, 'default', 'default', 'email_send_batch', 1000, array_fill(0, '{1000}'), 1000 - lost, lost, 0, said,
           now(), now(), status, 1
      FROM (VALUES ('completed', 0, NULL), ('partial', 20, $2), ('dead', 1000, $2)) AS made (status, lost, said)
"""


async def furnish(connection: Connection, words: str) -> dict[str, str]:
    """Make it, with these words in each text; answer the names in paths."""
    await connection.execute("SELECT dispatcher.put_templates($1, true, $2)", json.dumps(_TEMPLATE), words)
    for key, address in _CONTACTS:
        addresses = [] if address is None else [{"kind": "email", "address": address, "written": address}]
        said = {"name": f"{key} {words}", "tags": ["spring-list"], "addresses": addresses}
        put = "SELECT dispatcher.put_contact('default', 'default', $1, $2, 'put', NULL, $3)"
        await connection.execute(put, key, json.dumps(said), words)
    put = "SELECT dispatcher.put_campaign('default', 'default', 'spring-2026', $1, $2)"
    await connection.execute(put, json.dumps(_CAMPAIGN), words)
    run: int = await connection.fetchval(_RUN, words)
    await connection.executemany(
        "INSERT INTO dispatcher.campaign_run_reasons (run_id, class, reason, count) VALUES ($1, $2, $3, $4)",
        [(run, outcome, f"{reason} {words}", count) for outcome, reason, count in _REASONS],
    )
    await connection.executemany(
        """INSERT INTO dispatcher.campaign_events (run_id, event, status_before, status, actor, reason)
           VALUES ($1, $2, $3, $4, $5, $5)""",
        [(run, event, before, after, words) for event, before, after in _EVENTS],
    )
    await connection.execute(_JOBS, run, words)
    return {"campaigns.name": "spring-2026", "campaign-runs.campaign_run_id": str(run)}
