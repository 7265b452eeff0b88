-- name: list
-- What was done by whom in a workspace, the newest first, $10 at most: of one kind, by one actor, since a time, behind a time,
-- a rank, an id and a number. What one statement does to a run has one time, and its numbers tell it apart; all else has an id
-- of its own. Each kind is read backwards from there; what is a tenant's or everybody's is shown where it counts.
(SELECT o.at AS at, 'delivery' AS kind, 1 AS rank, o.id AS id, o.delivery_id::text AS subject, o.action AS action,
        o.actor AS actor, o.reason AS reason, jsonb_build_object('status_before', o.status_before) AS details, 1 AS number
   FROM dispatcher.operator_actions o,
        LATERAL (SELECT tenant_id, workspace_id FROM dispatcher.deliveries WHERE id = o.delivery_id LIMIT 1) AS d
  WHERE d.tenant_id = $1 AND d.workspace_id = $2
    AND coalesce($3 = 'delivery', true) AND coalesce(o.actor = $4, true) AND o.at >= $5
    AND o.at <= $6 AND (o.at < $6 OR (1, o.id) < ($7::integer, $8::bigint))
  ORDER BY o.at DESC, o.id DESC LIMIT $10)
UNION ALL
(SELECT a.at AS at, w.kind AS kind, 2 AS rank, a.id AS id, w.name AS subject, a.action AS action,
        a.actor AS actor, NULL::text AS reason, jsonb_build_object('version', a.version) AS details, 1 AS number
   FROM dispatcher.workflow_actions a JOIN dispatcher.workflows w ON w.id = a.workflow_id
  WHERE w.tenant_id = $1 AND w.workspace_id = $2
    AND coalesce($3 = w.kind, true) AND coalesce(a.actor = $4, true) AND a.at >= $5
    AND a.at <= $6 AND (a.at < $6 OR (2, a.id) < ($7::integer, $8::bigint))
  ORDER BY a.at DESC, a.id DESC LIMIT $10)
UNION ALL
(SELECT v.created_at AS at, 'template' AS kind, 3 AS rank, v.id AS id, t.name AS subject, 'put' AS action,
        v.author AS actor, NULL::text AS reason, jsonb_build_object('version', v.number) AS details, 1 AS number
   FROM dispatcher.template_versions v JOIN dispatcher.templates t ON t.id = v.template_id
  WHERE t.tenant_id = $1 AND t.workspace_id = $2
    AND coalesce($3 = 'template', true) AND coalesce(v.author = $4, true) AND v.created_at >= $5
    AND v.created_at <= $6 AND (v.created_at < $6 OR (3, v.id) < ($7::integer, $8::bigint))
  ORDER BY v.created_at DESC, v.id DESC LIMIT $10)
UNION ALL
(SELECT p.at AS at, 'template' AS kind, 4 AS rank, p.id AS id, t.name AS subject, 'publish' AS action,
        p.actor AS actor, NULL::text AS reason, jsonb_build_object('version', v.number) AS details, 1 AS number
   FROM dispatcher.template_publications p JOIN dispatcher.templates t ON t.id = p.template_id
   JOIN dispatcher.template_versions v ON v.id = p.version_id
  WHERE t.tenant_id = $1 AND t.workspace_id = $2
    AND coalesce($3 = 'template', true) AND coalesce(p.actor = $4, true) AND p.at >= $5
    AND p.at <= $6 AND (p.at < $6 OR (4, p.id) < ($7::integer, $8::bigint))
  ORDER BY p.at DESC, p.id DESC LIMIT $10)
UNION ALL
(SELECT a.at AS at, 'key' AS kind, 5 AS rank, a.id AS id, k.name AS subject, a.action AS action,
        a.actor AS actor, a.reason AS reason, jsonb_build_object('role', k.role, 'prefix', a.prefix) AS details, 1 AS number
   FROM dispatcher.api_key_actions a JOIN dispatcher.api_keys k ON k.id = a.key_id
  WHERE k.tenant_id = $1 AND k.workspace_id = $2
    AND coalesce($3 = 'key', true) AND coalesce(a.actor = $4, true) AND a.at >= $5
    AND a.at <= $6 AND (a.at < $6 OR (5, a.id) < ($7::integer, $8::bigint))
  ORDER BY a.at DESC, a.id DESC LIMIT $10)
