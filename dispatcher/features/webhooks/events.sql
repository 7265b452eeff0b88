-- name: some
-- Whether there is any event of a tenant that is in this cell.
SELECT EXISTS (SELECT FROM dispatcher.webhook_events h
                WHERE NOT EXISTS (SELECT FROM dispatcher.tenant_placements t WHERE t.tenant_id = h.tenant_id AND t.state <> 'here'));

-- name: take
-- Lock up to $1 events, the oldest first; skip those that others have locked.
SELECT h.id, h.type, h.subject, h.at, h.facts::text, h.tenant_id, h.workspace_id, e.id AS endpoint_id, e.name AS endpoint
  FROM dispatcher.webhook_events h
  LEFT JOIN dispatcher.webhook_endpoints e ON e.id = h.endpoint_id AND e.enabled
 WHERE NOT EXISTS (SELECT FROM dispatcher.tenant_placements t WHERE t.tenant_id = h.tenant_id AND t.state <> 'here')
 ORDER BY h.id LIMIT $1 FOR UPDATE OF h SKIP LOCKED;

-- name: delivery
-- The constant facts of deliveries.
SELECT d.id, d.channel, d.recipient, d.idempotency_key, d.run_id, r.workflow, d.node, d.job_id, k.campaign, d.template_name, d.topic, d.created_at,
       d.scheduled_for
  FROM dispatcher.deliveries d LEFT JOIN dispatcher.runs r ON r.id = d.run_id AND d.node IS NOT NULL
  LEFT JOIN dispatcher.campaign_runs k ON k.id = d.run_id AND d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
 WHERE d.id = ANY ($1::bigint[]);

-- name: run
-- The constant facts of runs.
SELECT r.id, r.workflow, v.number AS version, r.idempotency_key, r.triggered_by, r.created_at
  FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id
 WHERE r.id = ANY ($1::bigint[]);

-- name: campaign_job
-- The constant facts of jobs of campaigns.
SELECT q.id, q.run_id, r.campaign, r.channel, q.job_type, q.created_at
  FROM dispatcher.job_queue q JOIN dispatcher.campaign_runs r ON r.id = q.run_id
 WHERE q.id = ANY ($1::bigint[]);

-- name: campaign_run
-- The constant facts of runs of campaigns.
SELECT r.id, r.campaign, r.channel, r.template_name, r.topic, r.idempotency_key, r.jobs, r.created_at, r.scheduled_for, r.started_at
  FROM dispatcher.campaign_runs r
 WHERE r.id = ANY ($1::bigint[]);

-- name: write
-- Write the deliveries of events, in the bulk lane: nobody waits for them, and a slow endpoint keeps no caller of the API
-- out. An existing key is not written again.
INSERT INTO dispatcher.deliveries (tenant_id, workspace_id, idempotency_key, channel, recipient, template, variables, options,
                                   max_attempts, lane)
SELECT a.tenant_id, a.workspace_id, a.key, 'webhook', a.recipient, $7::jsonb, jsonb_build_object('event', a.body),
       jsonb_build_object('webhook', a.endpoint_id), $8, 2
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
    AS a (tenant_id, workspace_id, key, recipient, endpoint_id, body)
ON CONFLICT ON CONSTRAINT deliveries_key DO NOTHING;

-- name: forget
-- Delete events that were written, or whose endpoint is gone.
DELETE FROM dispatcher.webhook_events WHERE id = ANY ($1::bigint[]);
