-- name: vitals
-- The size of the database, the connections of the whole server by state, those of the database that wait for a lock, and
-- its oldest transaction. Of other roles the state is hidden from us, unless we may read it (pg_monitor).
SELECT pg_database_size(current_database()) AS bytes,
       count(*) FILTER (WHERE a.state = 'active') AS active,
       count(*) FILTER (WHERE a.state = 'idle') AS idle,
       count(*) FILTER (WHERE a.state LIKE 'idle in transaction%') AS idle_in_transaction,
       count(*) FILTER (WHERE a.state IS NULL OR a.state NOT IN ('active', 'idle') AND a.state NOT LIKE 'idle in transaction%') AS other,
       current_setting('max_connections')::integer AS connections_max,
       count(*) FILTER (WHERE a.datname = current_database() AND a.wait_event_type = 'Lock') AS lock_waits,
       coalesce(greatest(extract(epoch FROM statement_timestamp() - least(
                    min(a.xact_start) FILTER (WHERE a.datname = current_database()),
                    (SELECT min(prepared) FROM pg_prepared_xacts WHERE database = current_database()))), 0), 0)::float8
           AS oldest_transaction_seconds,
       (SELECT d.deadlocks FROM pg_stat_database d WHERE d.datname = current_database()) AS deadlocks
  FROM pg_stat_activity a WHERE a.backend_type = 'client backend';

-- name: tables
-- The tables of the schema with their sizes and rows. The size is that of the last vacuum or analyze, indexes and values that
-- are stored outside included: pg_total_relation_size would wait for each table that somebody has locked.
SELECT c.relname::text,
       (c.relpages + coalesce(t.relpages, 0) + i.pages) * current_setting('block_size')::bigint AS bytes,
       s.n_live_tup AS live, s.n_dead_tup AS dead, s.n_tup_ins AS inserted
  FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid
  LEFT JOIN pg_class t ON t.oid = c.reltoastrelid,
       LATERAL (SELECT coalesce(sum(p.relpages), 0)::bigint AS pages
                  FROM pg_index x JOIN pg_class p ON p.oid = x.indexrelid WHERE x.indrelid = c.oid) AS i
 WHERE c.relnamespace = to_regnamespace('dispatcher') AND c.relkind = 'r'
 ORDER BY c.relname;
