-- name: create
SELECT dispatcher.create_api_key($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: rotate
SELECT dispatcher.rotate_api_key($1, $2, $3, make_interval(secs => $4), $5, $6, $7, $8);

-- name: revoke
SELECT dispatcher.revoke_api_key($1, $2, $3, $4, $5);

-- name: list
-- The keys of a workspace behind a name and an id, $4 at most; those that were revoked only where $5, with $7 those
-- of a role. No secret of a key is good for longer than the key.
SELECT k.id, k.tenant_id, k.workspace_id, k.name, k.role, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
       CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked'
            WHEN k.expires_at <= statement_timestamp() THEN 'expired'
            ELSE 'live' END AS state,
       ARRAY(SELECT s.prefix FROM dispatcher.api_secrets s
              WHERE s.key_id = k.id AND (s.ends_at > statement_timestamp() OR s.ends_at IS NULL)
                AND k.revoked_at IS NULL AND coalesce(k.expires_at > statement_timestamp(), true)
              ORDER BY s.ends_at NULLS FIRST) AS prefixes,
       (SELECT least(s.ends_at, k.expires_at) FROM dispatcher.api_secrets s
         WHERE s.key_id = k.id AND s.ends_at > statement_timestamp()
           AND k.revoked_at IS NULL AND coalesce(k.expires_at > statement_timestamp(), true)) AS old_secret_until
  FROM dispatcher.api_keys k
 WHERE k.tenant_id = $1 AND k.workspace_id = $2 AND (k.name, k.id) > ($3, $6) AND ($5 OR k.revoked_at IS NULL)
   AND ($7::text IS NULL OR k.role = $7)
 ORDER BY k.name, k.id LIMIT $4;

-- name: actions
-- What was done to the keys of a name, those that were revoked too: the last first, below $5, $4 at most.
SELECT a.id, k.name, k.role, a.at, a.actor, a.action, a.prefix, a.reason
  FROM dispatcher.api_keys k,
       -- OFFSET 0 has them found by their key alone, and not all that are below $5 for each key.
       LATERAL (SELECT * FROM dispatcher.api_key_actions WHERE key_id = k.id OFFSET 0) AS a
 WHERE k.tenant_id = $1 AND k.workspace_id = $2 AND k.name = $3 AND a.id < $5
 ORDER BY a.id DESC LIMIT $4;
