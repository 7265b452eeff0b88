-- name: elsewhere
-- The version by which a tenant is in another cell, where it stays until the end of this transaction.
SELECT version FROM dispatcher.tenant_placements WHERE tenant_id = $1 AND state = 'elsewhere' FOR SHARE;
