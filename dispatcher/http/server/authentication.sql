-- name: find
-- The key that a prefix leads to, and whether it is good now.
SELECT k.id, k.tenant_id, k.workspace_id, k.name, k.role, s.hash,
       CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked'
            WHEN k.expires_at <= statement_timestamp() THEN 'expired'
            WHEN s.ends_at <= statement_timestamp() THEN 'replaced'
            ELSE 'live' END AS state
  FROM dispatcher.api_secrets s JOIN dispatcher.api_keys k ON k.id = s.key_id WHERE s.prefix = $1;

-- name: touch
-- Note that a key is used, once a minute.
UPDATE dispatcher.api_keys SET last_used_at = statement_timestamp()
 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= statement_timestamp() - interval '1 minute');
