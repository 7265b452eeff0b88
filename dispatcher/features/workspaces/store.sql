-- name: show
-- The settings of a workspace.
SELECT s.phone_region, s.time_zone, s.updated_at, s.updated_by FROM dispatcher.workspace_settings s
 WHERE s.tenant_id = $1 AND s.workspace_id = $2;

-- name: put
-- Save the settings of a workspace.
SELECT dispatcher.put_workspace_settings($1, $2, $3, $4, $5::text::jsonb, $6);
