-- name: begin
-- Take an Idempotency-Key, where it is not one of which only the hash is left. One that is being used by a transaction under
-- way is waited for. No row where it was used.
INSERT INTO dispatcher.api_answers (tenant_id, workspace_id, key, asked, status, answer)
SELECT $1, $2, $3, $4, 0, ''
 WHERE NOT EXISTS (SELECT FROM dispatcher.api_answers a
                    WHERE a.tenant_id = $1 AND a.workspace_id = $2 AND a.key = dispatcher.erased($3))
ON CONFLICT (tenant_id, workspace_id, key) DO NOTHING RETURNING key;

-- name: find
-- What a key was used for, and what was answered; of what was erased only the hash of the key is left.
-- (One by one, by the index: a join may read the whole table.)
SELECT a.asked, a.status, a.answer, a.key <> $3 AS erased
  FROM unnest(ARRAY[$3, dispatcher.erased($3)]) AS one (key),
       LATERAL (SELECT asked, status, answer, key FROM dispatcher.api_answers
                 WHERE tenant_id = $1 AND workspace_id = $2 AND key = one.key
                 LIMIT 1) AS a;

-- name: finish
-- Keep what is answered.
UPDATE dispatcher.api_answers SET status = $4, answer = $5 WHERE tenant_id = $1 AND workspace_id = $2 AND key = $3;

-- name: drop
-- Forget answers that are older than so many seconds, $2 at most.
WITH gone AS (
    DELETE FROM dispatcher.api_answers WHERE (tenant_id, workspace_id, key) IN (
        SELECT tenant_id, workspace_id, key FROM dispatcher.api_answers
         WHERE created_at < statement_timestamp() - make_interval(secs => $1) ORDER BY created_at LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM gone;
