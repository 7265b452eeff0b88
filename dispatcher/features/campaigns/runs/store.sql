-- name: owner
-- The workspace of a run, and whether it was cancelled.
SELECT tenant_id, workspace_id, cancelled_at IS NOT NULL AS cancelled FROM dispatcher.campaign_runs WHERE id = $1;

-- name: list
-- Runs below $1, up to $2, the newest first, filtered where something is given.
SELECT id, tenant_id, workspace_id, campaign, campaign_id, status, paused_at IS NOT NULL AS paused, cancelled_at IS NOT NULL AS cancelled,
       test, channel, template_name AS template, lane, topic, idempotency_key, created_by, scheduled_for, created_at, started_at,
       finished_at, intended, sent, failed, skipped, cancelled AS cancelled_count, expired, held, jobs, jobs_completed, jobs_partial,
       jobs_failed, jobs_dead
  FROM dispatcher.campaign_runs
 WHERE id < $1 AND ($3::text IS NULL OR tenant_id = $3) AND ($4::text IS NULL OR workspace_id = $4)
   AND ($5::text IS NULL OR campaign = $5) AND ($6::text IS NULL OR status = $6) AND ($7::boolean IS NULL OR test = $7)
 ORDER BY id DESC LIMIT $2;

-- name: show
-- A run with its progress, from its row and its reasons alone.
SELECT r.id, r.tenant_id, r.workspace_id, r.campaign, r.campaign_id, r.status, r.paused_at IS NOT NULL AS paused,
       r.cancelled_at IS NOT NULL AS cancelled, r.test, r.channel, r.template_name AS template, r.lane, r.topic, r.idempotency_key,
       r.created_by, r.scheduled_for, r.created_at, r.started_at, r.finished_at, r.intended, r.sent, r.failed, r.skipped,
       r.cancelled AS cancelled_count, r.expired, r.held, r.jobs, r.jobs_completed, r.jobs_partial, r.jobs_failed, r.jobs_dead,
       r.send_window::text, r.rate, r.pace, extract(epoch FROM clock_timestamp() - r.counted_at)::float8 AS idle_seconds,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('outcome', n.class, 'reason', n.reason, 'count', n.count)
                                  ORDER BY n.count DESC, n.class, n.reason), '[]')
          FROM dispatcher.campaign_run_reasons n WHERE n.run_id = r.id AND n.count > 0)::text AS reasons
  FROM dispatcher.campaign_runs r WHERE r.id = $1;

-- name: pause
SELECT dispatcher.pause_campaign_run($1, $2, $3, $4, $5);

-- name: resume
SELECT dispatcher.resume_campaign_run($1, $3, $4, $5, $2);

-- name: cancel
SELECT dispatcher.cancel_campaign_run($1, $2, $3, $4, $5);

-- name: rate
SELECT dispatcher.set_campaign_rate($1, $2, $3, $4, $5);

-- name: replay
-- Send up to $3 failed deliveries behind $2 again; answers how many, and the last that was looked at.
SELECT replayed, last FROM dispatcher.replay_campaign_run($1, $2, $3, $4, $5, $6, $7);

-- name: jobs
-- Jobs of a run behind $2, up to $3; with $4 those of a status.
SELECT id, job_type, status, attempts, intended, sent, failed, skipped, cancelled, expired, held, created_at, locked_at, expanded_at,
       finished_at, error
  FROM dispatcher.job_queue WHERE run_id = $1 AND id > $2 AND ($4::text IS NULL OR status = $4) ORDER BY id LIMIT $3;

-- name: trace
-- Deliveries of a run beside their jobs, from delivery $3 of job $2 on, up to $4; with $5 those of a status.
SELECT t.job_id, t.job_status, t.job_attempts, t.outbox_id, t.contact_id, t.recipient, t.outbox_status, t.attempts,
       t.provider_message_id, t.error, t.created_at, t.finished_at,
       (SELECT l.life FROM dispatcher.visible_delivery_life l WHERE l.id = t.outbox_id) AS life
  FROM dispatcher.campaign_trace t
 WHERE t.run_id = $1 AND t.job_id >= $2 AND (t.job_id > $2 OR t.outbox_id >= $3) AND ($5::text IS NULL OR t.outbox_status = $5)
 ORDER BY t.job_id, t.outbox_id LIMIT $4;

-- name: events
-- What happened to a run and its jobs behind $2, up to $3: of the run, of its jobs, or of both.
SELECT e.id, e.at, CASE WHEN e.job_id IS NULL THEN 'run' ELSE 'job' END AS entity, e.job_id, NULL::bigint AS delivery_id, e.event,
       e.status_before, e.status, e.actor, e.reason
  FROM dispatcher.campaign_events e
 WHERE e.run_id = $1 AND e.id > $2 AND ($4::text IS NULL OR (e.job_id IS NULL) = ($4 = 'run'))
 ORDER BY e.id LIMIT $3;

-- name: histories
-- What happened to deliveries of a run, from delivery $3 of job $2 on without the first $4 entries, up to $5. Each delivery has an
-- entry at least, so that as many deliveries are enough.
WITH next AS MATERIALIZED (
    SELECT d.id FROM dispatcher.job_queue q
      JOIN dispatcher.deliveries d ON d.id BETWEEN q.first_id AND q.last_id AND d.job_id = q.id
     WHERE q.run_id = $1 AND q.id >= $2 AND (q.id > $2 OR d.id >= $3) ORDER BY q.id, d.id LIMIT $5
)
SELECT l.at, l.entity, l.job_id, l.delivery_id, l.event, l.status_before, l.status, l.actor, l.reason
  FROM dispatcher.campaign_audit_log l
 WHERE l.delivery_id = ANY (ARRAY(SELECT n.id FROM next n))
 ORDER BY l.job_id, l.delivery_id, l.at, l.event, l.status LIMIT $5 OFFSET $4;

-- name: check
-- Check up to $5 jobs of a run behind $4.
SELECT status, jobs, items, last_job, broken, breaches::text FROM dispatcher.check_campaign_run($1, $2, $3, $4, $5);
