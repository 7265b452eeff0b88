-- Closing: what has become of deliveries moves the counters of their jobs and runs, and those decide the statuses.

-- What a job is, by its counters; null: it is not done.
CREATE FUNCTION dispatcher.job_end(p_job dispatcher.job_queue) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN (p_job).sent + (p_job).failed + (p_job).skipped + (p_job).cancelled + (p_job).expired < (p_job).intended THEN NULL
                WHEN (p_job).given_up AND (p_job).failed = (p_job).intended THEN 'dead'
                WHEN (p_job).failed + (p_job).cancelled + (p_job).expired = 0 THEN 'completed'
                WHEN (p_job).sent + (p_job).skipped = 0 THEN 'failed'
                ELSE 'partial' END
$$;

-- What a run is, by its counters; null: it is not done.
CREATE FUNCTION dispatcher.campaign_run_end(p_run dispatcher.campaign_runs) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN (p_run).jobs_completed + (p_run).jobs_partial + (p_run).jobs_failed + (p_run).jobs_dead < (p_run).jobs THEN NULL
                WHEN (p_run).cancelled_at IS NOT NULL AND (p_run).cancelled > 0 THEN CASE WHEN (p_run).sent > 0 THEN 'partial' ELSE 'failed' END
                WHEN (p_run).jobs_completed = (p_run).jobs THEN 'completed'
                WHEN (p_run).jobs_completed + (p_run).jobs_partial = 0 THEN 'failed'
                ELSE 'partial' END
$$;

