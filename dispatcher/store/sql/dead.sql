-- name: page
-- The dead letters of kind $1 below an id, newest first, $3 at most; of the kind that is not asked for nothing is read.
SELECT kind, id, tenant_id, workspace_id, name, node, channel, recipient, idempotency_key, error, created_at, failed_at, retries
  FROM dispatcher.dead_letters
 WHERE kind = $1 AND id < $2 AND ($4::text IS NULL OR name = $4) AND ($5::text IS NULL OR channel = $5)
   AND ($6::text IS NULL OR tenant_id = $6) AND ($7::text IS NULL OR workspace_id = $7)
   AND ($8::timestamptz IS NULL OR failed_at >= $8) AND ($9::timestamptz IS NULL OR failed_at < $9)
   AND ($10::text IS NULL OR position(lower($10) IN lower(error)) > 0)
 ORDER BY id DESC LIMIT $3;

-- name: count
-- How many of a kind there are, and the time before which they have failed: what fails later is left alone.
SELECT count(*) AS letters, statement_timestamp() AS asked_at
  FROM dispatcher.dead_letters
 WHERE kind = $1 AND ($2::text IS NULL OR name = $2) AND ($3::text IS NULL OR channel = $3)
   AND ($4::text IS NULL OR tenant_id = $4) AND ($5::text IS NULL OR workspace_id = $5)
   AND ($6::timestamptz IS NULL OR failed_at >= $6) AND ($7::timestamptz IS NULL OR failed_at < $7)
   AND ($8::text IS NULL OR position(lower($8) IN lower(error)) > 0);

-- name: which
-- Those of these ids that are dead letters of kind $1.
SELECT id FROM dispatcher.dead_letters WHERE kind = $1 AND id = ANY ($2::bigint[]);

-- name: replay_runs
-- Replay runs in one transaction. All are locked before the first is replayed, which goes on to its deliveries.
WITH locked AS MATERIALIZED (
    SELECT id, dead FROM dispatcher.runs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE
), buried AS MATERIALIZED (
    SELECT array_agg(id ORDER BY id) AS ids FROM locked WHERE dead
)
SELECT r.id, dispatcher.replay_run_v1(r.id, $2, r.tenant_id, r.workspace_id, $3) AS answer
  FROM unnest((SELECT ids FROM buried)) AS one (id) JOIN dispatcher.runs r USING (id);

-- name: replay_deliveries
-- Send deliveries again in one transaction; in the order of ids, as everybody takes locks.
SELECT l.delivery_id AS id, dispatcher.reopen_delivery_v1(l.delivery_id, $3, $2) AS answer
  FROM (SELECT delivery_id FROM dispatcher.dead_deliveries
         WHERE delivery_id = ANY ($1::bigint[]) AND discarded_at IS NULL ORDER BY delivery_id) AS l;

-- name: discard_runs
-- Discard runs in one transaction.
SELECT r.id, dispatcher.discard_run_v1(r.id, $2, r.tenant_id, r.workspace_id, $3) AS answer
  FROM (SELECT id, tenant_id, workspace_id FROM dispatcher.runs WHERE id = ANY ($1::bigint[]) ORDER BY id) AS r;

-- name: discard_deliveries
-- Discard deliveries in one transaction.
SELECT d.id, dispatcher.discard_delivery_v1(d.id, $2, d.tenant_id, d.workspace_id, $3) AS answer
  FROM (SELECT id, tenant_id, workspace_id FROM dispatcher.deliveries WHERE id = ANY ($1::bigint[]) ORDER BY id) AS d;
