-- name: current
-- What is paused now, and where; and, without a scope, open campaign runs with a rate or a closed window: both. A window opens at a
-- full second, so that two looks say the same.
SELECT p.id, p.scope, p.name, p.tenant_id, p.workspace_id, NULL AS rate, NULL AS opens_at
  FROM dispatcher.pauses p WHERE p.ended_at IS NULL
 UNION ALL
SELECT r.id, NULL, NULL, NULL, NULL, r.rate,
       date_trunc('second', statement_timestamp() + make_interval(secs => w.wait) + interval '0.5 seconds')
  FROM dispatcher.campaign_runs r,
       LATERAL (SELECT nullif(dispatcher.window_wait(r.send_window, statement_timestamp()), 0) AS wait) AS w
 WHERE r.finished_at IS NULL AND (r.rate IS NOT NULL OR w.wait IS NOT NULL)
 ORDER BY 1;

-- name: unpark
-- Make up to $1 deliveries ready whose pause is over.
SELECT dispatcher.unpark($1);
