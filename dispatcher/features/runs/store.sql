-- name: trigger
-- Start a run, or find the one that its key has started already. Raises what is wrong with the call.
SELECT execution_id, workflow_name, version, status, total_steps, duplicate
  FROM dispatcher.trigger_workflow($1, $2::jsonb, $3, $4, $5, $6, traceparent => $7);

-- name: trigger_many
-- The same for many triggers of one workflow.
SELECT place, execution_id, version, total_steps, duplicate, refusal, message, detail
  FROM dispatcher.trigger_workflows($1, $2, $3, $4::text[], $5::text::text[], $6::text::text[], $7::text::text[]);

-- name: newest
-- The ids of the newest runs below $1, $2 at most, among $7 that are looked at; the last of those follows where there may be more.
-- The last condition lets the indexes of unfinished and of dead runs be used.
WITH looked AS MATERIALIZED (
    SELECT id, status, created_at FROM dispatcher.runs
     WHERE id < $1 AND ($5::text IS NULL OR tenant_id = $5) AND ($6::text IS NULL OR workspace_id = $6)
       AND (coalesce($3 NOT IN ('pending', 'running', 'waiting', 'paused'), true) OR finished_at IS NULL)
     ORDER BY id DESC LIMIT $7
), found AS (
    SELECT id, true AS matches FROM looked
     WHERE ($3::text IS NULL OR status = $3) AND ($4::timestamptz IS NULL OR created_at >= $4)
     ORDER BY id DESC LIMIT $2
)
TABLE found
UNION ALL
SELECT min(id), false FROM looked HAVING count(*) = $7
 ORDER BY id DESC, matches DESC;

-- name: newest_of_workflow
-- The same of the workflows called $7, deleted ones too. BETWEEN and the order by workflow leave runs_by_workflow as the
-- only index that fits: beside it the primary key looks as cheap, and where a workflow has few runs is read to its end
-- (160 ms with a million of them, where this takes 1).
SELECT r.id
  FROM dispatcher.workflows w,
       LATERAL (SELECT id FROM dispatcher.runs
                 WHERE workflow_id BETWEEN w.id AND w.id AND id < $1 AND ($3::text IS NULL OR status = $3)
                   AND ($4::timestamptz IS NULL OR created_at >= $4)
                 ORDER BY workflow_id DESC, id DESC LIMIT $2) AS r
 WHERE w.name = $7 AND ($5::text IS NULL OR w.tenant_id = $5) AND ($6::text IS NULL OR w.workspace_id = $6)
 ORDER BY r.id DESC LIMIT $2;

-- name: newest_of_key
-- The same of those with the key $8, one a workflow at most: looked up by the name of each.
SELECT r.id
  FROM (SELECT DISTINCT tenant_id, workspace_id, name FROM dispatcher.workflows
         WHERE ($7::text IS NULL OR name = $7) AND ($5::text IS NULL OR tenant_id = $5)
           AND ($6::text IS NULL OR workspace_id = $6)) AS w
  JOIN dispatcher.runs r ON r.tenant_id = w.tenant_id AND r.workspace_id = w.workspace_id AND r.workflow = w.name
                        AND r.idempotency_key = $8
 WHERE r.id < $1 AND ($3::text IS NULL OR r.status = $3) AND ($4::timestamptz IS NULL OR r.created_at >= $4)
 ORDER BY r.id DESC LIMIT $2;

-- name: rows
-- Runs by id, in short, newest first.
SELECT r.id AS execution_id, r.tenant_id, r.workspace_id, r.workflow AS workflow_name, v.number AS version, r.status,
       ARRAY(SELECT jsonb_object_keys(r.state -> 'cursor') ORDER BY 1) AS current_steps, v.total_steps, r.idempotency_key,
       r.triggered_by, r.retries AS retry_count, r.error, r.error_node AS error_step, r.note, r.available_at, r.created_at,
       r.started_at, r.finished_at
  FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id
 WHERE r.id = ANY ($1::bigint[]) ORDER BY r.id DESC;

-- name: show
-- What a run has been given, what its nodes have added to that, where it stands, and the plan that it walks through.
SELECT r.input::text, (r.input || coalesce(r.state -> 'vars', '{}'))::text AS context,
       coalesce(r.state -> 'cursor', '{}')::text AS cursor, r.paused_at, r.discarded_at,
       r.contact_id IS NOT NULL AS is_enrolment, v.plan::text
  FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id WHERE r.id = $1;

