-- name: identify
-- The cluster to which this connection leads, and whether the database was last seen there. Fails on a standby, which may be promoted
-- while the connection lasts.
SELECT h.system_identifier, h.timeline, h.database_oid, h.schema_oid, dispatcher.cluster_is_known() AS known
  FROM dispatcher.here() h;

-- name: allow_time
-- Let the statements of this transaction run for $1 milliseconds: a quarantine goes over every delivery that is due.
SELECT set_config('statement_timeout', $1, true);

-- name: note
-- Store the cluster; another one than before quarantines what may have been attempted, and returns how many that were.
SELECT dispatcher.see_cluster();
