-- name: grown
-- Tables that have got more than a share of the rows that the planner knows of.
SELECT c.oid::regclass::text AS name
  FROM unnest($1::text[], $2::bigint[]) AS copied (name, rows), pg_class c
 WHERE c.relname = copied.name AND copied.rows > $3::float8 * greatest(c.reltuples, 0)
   AND c.relnamespace = (SELECT n.relnamespace FROM pg_class n WHERE n.oid = 'dispatcher.deliveries'::regclass);
