-- Views of enrolments and of what their steps have sent.

CREATE VIEW dispatcher.sequence_enrollments WITH (security_invoker = true) AS
SELECT r.id, r.workflow_id AS sequence_id, r.contact_id,
       coalesce((SELECT (min(array_position(v.node_ids, node)) - 1) / 2 FROM jsonb_object_keys(r.state -> 'cursor') AS node),
                v.total_steps / 2) AS current_step_index,
       CASE WHEN r.status = 'waiting' AND s.status IS DISTINCT FROM 'paused' THEN r.available_at END AS next_step_at,
       CASE WHEN r.finished_at IS NULL AND s.status = 'paused' THEN 'paused' ELSE dispatcher.enrollment_status(r.status) END AS status,
       r.created_at AS enrolled_at, r.created_at, r.finished_at, v.number AS version, coalesce(r.note, r.error) AS reason,
       r.workflow AS sequence, r.tenant_id, r.workspace_id
  FROM dispatcher.runs r
  JOIN dispatcher.plan_versions v ON v.id = r.version_id
  LEFT JOIN dispatcher.sequences s ON s.id = r.workflow_id
 WHERE r.contact_id IS NOT NULL;
COMMENT ON VIEW dispatcher.sequence_enrollments IS
    'enrolments: active, paused, completed or cancelled. One of a paused sequence is paused';

CREATE VIEW dispatcher.sequence_step_logs WITH (security_invoker = true) AS
SELECT d.id, d.run_id AS enrollment_id, d.node::bigint AS step_id, d.channel,
       coalesce(CASE WHEN d.template IS NULL THEN d.template_name || '@' || d.template_version END,
                CASE WHEN (SELECT count(*) FROM jsonb_object_keys(d.template)) = 1
                     THEN (SELECT e.value FROM jsonb_each_text(d.template) AS e) ELSE d.template::text END) AS content_snapshot,
       CASE WHEN s.status IN ('sent', 'called', 'posted') THEN 'completed' WHEN s.status = 'queued' THEN 'pending'
            ELSE s.status END AS status,
       CASE WHEN s.status IN ('sent', 'called', 'posted') THEN s.finished_at END AS sent_at,
       CASE WHEN s.status IN ('failed', 'skipped') OR s.held THEN s.error END AS error,
       d.created_at, s.held, d.sequence_id, d.contact_id, d.tenant_id, d.workspace_id
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
 WHERE d.sequence_id IS NOT NULL AND d.node IS NOT NULL;
COMMENT ON VIEW dispatcher.sequence_step_logs IS
    'what steps have sent: pending, completed, failed or skipped; written before anything is sent';

GRANT SELECT ON dispatcher.sequence_enrollments, dispatcher.sequence_step_logs TO dispatcher_tenant;
