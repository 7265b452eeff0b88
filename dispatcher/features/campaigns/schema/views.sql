-- The audit log of campaigns, and their trace.

-- Every transition of runs, jobs and deliveries, and what operators did: by whom, when and why.
CREATE VIEW dispatcher.campaign_audit_log WITH (security_invoker = true) AS
SELECT e.at, r.tenant_id, r.workspace_id, e.run_id, e.job_id, NULL::bigint AS delivery_id,
       CASE WHEN e.job_id IS NULL THEN 'run' ELSE 'job' END AS entity, e.event, e.status_before, e.status, e.actor, e.reason
  FROM dispatcher.campaign_events e JOIN dispatcher.campaign_runs r ON r.id = e.run_id
UNION ALL
SELECT d.created_at, d.tenant_id, d.workspace_id, d.run_id, d.job_id, d.id, 'delivery', 'status', NULL,
       coalesce(split_part(d.ended, ': ', 1), 'queued'), 'dispatcher', coalesce(substr(d.ended, strpos(d.ended, ': ') + 2), '')
  FROM dispatcher.deliveries d WHERE d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
UNION ALL
SELECT a.ended_at, d.tenant_id, d.workspace_id, d.run_id, d.job_id, d.id, 'delivery', 'attempt', 'queued', a.outcome,
       'dispatcher', coalesce(a.reason, '')
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_attempts a ON a.delivery_id = d.id
 WHERE d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
UNION ALL
SELECT e.ended_at, d.tenant_id, d.workspace_id, d.run_id, d.job_id, d.id, 'delivery', 'status', 'queued', e.status,
       'dispatcher', coalesce(e.error, '')
  FROM dispatcher.deliveries d JOIN dispatcher.reopened_ends e ON e.delivery_id = d.id
 WHERE d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
UNION ALL
SELECT o.at, d.tenant_id, d.workspace_id, d.run_id, d.job_id, d.id, 'delivery', o.action, o.status_before, NULL, o.actor, o.reason
  FROM dispatcher.deliveries d JOIN dispatcher.operator_actions o ON o.delivery_id = d.id
 WHERE d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
UNION ALL
SELECT s.finished_at, d.tenant_id, d.workspace_id, d.run_id, d.job_id, d.id, 'delivery', 'status', 'queued', s.status,
       'dispatcher', coalesce(s.error, '')
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s ON s.id = d.id
 WHERE d.job_id IS NOT NULL AND d.contact_id IS NOT NULL AND d.ended IS NULL AND s.finished_at IS NOT NULL;

-- Each delivery of a run beside its own job. (The contract's query joins deliveries by the run alone, and shows each beside
-- every job.)
CREATE VIEW dispatcher.campaign_trace WITH (security_invoker = true) AS
SELECT r.id AS run_id, r.campaign_id, r.tenant_id, r.workspace_id, r.status AS run_status, q.id AS job_id, q.status AS job_status,
       q.attempts AS job_attempts, d.id AS outbox_id, d.contact_id, d.recipient, s.status AS outbox_status, s.attempt AS attempts,
       s.provider_message_id, s.error, d.created_at, s.finished_at
  FROM dispatcher.campaign_runs r
  JOIN dispatcher.job_queue q ON q.run_id = r.id
  LEFT JOIN (dispatcher.deliveries d JOIN dispatcher.delivery_state s ON s.id = d.id)
    ON d.id BETWEEN q.first_id AND q.last_id AND d.job_id = q.id;

GRANT SELECT ON dispatcher.campaign_audit_log, dispatcher.campaign_trace TO dispatcher_tenant;
