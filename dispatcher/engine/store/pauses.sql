-- name: open
-- What is paused now, and where.
SELECT id, scope, name, tenant_id, workspace_id FROM dispatcher.pauses WHERE ended_at IS NULL ORDER BY id;

-- name: unpark
-- Make up to $1 deliveries ready whose pause is over.
SELECT dispatcher.unpark($1);

-- name: campaign_limits
-- Of open campaign runs with a rate or a closed window: both. A window opens at a full second, so that two looks say the same.
SELECT r.id, r.rate, date_trunc('second', statement_timestamp() + make_interval(secs => w.wait) + interval '0.5 seconds')
       AS opens_at
  FROM dispatcher.campaign_runs r,
       LATERAL (SELECT nullif(dispatcher.window_wait(r.send_window, statement_timestamp()), 0) AS wait) AS w
 WHERE r.finished_at IS NULL AND (r.rate IS NOT NULL OR w.wait IS NOT NULL);