-- name: execution
-- A run of a workspace in the words of the older interface.
SELECT id::text, workflow_name, workflow_version, status, current_step, total_steps, input_payload::text, context::text,
       error_message, error_step, retry_count, created_at, started_at, completed_at, correlation_id, triggered_by
  FROM dispatcher.workflow_executions WHERE id = $1 AND tenant_id = $2 AND workspace_id = $3;

-- name: owner
-- The tenant and workspace of a run.
SELECT tenant_id, workspace_id FROM dispatcher.runs WHERE id = $1;

-- name: cursor
-- The nodes that a run is at.
SELECT coalesce(state -> 'cursor', '{}')::text FROM dispatcher.runs WHERE id = $1;

-- name: entries
-- The log of a run from number $2 on, $3 lines at most.
SELECT number, at, event, step, node, context::text, added::text, error FROM dispatcher.run_entries
 WHERE run_id = $1 AND number >= $2::bigint ORDER BY number LIMIT $3;

-- name: deliveries
-- What a run has ordered, with its life, $2 at most behind id $3.
SELECT l.id, d.node, l.channel, d.recipient, l.life, l.status, l.attempt, l.tries, d.max_attempts, l.run_at,
       l.finished_at, l.provider_message_id, l.error
  FROM dispatcher.deliveries d JOIN dispatcher.visible_delivery_life l USING (id)
 WHERE d.run_id = $1 AND d.node IS NOT NULL AND d.id > $3 ORDER BY d.id LIMIT $2;

-- name: attempts
-- Attempts of a run's deliveries that did not end them well, $2 at most.
SELECT a.ended_at AS at, a.outcome AS event, d.node, d.id AS delivery_id, d.recipient, a.attempt, a.reason AS error, a.next_at
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_attempts a ON a.delivery_id = d.id
 WHERE d.run_id = $1 AND d.node IS NOT NULL ORDER BY a.ended_at, d.id LIMIT $2;

-- name: counts
-- How a run's deliveries stand, by node.
SELECT d.node, count(*) AS all, count(*) FILTER (WHERE s.status = 'queued') AS queued,
       count(*) FILTER (WHERE s.held) AS held, count(*) FILTER (WHERE s.status = 'failed') AS failed,
       count(*) FILTER (WHERE s.status = 'skipped') AS skipped, max(s.attempt - s.attempt_base) AS attempts
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
 WHERE d.run_id = $1 AND d.node IS NOT NULL GROUP BY d.node;

-- name: pause
SELECT dispatcher.pause_run(id, $2, tenant_id, workspace_id, $3) FROM dispatcher.runs WHERE id = $1;

-- name: resume
SELECT dispatcher.resume_run(id, $2, tenant_id, workspace_id, $3) FROM dispatcher.runs WHERE id = $1;

-- name: cancel
SELECT dispatcher.cancel_run(id, $2, tenant_id, workspace_id, $3) FROM dispatcher.runs WHERE id = $1;

-- name: replay
SELECT dispatcher.replay_run(id, $2, tenant_id, workspace_id, $3) FROM dispatcher.runs WHERE id = $1;

-- name: signal
-- Send an event to a run. Raises what is wrong with the call.
SELECT dispatcher.signal_run(id, $2, $3::jsonb, tenant_id, workspace_id, $4) FROM dispatcher.runs WHERE id = $1;

-- name: due
-- How many runs a walker is to take up in each lane, woken ones among them, counted to $1 at most; how late the oldest is that was
-- due by its time.
SELECT l.lane, least(due.runs + woken.runs, $1) AS runs,
       coalesce(extract(epoch FROM statement_timestamp() - due.oldest), 0)::float8 AS age_seconds
  FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS l (lane),
       LATERAL (SELECT count(*) AS runs, min(available_at) AS oldest FROM (
                 SELECT r.available_at FROM dispatcher.runs r
                  WHERE r.lane = l.lane AND r.available_at <= statement_timestamp()
                  ORDER BY r.available_at LIMIT $1) AS few) AS due,
       LATERAL (SELECT count(*) AS runs FROM (SELECT FROM dispatcher.wakes w WHERE w.lane = l.lane LIMIT $1) AS few) AS woken;
