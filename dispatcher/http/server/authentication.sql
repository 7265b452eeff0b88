-- name: find
-- The key that a prefix leads to, whether it is good now, and whether its tenant is in this cell.
SELECT k.id, k.tenant_id, k.workspace_id, k.name, k.role, s.hash,
       CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked'
            WHEN k.expires_at <= statement_timestamp() THEN 'expired'
            WHEN s.ends_at <= statement_timestamp() THEN 'replaced'
            ELSE 'live' END AS state,
       coalesce(p.state, CASE WHEN c.takes_unlisted THEN 'here' ELSE 'unlisted' END) AS place,
       coalesce(p.cell, 0) AS cell, coalesce(p.url, '') AS url
  FROM dispatcher.api_secrets s JOIN dispatcher.api_keys k ON k.id = s.key_id CROSS JOIN dispatcher.cell c
  LEFT JOIN dispatcher.tenant_placements p ON p.tenant_id = k.tenant_id WHERE s.prefix = $1;

-- name: touch
-- Note that a key is used, once a minute.
UPDATE dispatcher.api_keys SET last_used_at = statement_timestamp()
 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= statement_timestamp() - interval '1 minute');
