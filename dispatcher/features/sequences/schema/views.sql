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

-- Of each step of a sequence, of any version: how many enrolments wait for it, and what has become of what it sent; of p_most
-- enrolments and of the p_most newest messages. As the owner, since policies would look each up once more. BETWEEN leaves the index
-- of a sequence as the only one that fits: the primary key was read to its end.
CREATE FUNCTION dispatcher.sequence_funnel(p_tenant_id text, p_workspace_id text, p_sequence_id bigint, p_most integer)
RETURNS TABLE (step_id bigint, waiting bigint, pending bigint, sent bigint, failed bigint, skipped bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    RETURN QUERY
    WITH here AS (
        SELECT s.id FROM dispatcher.sequences s
         WHERE s.id = p_sequence_id AND s.tenant_id = p_tenant_id AND s.workspace_id = p_workspace_id
    ), enrolled AS (
        SELECT r.state FROM here h, LATERAL (SELECT o.state FROM dispatcher.runs o
                                              WHERE o.workflow_id = h.id AND o.finished_at IS NULL LIMIT p_most) AS r
    ), waits AS (
        SELECT replace(c.key, 'day-', '')::bigint AS step, count(*) AS number
          FROM enrolled r, LATERAL (SELECT e.key FROM jsonb_each(r.state -> 'cursor') AS e WHERE e.value ->> 'standing' <> 'sending') AS c
         GROUP BY 1
    ), written AS (
        SELECT d.id, d.node FROM here h, LATERAL (SELECT o.id, o.node FROM dispatcher.deliveries o
                                                   WHERE o.sequence_id BETWEEN h.id AND h.id AND o.node IS NOT NULL
                                                   ORDER BY o.sequence_id DESC, o.id DESC LIMIT p_most) AS d
    ), became AS (
        SELECT w.node::bigint AS step, count(*) FILTER (WHERE s.status = 'queued') AS pending,
               count(*) FILTER (WHERE s.status IN ('sent', 'called', 'posted')) AS sent,
               count(*) FILTER (WHERE s.status = 'failed') AS failed, count(*) FILTER (WHERE s.status = 'skipped') AS skipped
          FROM written w, LATERAL (SELECT o.status FROM dispatcher.delivery_state o WHERE o.id = w.id LIMIT 1) AS s
         GROUP BY 1
    )
    SELECT coalesce(w.step, b.step), coalesce(w.number, 0), coalesce(b.pending, 0), coalesce(b.sent, 0), coalesce(b.failed, 0),
           coalesce(b.skipped, 0)
      FROM waits w FULL JOIN became b USING (step) ORDER BY 1;
END $$;

-- How many enrolments of a sequence are what, of the p_most newest. As above.
CREATE FUNCTION dispatcher.count_enrollments(p_tenant_id text, p_workspace_id text, p_sequence_id bigint, p_most integer)
RETURNS TABLE (status text, count bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    RETURN QUERY
    SELECT CASE WHEN few.is_paused THEN 'paused' ELSE dispatcher.enrollment_status(few.status) END, sum(few.number)::bigint
      FROM (SELECT r.status, r.finished_at IS NULL AND h.status = 'paused' AS is_paused, count(*) AS number
              FROM dispatcher.sequences h,
                   LATERAL (SELECT o.status, o.finished_at FROM dispatcher.runs o
                             WHERE o.workflow_id BETWEEN h.id AND h.id AND o.contact_id IS NOT NULL
                             ORDER BY o.workflow_id DESC, o.id DESC LIMIT p_most) AS r
             WHERE h.id = p_sequence_id AND h.tenant_id = p_tenant_id AND h.workspace_id = p_workspace_id
             GROUP BY 1, 2) AS few
     GROUP BY 1;
END $$;

REVOKE ALL ON FUNCTION dispatcher.sequence_funnel, dispatcher.count_enrollments FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.sequence_funnel, dispatcher.count_enrollments TO dispatcher_tenant;
