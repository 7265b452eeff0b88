-- name: boundary
-- The first transaction that begins from now on.
SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text;

-- name: older
-- Transactions that may still write by what they saw before: those that began before $1, those that look at the database as it was
-- then, and those that are prepared.
SELECT format('process %s (%s, %s) has had a transaction open for %s s', a.pid, coalesce(nullif(a.application_name, ''), 'no name'),
              a.usename, round(extract(epoch FROM clock_timestamp() - a.xact_start))) AS words
  FROM pg_stat_activity a
 WHERE a.datname = current_database() AND a.pid <> ALL ($2::integer[]) AND a.backend_type = 'client backend'
   AND (age(a.backend_xid) > age($1::text::xid) OR age(a.backend_xmin) > age($1::text::xid))
 UNION ALL
SELECT format('the prepared transaction %s is open since %s', p.gid, p.prepared)
  FROM pg_prepared_xacts p WHERE p.database = current_database() AND age(p.transaction) > age($1::text::xid)
 LIMIT 5;

-- name: park
-- Park up to $3 deliveries of a tenant that are ready; answers how many.
WITH found AS (
    SELECT s.id FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
     WHERE s.ready AND d.tenant_id = $1 LIMIT $3 FOR UPDATE OF s SKIP LOCKED
), noted AS (
    INSERT INTO dispatcher.parked (delivery_id, pause_id) SELECT f.id, $2 FROM found f
    ON CONFLICT (delivery_id) DO UPDATE SET pause_id = excluded.pause_id
), parked AS (
    UPDATE dispatcher.delivery_state s SET ready = false FROM found f WHERE s.id = f.id RETURNING s.id
)
SELECT count(*) FROM parked;

-- name: claimed
-- Dispatchers that have claimed deliveries of a tenant, and how many.
SELECT format('%s deliveries are claimed by %s', count(*),
              coalesce((SELECT i.name FROM dispatcher.instances i WHERE i.epoch = c.epoch),
                       'a dispatcher that has ended: another one recovers them')) AS words
  FROM dispatcher.claims c, unnest(c.ids) AS claimed (id), dispatcher.delivery_state s, dispatcher.deliveries d
 WHERE s.id = claimed.id AND s.token = c.token AND s.status = 'queued' AND NOT s.held
   AND d.id = s.id AND d.tenant_id = $1
 GROUP BY c.epoch LIMIT 5;

-- name: unsettled
-- How many deliveries of a tenant could be sent yet.
SELECT count(*) FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
 WHERE d.tenant_id = $1 AND s.status = 'queued' AND NOT s.held AND (s.ready OR s.marked OR s.token IS NOT NULL);
