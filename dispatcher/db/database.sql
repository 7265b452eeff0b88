-- name: safety
-- Settings without which nothing here is durable, and whether the session has the settings that we give it.
SELECT current_setting('fsync') = 'on' AS fsync, pg_is_in_recovery() AS standby,
       current_setting('server_version_num')::int AS version, current_setting('enable_seqscan') = 'off' AS as_asked;

-- name: is_prepared
-- Whether the session has a prepared statement of this name.
SELECT EXISTS (SELECT FROM pg_prepared_statements WHERE name = $1);
