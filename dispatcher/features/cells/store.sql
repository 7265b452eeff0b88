-- name: cell
-- What this database says of itself; and up to 20 of its sequences that are outside the range of its number.
SELECT c.number, c.takes_unlisted, (SELECT m.checksum FROM dispatcher.schema_migrations m ORDER BY m.version DESC LIMIT 1) AS schema,
       ARRAY(SELECT s.relname::text FROM pg_class s
              WHERE s.relkind = 'S' AND c.number > 0
                AND s.relnamespace = (SELECT t.relnamespace FROM pg_class t WHERE t.oid = 'dispatcher.cell'::regclass)
                AND coalesce(pg_sequence_last_value(s.oid::regclass), 0) / (2::bigint ^ 43)::bigint <> c.number
              ORDER BY s.relname LIMIT 20) AS outside
  FROM dispatcher.cell c;

-- name: placements
-- Tenants that were placed, by name.
SELECT tenant_id, cell, url, state, version FROM dispatcher.tenant_placements ORDER BY tenant_id;

-- name: backlog
-- How much waits and is held, each counted to $1 at most.
SELECT (SELECT count(*) FROM (SELECT FROM dispatcher.delivery_state WHERE ready LIMIT $1) AS few) AS waiting,
       (SELECT count(*) FROM (SELECT FROM dispatcher.delivery_state WHERE held LIMIT $1) AS few) AS held;

-- name: tables
-- The tables that take work of tenants.
SELECT name::text AS name FROM dispatcher.work_tables ORDER BY 1;

-- name: place
-- Place a tenant; false where that was said before.
SELECT dispatcher.place_tenant($1, $2::smallint, $3, $4, $5);
