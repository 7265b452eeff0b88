-- Views of runs, for operators and for programs that know the older interface.

-- What became of a run's deliveries: as long as one is held, the run stays open.
CREATE VIEW dispatcher.run_deliveries AS
SELECT d.run_id, count(*) AS deliveries,
       count(*) FILTER (WHERE s.status = 'queued' AND NOT s.held) AS queued,
       count(*) FILTER (WHERE s.held) AS held,
       count(*) FILTER (WHERE s.status IN ('sent', 'called', 'posted')) AS sent,
       count(*) FILTER (WHERE s.status = 'failed') AS failed,
       count(*) FILTER (WHERE s.status = 'skipped') AS skipped,
       min(s.held_at) FILTER (WHERE s.held) AS held_since
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
 WHERE d.run_id IS NOT NULL AND d.node IS NOT NULL
 GROUP BY d.run_id;
COMMENT ON VIEW dispatcher.run_deliveries IS 'of each run how many deliveries it has ordered, and where they stand';

-- The log of a run, with the retries of its deliveries between the lines of its nodes.
CREATE VIEW dispatcher.run_log AS
SELECT e.run_id, e.at, e.number, e.step, e.node, e.event, e.context, e.added, e.error, NULL::bigint AS delivery_id,
       NULL::smallint AS attempt
  FROM dispatcher.run_entries e
UNION ALL
SELECT d.run_id, a.ended_at, NULL, NULL, d.node, 'retry', NULL, NULL, a.reason, d.id, a.attempt
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_attempts a ON a.delivery_id = d.id
 WHERE d.node IS NOT NULL AND a.next_at IS NOT NULL;

CREATE VIEW dispatcher.workflow_executions WITH (security_invoker = true) AS
SELECT r.id, r.workflow AS workflow_name, v.number AS workflow_version,
       CASE WHEN r.status IN ('waiting', 'paused') THEN 'running' ELSE r.status END AS status,
       CASE WHEN r.error_node IS NOT NULL THEN array_position(v.node_ids, r.error_node) - 1
            WHEN r.status = 'completed' THEN v.total_steps - 1
            ELSE coalesce((SELECT min(array_position(v.node_ids, node)) - 1
                             FROM jsonb_object_keys(r.state -> 'cursor') AS node), 0) END AS current_step,
       v.total_steps, r.input AS input_payload, r.input || coalesce(r.state -> 'vars', '{}') AS context,
       r.error AS error_message, r.error_node AS error_step,
       r.retries + (SELECT count(*) FROM dispatcher.deliveries d JOIN dispatcher.delivery_attempts a ON a.delivery_id = d.id
                     WHERE d.run_id = r.id AND d.node IS NOT NULL AND a.next_at IS NOT NULL)::integer AS retry_count,
       r.created_at, r.started_at, r.finished_at AS completed_at, r.idempotency_key AS correlation_id, r.triggered_by,
       r.tenant_id, r.workspace_id
  FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id
 WHERE r.contact_id IS NULL;
COMMENT ON VIEW dispatcher.workflow_executions IS
    'runs in the words of the older interface: waiting and paused ones are running';

GRANT SELECT ON dispatcher.workflow_executions TO dispatcher_tenant;