UNION ALL
(SELECT a.at AS at, 'schedule' AS kind, 6 AS rank, a.id AS id, a.said ->> 'name' AS subject, a.action AS action,
        a.actor AS actor, NULL::text AS reason, jsonb_build_object('version', a.version, 'workflow', a.said ->> 'workflow') AS details, 1 AS number
   FROM dispatcher.schedule_actions a
  WHERE a.said ->> 'tenant_id' = $1 AND a.said ->> 'workspace_id' = $2
    AND coalesce($3 = 'schedule', true) AND coalesce(a.actor = $4, true) AND a.at >= $5
    AND a.at <= $6 AND (a.at < $6 OR (6, a.id) < ($7::integer, $8::bigint))
  ORDER BY a.at DESC, a.id DESC LIMIT $10)
UNION ALL
(SELECT l.at AS at, 'suppression' AS kind, 7 AS rank, l.id AS id, l.address AS subject, l.action AS action,
        l.actor AS actor, l.reason AS reason, jsonb_build_object('kind', l.kind, 'channel', l.channel, 'source', l.source, 'topic', l.topic) AS details, 1 AS number
   FROM dispatcher.suppression_log l
  WHERE l.tenant_id = $1
    AND coalesce($3 = 'suppression', true) AND coalesce(l.actor = $4, true) AND l.at >= $5
    AND l.at <= $6 AND (l.at < $6 OR (7, l.id) < ($7::integer, $8::bigint))
  ORDER BY l.at DESC, l.id DESC LIMIT $10)
UNION ALL
(SELECT e.at AS at, 'run' AS kind, 8 AS rank, e.run_id AS id, e.run_id::text AS subject, e.event AS action,
        split_part(e.error, ': ', 1) AS actor, nullif(substr(e.error, length(split_part(e.error, ': ', 1)) + 3), '') AS reason, jsonb_build_object('workflow', r.workflow) AS details, e.number + 1 AS number
   FROM dispatcher.run_entries e,
        LATERAL (SELECT tenant_id, workspace_id, workflow FROM dispatcher.runs WHERE id = e.run_id LIMIT 1) AS r
  WHERE r.tenant_id = $1 AND r.workspace_id = $2
    AND e.event IN ('paused', 'resumed', 'cancelled', 'replayed', 'discarded')
    AND coalesce($3 = 'run', true) AND coalesce(split_part(e.error, ': ', 1) = $4, true) AND e.at >= $5
    AND e.at <= $6 AND (e.at < $6 OR (8, e.run_id, e.number + 1) < ($7::integer, $8::bigint, $9::bigint))
  ORDER BY e.at DESC, e.run_id DESC, e.number DESC LIMIT $10)
UNION ALL
(SELECT p.since AS at, 'pause' AS kind, 9 AS rank, p.id AS id, p.scope || ' ' || p.name AS subject, 'pause' AS action,
        p.actor AS actor, p.reason AS reason, jsonb_build_object('everywhere', p.tenant_id IS NULL) AS details, 1 AS number
   FROM dispatcher.pauses p
  WHERE p.scope NOT IN ('run', 'campaign_run') AND CASE WHEN p.tenant_id IS NOT NULL THEN p.tenant_id = $1 AND p.workspace_id = $2
                                WHEN p.scope IN ('tenant', 'moved') THEN p.name = $1 ELSE true END
    AND coalesce($3 = 'pause', true) AND coalesce(p.actor = $4, true) AND p.since >= $5
    AND p.since <= $6 AND (p.since < $6 OR (9, p.id) < ($7::integer, $8::bigint))
  ORDER BY p.since DESC, p.id DESC LIMIT $10)
UNION ALL
(SELECT p.ended_at AS at, 'pause' AS kind, 10 AS rank, p.id AS id, p.scope || ' ' || p.name AS subject, 'resume' AS action,
        p.ended_by AS actor, p.end_reason AS reason, jsonb_build_object('everywhere', p.tenant_id IS NULL) AS details, 1 AS number
   FROM dispatcher.pauses p
  WHERE p.scope NOT IN ('run', 'campaign_run') AND CASE WHEN p.tenant_id IS NOT NULL THEN p.tenant_id = $1 AND p.workspace_id = $2
                                WHEN p.scope IN ('tenant', 'moved') THEN p.name = $1 ELSE true END
    AND coalesce($3 = 'pause', true) AND coalesce(p.ended_by = $4, true) AND p.ended_at >= $5
    AND p.ended_at <= $6 AND (p.ended_at < $6 OR (10, p.id) < ($7::integer, $8::bigint))
  ORDER BY p.ended_at DESC, p.id DESC LIMIT $10)
