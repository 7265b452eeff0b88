-- name: newest_runs
-- The ids of the newest dead runs below $1, $2 at most. A page reads as many as it has, which the view does not do.
SELECT r.id FROM dispatcher.runs r
 WHERE r.dead AND r.id < $1 AND ($3::text IS NULL OR r.workflow = $3) AND $4::text IS NULL
   AND ($5::text IS NULL OR r.tenant_id = $5) AND ($6::text IS NULL OR r.workspace_id = $6)
   AND ($7::timestamptz IS NULL OR r.finished_at >= $7) AND ($8::timestamptz IS NULL OR r.finished_at < $8)
   AND ($9::text IS NULL OR position(lower($9) IN lower(r.error)) > 0)
 ORDER BY r.id DESC LIMIT $2;

-- name: newest_deliveries
-- The same of deliveries, of which $10 are looked at; the last of those follows where there may be more.
SELECT id, matches FROM dispatcher.newest_dead_deliveries($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ORDER BY id DESC, matches DESC;

-- name: newest_jobs
-- The same of jobs of campaigns.
SELECT q.id FROM dispatcher.job_queue q JOIN dispatcher.campaign_runs r ON r.id = q.run_id
 WHERE q.failed > 0 AND q.discarded_at IS NULL AND q.id < $1 AND ($3::text IS NULL OR r.campaign = $3)
   AND ($4::text IS NULL OR r.channel = $4)
   AND ($5::text IS NULL OR q.tenant_id = $5) AND ($6::text IS NULL OR q.workspace_id = $6)
   AND ($7::timestamptz IS NULL OR coalesce(q.finished_at, r.counted_at, q.created_at) >= $7)
   AND ($8::timestamptz IS NULL OR coalesce(q.finished_at, r.counted_at, q.created_at) < $8)
   AND ($9::text IS NULL OR position(lower($9) IN lower(q.error)) > 0
        OR EXISTS (SELECT FROM dispatcher.delivery_state s
                    WHERE s.id BETWEEN q.first_id AND q.last_id AND s.job_id = q.id AND s.status = 'failed'
                      AND position(lower($9) IN lower(s.error)) > 0))
 ORDER BY q.id DESC LIMIT $2;

-- name: counts
-- How many there are of each kind, counted to $1 at most.
SELECT 'run' AS kind, count(*) AS letters FROM (SELECT FROM dispatcher.runs WHERE dead LIMIT $1) AS few
UNION ALL
SELECT 'delivery', count(*) FROM (SELECT FROM dispatcher.dead_deliveries WHERE discarded_at IS NULL LIMIT $1) AS few
UNION ALL
SELECT 'job', count(*)
  FROM (SELECT FROM dispatcher.job_queue WHERE failed > 0 AND discarded_at IS NULL LIMIT $1) AS few;

-- name: groups
-- The dead letters among these of kind $1, counted by name, channel and error; the largest groups first.
SELECT kind, name, channel, error, count(*) AS letters, min(failed_at) AS oldest, max(failed_at) AS newest
  FROM (SELECT kind, name, channel, left(coalesce(error, ''), 255) AS error, failed_at
          FROM dispatcher.visible_dead_letters WHERE kind = $1 AND id = ANY ($2::bigint[])) AS few
 GROUP BY kind, name, channel, error ORDER BY letters DESC, newest DESC LIMIT $3;

-- name: group_deliveries
-- The newest dead deliveries below $1 that match, $2 at most of $10 that are looked at, counted by channel and error; the $11 largest
-- groups first.
WITH few AS MATERIALIZED (
    SELECT channel, left(coalesce(error, ''), 255) AS error, failed_at, matches
      FROM dispatcher.newest_dead_deliveries($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
)
SELECT 'delivery' AS kind, NULL AS name, channel, error, count(*) AS letters, min(failed_at) AS oldest, max(failed_at) AS newest,
       (sum(count(*)) OVER ())::bigint AS counted, (SELECT bool_and(matches) FROM few) AS is_all
  FROM few WHERE matches GROUP BY channel, error ORDER BY letters DESC, newest DESC LIMIT $11;

-- name: rows
-- Those of these ids that are dead letters of kind $1, newest first.
SELECT kind, id, tenant_id, workspace_id, name, node, channel, recipient, idempotency_key, error, created_at, failed_at, retries
  FROM dispatcher.visible_dead_letters WHERE kind = $1 AND id = ANY ($2::bigint[]) ORDER BY id DESC;

-- name: replay_runs
-- Replay runs in one transaction. All are locked before the first is replayed, which goes on to its deliveries.
WITH locked AS MATERIALIZED (
    SELECT id, dead FROM dispatcher.runs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE
), buried AS MATERIALIZED (
    SELECT array_agg(id ORDER BY id) AS ids FROM locked WHERE dead
)
SELECT r.id, dispatcher.replay_run(r.id, $2, r.tenant_id, r.workspace_id, $3) AS answer
  FROM unnest((SELECT ids FROM buried)) AS one (id) JOIN dispatcher.runs r USING (id);

-- name: replay_deliveries
-- Send deliveries again in one transaction; in the order of ids, as everybody takes locks.
SELECT l.delivery_id AS id, dispatcher.reopen_delivery(l.delivery_id, $3, $2) AS answer
  FROM (SELECT delivery_id FROM dispatcher.dead_deliveries
         WHERE delivery_id = ANY ($1::bigint[]) AND discarded_at IS NULL ORDER BY delivery_id) AS l;

-- name: replay_jobs
-- Send the failed deliveries of jobs again, in one transaction.
SELECT q.id, dispatcher.replay_dead_job(q.id, $2, q.tenant_id, q.workspace_id, $3) AS answer
  FROM (SELECT id, tenant_id, workspace_id FROM dispatcher.job_queue
         WHERE id = ANY ($1::bigint[]) AND failed > 0 AND discarded_at IS NULL ORDER BY id) AS q;

-- name: discard_jobs
-- Discard jobs in one transaction.
SELECT q.id, dispatcher.discard_dead_job(q.id, $2, q.tenant_id, q.workspace_id, $3) AS answer
  FROM (SELECT id, tenant_id, workspace_id FROM dispatcher.job_queue WHERE id = ANY ($1::bigint[]) ORDER BY id) AS q;

-- name: job_owner
-- Whose a job is.
SELECT tenant_id, workspace_id FROM dispatcher.job_queue WHERE id = $1;

-- name: discard_runs
-- Discard runs in one transaction.
SELECT r.id, dispatcher.discard_run(r.id, $2, r.tenant_id, r.workspace_id, $3) AS answer
  FROM (SELECT id, tenant_id, workspace_id FROM dispatcher.runs WHERE id = ANY ($1::bigint[]) ORDER BY id) AS r;

-- name: discard_deliveries
-- Discard deliveries in one transaction.
SELECT d.id, dispatcher.discard_delivery(d.id, $2, d.tenant_id, d.workspace_id, $3) AS answer
  FROM (SELECT id, tenant_id, workspace_id FROM dispatcher.deliveries WHERE id = ANY ($1::bigint[]) ORDER BY id) AS d;