-- Add what has become of deliveries to a run that is locked, and close or reopen it.
CREATE FUNCTION dispatcher.close_campaign_run(p_run_id bigint, p_result jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Reasons are counted one by one as long as they are few; the others are counted together.
    reasons_max  CONSTANT integer := 200;
    pace_seconds CONSTANT double precision := 10;
    run   dispatcher.campaign_runs;
    moved record;
    ends  text;
BEGIN
    SELECT coalesce(sum(r.count) FILTER (WHERE r.class = 'sent'), 0) AS sent,
           coalesce(sum(r.count) FILTER (WHERE r.class = 'failed'), 0) AS failed,
           coalesce(sum(r.count) FILTER (WHERE r.class = 'skipped'), 0) AS skipped,
           coalesce(sum(r.count) FILTER (WHERE r.class = 'cancelled'), 0) AS cancelled,
           coalesce(sum(r.count) FILTER (WHERE r.class = 'expired'), 0) AS expired,
           coalesce(sum(r.count) FILTER (WHERE r.class = 'held'), 0) AS held,
           coalesce(sum(r.count) FILTER (WHERE r.class <> 'held'), 0) AS ended
      INTO moved
      FROM jsonb_to_recordset(p_result) AS r (job bigint, class text, count bigint)
      JOIN dispatcher.job_queue q ON q.id = r.job WHERE q.run_id = p_run_id;
    UPDATE dispatcher.campaign_runs r
       SET sent = r.sent + moved.sent, failed = r.failed + moved.failed, skipped = r.skipped + moved.skipped,
           cancelled = r.cancelled + moved.cancelled, expired = r.expired + moved.expired, held = r.held + moved.held,
           counted_at = clock_timestamp(),
           pace = r.pace + (1 - exp(-s.seconds / pace_seconds)) * (moved.ended / s.seconds - r.pace)
      FROM (SELECT greatest(extract(epoch FROM clock_timestamp() - coalesce(o.counted_at, o.started_at)), 0.001)::float8 AS seconds
              FROM dispatcher.campaign_runs o WHERE o.id = p_run_id) AS s
     WHERE r.id = p_run_id RETURNING r.* INTO run;
    INSERT INTO dispatcher.campaign_run_reasons AS c (run_id, class, reason, count)
    SELECT p_run_id, n.class, CASE WHEN n.named THEN n.reason ELSE 'other reasons' END, sum(n.count)
      FROM (SELECT r.class, r.reason, r.count,
                   row_number() OVER (ORDER BY r.class, r.reason) + k.count <= reasons_max
                   OR EXISTS (SELECT FROM dispatcher.campaign_run_reasons o
                               WHERE o.run_id = p_run_id AND o.class = r.class AND o.reason = r.reason) AS named
              FROM (SELECT x.class, x.reason, sum(x.count) AS count
                      FROM jsonb_to_recordset(p_result) AS x (job bigint, class text, reason text, count bigint)
                      JOIN dispatcher.job_queue q ON q.id = x.job
                     WHERE q.run_id = p_run_id AND x.reason <> '' GROUP BY 1, 2) AS r,
                   (SELECT count(*) AS count FROM dispatcher.campaign_run_reasons o WHERE o.run_id = p_run_id) AS k) AS n
     GROUP BY 1, 2, 3
    ON CONFLICT (run_id, class, reason) DO UPDATE SET count = c.count + excluded.count;
    ends := coalesce(dispatcher.campaign_run_end(run), 'running');
    IF ends = run.status THEN RETURN; END IF;
    UPDATE dispatcher.campaign_runs r
       SET status = ends, finished_at = CASE WHEN ends <> 'running' THEN statement_timestamp() END, checked_at = NULL
     WHERE r.id = p_run_id;
    PERFORM dispatcher.note_campaign(p_run_id, NULL, 'dispatcher', 'status', run.status, ends, '');
    IF ends <> 'running' THEN
        PERFORM dispatcher.resume('campaign_run', p_run_id::text, run.tenant_id, run.workspace_id, 'dispatcher');
    END IF;
END $$;

-- Count results of up to p_page jobs, and close what is done with them; answers how many jobs had any. A job or a run that
-- somebody else has locked is left for the next time, with its results.
CREATE FUNCTION dispatcher.close_jobs(p_page integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    runs   bigint[];
    mine   bigint[];
    result jsonb;
    one    record;
BEGIN
    -- A page of what can be locked: what cannot must not keep the others out of it.
    runs := ARRAY(SELECT r.id FROM dispatcher.campaign_runs r
                   WHERE r.id IN (SELECT q.run_id FROM dispatcher.job_queue q
                                   WHERE q.id IN (SELECT j.job_id FROM dispatcher.job_results j))
                   ORDER BY r.id FOR NO KEY UPDATE SKIP LOCKED);
    IF runs = '{}' THEN RETURN 0; END IF;
    mine := ARRAY(SELECT q.id FROM dispatcher.job_queue q
                   WHERE q.run_id = ANY (runs) AND q.id IN (SELECT j.job_id FROM dispatcher.job_results j)
                   ORDER BY q.id LIMIT p_page FOR NO KEY UPDATE SKIP LOCKED);
    IF mine = '{}' THEN RETURN 0; END IF;
    -- Locked first and looked at afterwards: the statements below see what was committed before.
    WITH gone AS (
        DELETE FROM dispatcher.job_results j WHERE j.job_id = ANY (mine) RETURNING j.job_id, j.class, j.reason, j.count
    )
    SELECT jsonb_agg(jsonb_build_object('job', g.job_id, 'class', g.class, 'reason', g.reason, 'count', g.count)) INTO result
      FROM (SELECT job_id, class, reason, sum(count) AS count FROM gone GROUP BY 1, 2, 3) AS g;

    UPDATE dispatcher.job_queue q
       SET sent = q.sent + d.sent, failed = q.failed + d.failed, skipped = q.skipped + d.skipped,
           cancelled = q.cancelled + d.cancelled, expired = q.expired + d.expired, held = q.held + d.held,
           discarded_at = CASE WHEN d.failed <= 0 THEN q.discarded_at END
      FROM (SELECT r.job, coalesce(sum(r.count) FILTER (WHERE r.class = 'sent'), 0) AS sent,
                   coalesce(sum(r.count) FILTER (WHERE r.class = 'failed'), 0) AS failed,
                   coalesce(sum(r.count) FILTER (WHERE r.class = 'skipped'), 0) AS skipped,
                   coalesce(sum(r.count) FILTER (WHERE r.class = 'cancelled'), 0) AS cancelled,
                   coalesce(sum(r.count) FILTER (WHERE r.class = 'expired'), 0) AS expired,
                   coalesce(sum(r.count) FILTER (WHERE r.class = 'held'), 0) AS held
              FROM jsonb_to_recordset(result) AS r (job bigint, class text, count bigint) GROUP BY r.job) AS d
     WHERE q.id = d.job;

    -- A job that is done gets its end, and one of which a delivery was reopened is open again.
    FOR one IN
        WITH was AS (
            SELECT q.id, q.run_id, q.status, coalesce(dispatcher.job_end(q), 'locked') AS becomes
              FROM dispatcher.job_queue q WHERE q.id = ANY (mine)
        ), moved AS (
            UPDATE dispatcher.job_queue q
               SET status = w.becomes, finished_at = CASE WHEN w.becomes <> 'locked' THEN statement_timestamp() END
              FROM was w WHERE q.id = w.id AND w.status <> w.becomes
            RETURNING q.id, q.run_id, w.status AS was, q.status
        ), noted AS (
            INSERT INTO dispatcher.campaign_events (run_id, job_id, actor, event, status_before, status)
            SELECT m.run_id, m.id, 'dispatcher', 'status', m.was, m.status FROM moved m ORDER BY m.id
        )
        SELECT m.run_id, m.was, m.status, count(*) AS count FROM moved m GROUP BY 1, 2, 3
    LOOP
        UPDATE dispatcher.campaign_runs r
           SET jobs_completed = r.jobs_completed + one.count * ((one.status = 'completed')::int - (one.was = 'completed')::int),
               jobs_partial = r.jobs_partial + one.count * ((one.status = 'partial')::int - (one.was = 'partial')::int),
               jobs_failed = r.jobs_failed + one.count * ((one.status = 'failed')::int - (one.was = 'failed')::int),
               jobs_dead = r.jobs_dead + one.count * ((one.status = 'dead')::int - (one.was = 'dead')::int)
         WHERE r.id = one.run_id;
    END LOOP;
    PERFORM dispatcher.close_campaign_run(r.run_id, result)
       FROM (SELECT DISTINCT q.run_id FROM dispatcher.job_queue q WHERE q.id = ANY (mine) ORDER BY 1) AS r;
    RETURN cardinality(mine);
END $$;

-- Compare the counters of the run that ended first of those that were not compared yet with its deliveries, and correct them.
-- Answers how many jobs were wrong, which must be none; null where there is no such run. (What was erased counts as it
-- was: its reason is gone. A job of which deliveries were deleted since is left as it is. Nobody counts meanwhile: closers
-- need the run's row.)
CREATE FUNCTION dispatcher.check_campaign_counters() RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run   dispatcher.campaign_runs;
    wrong bigint := 0;
    one   record;
BEGIN
    SELECT r.* INTO run FROM dispatcher.campaign_runs r
     WHERE r.checked_at IS NULL AND r.finished_at < statement_timestamp() - interval '1 second'
     ORDER BY r.finished_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN NULL; END IF;
    FOR one IN
        SELECT q.id, q.sent, q.failed, q.skipped + q.cancelled + q.expired AS skipped, q.held,
               c.sent AS is_sent, c.failed AS is_failed, c.skipped AS is_skipped, c.held AS is_held
          FROM dispatcher.job_queue q
         CROSS JOIN LATERAL (
               SELECT count(*) AS rows, count(*) FILTER (WHERE s.status IN ('sent', 'called', 'posted')) AS sent,
                      count(*) FILTER (WHERE s.status = 'failed') AS failed,
                      count(*) FILTER (WHERE s.status = 'skipped') AS skipped,
                      count(*) FILTER (WHERE s.held) AS held
                 FROM dispatcher.delivery_state s WHERE s.id BETWEEN q.first_id AND q.last_id AND s.job_id = q.id) AS c
         WHERE q.run_id = run.id AND c.rows = q.intended
           AND (q.sent, q.failed, q.skipped + q.cancelled + q.expired, q.held) IS DISTINCT FROM (c.sent, c.failed, c.skipped, c.held)
           AND NOT EXISTS (SELECT FROM dispatcher.job_results j WHERE j.job_id = q.id)
         ORDER BY q.id
    LOOP
        wrong := wrong + 1;
        INSERT INTO dispatcher.job_results (job_id, class, reason, count)
        SELECT one.id, d.class, '', d.count
          FROM (VALUES ('sent', one.is_sent - one.sent), ('failed', one.is_failed - one.failed),
                       ('skipped', one.is_skipped - one.skipped), ('held', one.is_held - one.held)) AS d (class, count)
         WHERE d.count <> 0;
        PERFORM dispatcher.note_campaign(run.id, one.id, 'dispatcher', 'repair', NULL, NULL, 'its counters differed from its deliveries');
    END LOOP;
    UPDATE dispatcher.campaign_runs r SET checked_at = statement_timestamp() WHERE r.id = run.id;
    RETURN wrong;
END $$;

REVOKE ALL ON FUNCTION dispatcher.job_end, dispatcher.campaign_run_end, dispatcher.close_campaign_run, dispatcher.close_jobs,
    dispatcher.check_campaign_counters FROM PUBLIC;
