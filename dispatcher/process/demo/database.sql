-- name: standing
-- Whether a database has our schema, whether that carries the mark $1 and has tables, and whether there are tables of
-- anybody.
SELECT to_regnamespace('dispatcher') IS NOT NULL AS made,
       coalesce(obj_description(to_regnamespace('dispatcher'), 'pg_namespace') = $1, false) AS marked,
       to_regclass('dispatcher.instances') IS NOT NULL AS migrated,
       EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE c.relkind IN ('r', 'p') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\_%') AS used;

-- name: make
-- Our schema, with nothing in it.
CREATE SCHEMA dispatcher;

-- name: joined
-- The names of live instances, without $1.
SELECT DISTINCT name FROM dispatcher.instances
 WHERE name <> $1 AND beat_at > clock_timestamp() - make_interval(secs => lease_seconds) ORDER BY name;