UNION ALL
(SELECT a.at AS at, 'campaign' AS kind, 11 AS rank, a.id AS id, a.campaign AS subject, a.action AS action,
        a.actor AS actor, NULL::text AS reason, jsonb_build_object('version', a.version) AS details, 1 AS number
   FROM dispatcher.campaign_actions a
  WHERE a.tenant_id = $1 AND a.workspace_id = $2
    AND coalesce($3 = 'campaign', true) AND coalesce(a.actor = $4, true) AND a.at >= $5
    AND a.at <= $6 AND (a.at < $6 OR (11, a.id) < ($7::integer, $8::bigint))
  ORDER BY a.at DESC, a.id DESC LIMIT $10)
UNION ALL
(SELECT e.at AS at, 'campaign_run' AS kind, 12 AS rank, e.id AS id, e.run_id::text AS subject,
        CASE WHEN e.event <> 'status' THEN e.event WHEN r.test THEN 'test' ELSE 'deploy' END AS action, e.actor AS actor,
        nullif(e.reason, '') AS reason,
        jsonb_build_object('campaign', r.campaign, 'job_id', e.job_id)
            || CASE WHEN e.event = 'rate' THEN jsonb_build_object('from', e.status_before, 'to', e.status) ELSE '{}' END AS details,
        1 AS number
   FROM dispatcher.campaign_events e,
        LATERAL (SELECT tenant_id, workspace_id, campaign, test FROM dispatcher.campaign_runs WHERE id = e.run_id LIMIT 1) AS r
  WHERE r.tenant_id = $1 AND r.workspace_id = $2
    AND (e.event <> 'status' OR e.status_before IS NULL AND e.job_id IS NULL) AND e.event <> 'repair'
    AND coalesce($3 = 'campaign_run', true) AND coalesce(e.actor = $4, true) AND e.at >= $5
    AND e.at <= $6 AND (e.at < $6 OR (12, e.id) < ($7::integer, $8::bigint))
  ORDER BY e.at DESC, e.id DESC LIMIT $10)
UNION ALL
(SELECT a.at AS at, 'rule' AS kind, 13 AS rank, a.id AS id, a.subject AS subject, a.action AS action,
        a.actor AS actor, NULL::text AS reason, jsonb_build_object('version', a.version) AS details, 1 AS number
   FROM dispatcher.rule_actions a
  WHERE a.tenant_id = $1 AND a.workspace_id = $2
    AND coalesce($3 = 'rule', true) AND coalesce(a.actor = $4, true) AND a.at >= $5
    AND a.at <= $6 AND (a.at < $6 OR (13, a.id) < ($7::integer, $8::bigint))
  ORDER BY a.at DESC, a.id DESC LIMIT $10)
UNION ALL
(SELECT a.at AS at, 'cap' AS kind, 14 AS rank, a.id AS id, a.cap AS subject, a.action AS action,
        a.actor AS actor, NULL::text AS reason, a.said AS details, 1 AS number
   FROM dispatcher.cap_actions a
  WHERE a.tenant_id = $1 AND a.workspace_id = $2
    AND coalesce($3 = 'cap', true) AND coalesce(a.actor = $4, true) AND a.at >= $5
    AND a.at <= $6 AND (a.at < $6 OR (14, a.id) < ($7::integer, $8::bigint))
  ORDER BY a.at DESC, a.id DESC LIMIT $10)
UNION ALL
(SELECT a.at AS at, 'quiet_hours' AS kind, 15 AS rank, a.id AS id, coalesce(nullif(a.channel, ''), 'all') AS subject, a.action AS action,
        a.actor AS actor, NULL::text AS reason, jsonb_build_object('version', a.version) AS details, 1 AS number
   FROM dispatcher.quiet_hours_actions a
  WHERE a.tenant_id = $1 AND a.workspace_id = $2
    AND coalesce($3 = 'quiet_hours', true) AND coalesce(a.actor = $4, true) AND a.at >= $5
    AND a.at <= $6 AND (a.at < $6 OR (15, a.id) < ($7::integer, $8::bigint))
  ORDER BY a.at DESC, a.id DESC LIMIT $10)
ORDER BY at DESC, rank DESC, id DESC, number DESC LIMIT $10;
