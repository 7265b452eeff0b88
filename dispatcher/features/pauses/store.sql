-- name: pause
-- Stop something in a workspace, or everywhere.
SELECT pause_id, already FROM dispatcher.pause($1, $2, $3, $4, $5, $6);

-- name: resume
-- Let what one pause stops go on; no row where it has ended. A run goes on by itself.
SELECT dispatcher.resume(p.scope, p.name, p.tenant_id, p.workspace_id, $2, $3)
  FROM dispatcher.pauses p WHERE p.id = $1 AND p.ended_at IS NULL AND p.scope NOT IN ('run', 'campaign_run', 'moved');

-- name: list
-- The open pauses behind an id, $4 at most, with $5 those of a scope: all, or with $1 and $2 those that stop anything in a
-- workspace, which are its own and those that hold everywhere.
SELECT id, scope, name, tenant_id, workspace_id, since, actor, reason
  FROM dispatcher.pauses
 WHERE ended_at IS NULL AND id > $3 AND ($5::text IS NULL OR scope = $5)
   AND CASE WHEN $1::text IS NULL THEN true
            WHEN tenant_id IS NOT NULL THEN tenant_id = $1 AND workspace_id = $2
            WHEN scope IN ('tenant', 'moved') THEN name = $1 ELSE scope <> 'run' END
 ORDER BY id LIMIT $4;

-- name: show
-- One that is open.
SELECT id, scope, name, tenant_id, workspace_id, since, actor, reason
  FROM dispatcher.pauses WHERE id = $1 AND ended_at IS NULL;
