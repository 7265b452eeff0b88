-- name: begin
-- Take an Idempotency-Key. One that is being used by a transaction under way is waited for. No row where it was used.
INSERT INTO dispatcher.api_answers (tenant_id, workspace_id, key, asked, status, answer) VALUES ($1, $2, $3, $4, 0, '')
ON CONFLICT (tenant_id, workspace_id, key) DO NOTHING RETURNING key;

-- name: find
-- What a key was used for, and what was answered.
SELECT asked, status, answer FROM dispatcher.api_answers WHERE tenant_id = $1 AND workspace_id = $2 AND key = $3;

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
