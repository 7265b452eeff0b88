-- name: open
-- What is paused now, and where.
SELECT id, scope, name, tenant_id, workspace_id FROM dispatcher.pauses WHERE ended_at IS NULL ORDER BY id;

-- name: unpark
-- Make up to $1 deliveries ready whose pause is over.
SELECT dispatcher.unpark($1);
