-- name: create
-- Create an endpoint, where its workspace has fewer than $8 and none of its name.
SELECT dispatcher.create_webhook($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: change
-- Change an endpoint.
SELECT dispatcher.change_webhook($1, $2, $3, $4, $5, $6, $7, $8);

-- name: rotate
-- Give an endpoint another secret; the old one signs for $4 seconds more.
SELECT dispatcher.rotate_webhook($1, $2, $3, make_interval(secs => $4), $5, $6, $7);

-- name: delete
-- Delete an endpoint, and its secrets.
SELECT dispatcher.delete_webhook($1, $2, $3, $4, $5);

-- name: list
-- List up to $4 endpoints of a workspace after the name $3, or only $5. Secrets are left out.
SELECT e.id, e.name, e.url, e.events, e.enabled, e.created_at,
       (SELECT s.ends_at FROM dispatcher.webhook_secrets s
         WHERE s.endpoint_id = e.id AND s.ends_at > statement_timestamp()) AS old_secret_until
  FROM dispatcher.webhook_endpoints e
 WHERE e.tenant_id = $1 AND e.workspace_id = $2 AND e.deleted_at IS NULL AND e.name > $3 AND ($5::text IS NULL OR e.name = $5)
 ORDER BY e.name LIMIT $4;

-- name: actions
-- List up to $4 actions on the endpoints of a name, deleted ones too, below $5, the newest first.
SELECT a.id, e.name, a.at, a.actor, a.action, a.reason
  FROM dispatcher.webhook_endpoints e JOIN dispatcher.webhook_actions a ON a.endpoint_id = e.id
 WHERE e.tenant_id = $1 AND e.workspace_id = $2 AND e.name = $3 AND a.id < $5
 ORDER BY a.id DESC LIMIT $4;

-- name: targets
-- The URLs of endpoints, each with the secrets that sign now, the newest first.
SELECT e.id, e.tenant_id, e.workspace_id, e.url, e.enabled,
       ARRAY(SELECT s.secret FROM dispatcher.webhook_secrets s
              WHERE s.endpoint_id = e.id AND (s.ends_at IS NULL OR s.ends_at > statement_timestamp())
              ORDER BY s.id DESC) AS secrets
  FROM dispatcher.webhook_endpoints e
 WHERE e.id = ANY ($1::bigint[]) AND e.deleted_at IS NULL;
