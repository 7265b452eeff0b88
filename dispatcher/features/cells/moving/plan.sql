-- name: migrations
-- The schema's version.
SELECT version, checksum FROM dispatcher.schema_migrations ORDER BY version;

-- name: sees_transactions
-- Whether this role sees the transactions of all others.
SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE');

-- name: warnings
-- What an operator should know of the cell that a tenant goes to.
SELECT 'no dispatcher runs in the target cell: the tenant sends nothing until one does' AS words
 WHERE NOT EXISTS (SELECT FROM dispatcher.instances i
                    WHERE i.beat_at > statement_timestamp() - make_interval(secs => 2 * i.lease_seconds));
