-- name: find
-- The move of a tenant that is not finished.
SELECT id, target, phase FROM dispatcher.tenant_moves WHERE tenant_id = $1 AND finished_at IS NULL;

-- name: begin
INSERT INTO dispatcher.tenant_moves (tenant_id, target, actor, reason) VALUES ($1, $2, $3, $4) RETURNING id, target, phase;

-- name: enter
-- Enter a phase. When it stood still and when it was opened is noted once; whoever opens its doors again begins anew.
UPDATE dispatcher.tenant_moves
   SET phase = $2, error = NULL,
       stopped_at = CASE WHEN $2 = 'copying' THEN NULL WHEN $2 = 'stopped' THEN coalesce(stopped_at, clock_timestamp())
                         ELSE stopped_at END,
       opened_at = CASE WHEN $2 = 'cleaning' THEN coalesce(opened_at, clock_timestamp()) ELSE opened_at END,
       finished_at = CASE WHEN $2 IN ('done', 'cancelled') THEN clock_timestamp() END,
       rows = coalesce($3::jsonb, rows)
 WHERE id = $1;

-- name: interrupted
-- Why it was interrupted.
UPDATE dispatcher.tenant_moves SET error = $2 WHERE id = $1;

-- name: result
-- What has become of a move.
SELECT tenant_id, target, phase, started_at, stopped_at, opened_at, finished_at, rows::text,
       extract(epoch FROM opened_at - stopped_at)::float8 AS still_seconds
  FROM dispatcher.tenant_moves WHERE id = $1;

-- name: lock
-- Whether no other mover works on this tenant with this database; until the end of the session.
SELECT pg_try_advisory_lock(hashtextextended('dispatcher.tenant_moves ' || $1, 0));

-- name: placement
-- Where a tenant is, and by which version; without a row it is here if this cell takes such tenants.
SELECT c.number AS own, coalesce(p.state, CASE WHEN c.takes_unlisted THEN 'here' ELSE 'unlisted' END) AS state,
       coalesce(p.version, 0) AS version, p.pause_id, p.state IS NOT NULL AS placed
  FROM dispatcher.cell c LEFT JOIN dispatcher.tenant_placements p ON p.tenant_id = $1;

-- name: place
SELECT dispatcher.place_tenant($1, $2::smallint, $3, $4, $5);

-- name: wake
-- Something is to do for dispatchers that wait.
SELECT pg_notify('dispatcher_work', ''), pg_notify('dispatcher_runs', ''), pg_notify('dispatcher_suppressions', '');

-- name: has_erased
-- Whether anything of the tenant was erased.
SELECT EXISTS (SELECT FROM dispatcher.erasures WHERE tenant_id = $1);

-- name: keep_erased_keys
SELECT dispatcher.keep_erased_keys();
