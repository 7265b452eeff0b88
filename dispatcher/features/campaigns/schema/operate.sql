-- What operators do to a run: pause, resume, cancel, change its rate, replay what has failed.

-- The run of an id, locked; of another workspace it is unknown.
CREATE FUNCTION dispatcher.lock_campaign_run(p_run_id bigint, p_tenant_id text, p_workspace_id text)
RETURNS dispatcher.campaign_runs
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dispatcher.campaign_runs;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    SELECT r.* INTO run FROM dispatcher.campaign_runs r
     WHERE r.id = p_run_id AND r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id FOR NO KEY UPDATE;
    RETURN run;
END $$;

-- Pause a run: nothing more of it is marked, and nothing more is expanded. Answers done, same, unknown, or its end.
CREATE FUNCTION dispatcher.pause_campaign_run(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.campaign_runs := dispatcher.lock_campaign_run(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF run.cancelled_at IS NOT NULL THEN RETURN 'cancelled'; END IF;
    IF run.paused_at IS NOT NULL THEN RETURN 'same'; END IF;
    UPDATE dispatcher.campaign_runs r SET paused_at = statement_timestamp() WHERE r.id = p_run_id;
    PERFORM dispatcher.pause('campaign_run', p_run_id::text, p_tenant_id, p_workspace_id, actor, coalesce(p_reason, ''));
    PERFORM dispatcher.note_campaign(p_run_id, NULL, actor, 'pause', NULL, NULL, p_reason);
    RETURN 'done';
END $$;

-- Give what is written of a run and waits times of its rate, from now on.
CREATE FUNCTION dispatcher.space_campaign_run(p_run dispatcher.campaign_runs) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    step   CONSTANT interval := make_interval(secs => coalesce(1 / p_run.rate, 0));
    spaced bigint;
BEGIN
    WITH waiting AS (
        SELECT s.id, s.run_at
          FROM dispatcher.job_queue q
          JOIN dispatcher.delivery_state s ON s.id BETWEEN q.first_id AND q.last_id AND s.job_id = q.id
         WHERE q.run_id = p_run.id AND q.finished_at IS NULL AND s.status = 'queued' AND s.token IS NULL AND NOT s.held AND s.attempt = 0
         ORDER BY s.id FOR UPDATE OF s SKIP LOCKED
    ), placed AS (
        SELECT w.id, row_number() OVER (ORDER BY w.id) - 1 AS place FROM waiting w
    )
    UPDATE dispatcher.delivery_state s SET run_at = greatest(p_run.scheduled_for, statement_timestamp()) + p.place * step
      FROM placed p WHERE s.id = p.id;
    GET DIAGNOSTICS spaced = ROW_COUNT;
    UPDATE dispatcher.campaign_runs r
       SET next_at = CASE WHEN p_run.rate IS NOT NULL THEN greatest(p_run.scheduled_for, statement_timestamp()) + spaced * step END,
           respace_at = NULL
     WHERE r.id = p_run.id;
    PERFORM pg_notify('dispatcher_work', '');
    PERFORM pg_notify('dispatcher_campaigns', '');
END $$;

-- Space the runs whose rate was changed a moment ago; answers how many.
CREATE FUNCTION dispatcher.space_campaigns() RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run    dispatcher.campaign_runs;
    spaced bigint := 0;
BEGIN
    FOR run IN
        SELECT r.* FROM dispatcher.campaign_runs r
         WHERE r.finished_at IS NULL AND r.respace_at <= statement_timestamp() ORDER BY r.id FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        PERFORM dispatcher.space_campaign_run(run);
        spaced := spaced + 1;
    END LOOP;
    RETURN spaced;
END $$;

-- Let a run go on. Answers done, same, unknown, cancelled, or its end.
CREATE FUNCTION dispatcher.resume_campaign_run(
    p_run_id bigint, p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default', p_actor text DEFAULT session_user,
    p_reason text DEFAULT ''
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.campaign_runs := dispatcher.lock_campaign_run(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF run.cancelled_at IS NOT NULL THEN RETURN 'cancelled'; END IF;
    IF run.paused_at IS NULL THEN RETURN 'same'; END IF;
    UPDATE dispatcher.campaign_runs r SET paused_at = NULL, note = NULL WHERE r.id = p_run_id;
    PERFORM dispatcher.resume('campaign_run', p_run_id::text, p_tenant_id, p_workspace_id, actor, p_reason);
    PERFORM dispatcher.note_campaign(p_run_id, NULL, actor, 'resume', NULL, NULL, p_reason);
    IF run.rate IS NOT NULL THEN PERFORM dispatcher.space_campaign_run(run); END IF;
    PERFORM pg_notify('dispatcher_campaigns', '');
    RETURN 'done';
END $$;

-- Change how fast a run goes; null: as fast as its channel. Answers done, same, unknown, cancelled, or its end. What is
-- written gets its new times a moment later: a sender that does not know the new rate yet would put off what is due by the old
-- one, each delivery behind the other (200 of a rate of one a minute by three hours).
CREATE FUNCTION dispatcher.set_campaign_rate(
    p_run_id bigint, p_rate double precision, p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known_after CONSTANT interval := '0.3 s';
    actor       CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run         dispatcher.campaign_runs := dispatcher.lock_campaign_run(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF p_rate <= 0 THEN
        PERFORM dispatcher.refuse('rate: expected messages a second, more than 0', dispatcher.fault('$.rate', 'expected messages a second, more than 0'));
    END IF;
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF run.cancelled_at IS NOT NULL THEN RETURN 'cancelled'; END IF;
    IF run.rate IS NOT DISTINCT FROM p_rate THEN RETURN 'same'; END IF;
    UPDATE dispatcher.campaign_runs r SET rate = p_rate, respace_at = clock_timestamp() + known_after WHERE r.id = p_run_id;
    PERFORM dispatcher.note_campaign(p_run_id, NULL, actor, 'rate', run.rate::text, p_rate::text, '');
    PERFORM pg_notify('dispatcher_control', '');
    PERFORM pg_notify('dispatcher_campaigns', '');
    RETURN 'done';
END $$;

-- Cancel a run: nothing more of it is marked. What is not is skipped in pages afterwards, and then the run ends. Answers done,
-- same, unknown, or its end.
CREATE FUNCTION dispatcher.cancel_campaign_run(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.campaign_runs := dispatcher.lock_campaign_run(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF run.cancelled_at IS NOT NULL THEN RETURN 'same'; END IF;
    UPDATE dispatcher.campaign_runs r SET cancelled_at = statement_timestamp() WHERE r.id = p_run_id;
    -- Its open pause, if there is one, goes on stopping it.
    PERFORM dispatcher.pause('campaign_run', p_run_id::text, p_tenant_id, p_workspace_id, actor, 'cancelled');
    PERFORM dispatcher.note_campaign(p_run_id, NULL, actor, 'cancel', NULL, NULL, p_reason);
    PERFORM pg_notify('dispatcher_campaigns', '');
    RETURN 'done';
END $$;

-- Skip up to p_page deliveries of cancelled runs that are not with their provider; answers how many. One of which an earlier
-- attempt may have gone out is held instead.
CREATE FUNCTION dispatcher.skip_cancelled(p_page integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- OFFSET 0 keeps the order: runs, jobs, deliveries. Planned freely, it has looked at every delivery of every open job to
    -- find that no run is cancelled: 200 ms, ten times a second.
    ids bigint[] := ARRAY(
        SELECT found.id FROM (
            SELECT w.id
              FROM (SELECT q.id, q.first_id, q.last_id FROM dispatcher.campaign_runs r
                      JOIN dispatcher.job_queue q ON q.run_id = r.id AND q.finished_at IS NULL
                     WHERE r.finished_at IS NULL AND r.cancelled_at IS NOT NULL OFFSET 0) AS j
             CROSS JOIN LATERAL (
                   SELECT s.id FROM dispatcher.delivery_state s
                    WHERE s.id BETWEEN j.first_id AND j.last_id AND s.job_id = j.id AND s.status = 'queued'
                      AND NOT s.marked AND NOT s.held OFFSET 0) AS w
             LIMIT p_page) AS found
         ORDER BY found.id);
BEGIN
    IF ids = '{}' THEN RETURN 0; END IF;
    RETURN (SELECT count(*) FROM dispatcher.bar(ids, array_fill('cancelled: its run was cancelled'::text, ARRAY[cardinality(ids)])));
END $$;

-- Count what waits for a later time of runs that have no room: retries and what quiet hours have moved, and not what waits for
-- its turn by the rate.
-- Answers how many runs have another number.
CREATE FUNCTION dispatcher.count_deferred(p_ahead bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    counted bigint;
BEGIN
    WITH crowded AS (
        SELECT r.id, r.rate, r.deferred FROM dispatcher.campaign_runs r
         WHERE r.finished_at IS NULL AND r.cancelled_at IS NULL
           AND (r.deferred > 0 OR r.expanded - r.sent - r.failed - r.skipped - r.cancelled - r.expired - r.held
                                  >= dispatcher.campaign_ahead(r.rate, p_ahead))
         ORDER BY r.id FOR NO KEY UPDATE SKIP LOCKED
    ), found AS (
        SELECT f.id, f.deferred AS was, least(count(s.id), p_ahead * 5) AS deferred
          FROM crowded f JOIN dispatcher.job_queue q ON q.run_id = f.id AND q.finished_at IS NULL
          LEFT JOIN dispatcher.delivery_state s ON s.id BETWEEN q.first_id AND q.last_id AND s.job_id = q.id
                AND s.status = 'queued' AND NOT s.held AND s.run_at > statement_timestamp() + interval '5 seconds'
                AND (f.rate IS NULL OR s.attempt > 0
                     OR EXISTS (SELECT FROM dispatcher.moved_deliveries m WHERE m.delivery_id = s.id AND m.run_at = s.run_at))
         GROUP BY 1, 2
    )
    UPDATE dispatcher.campaign_runs r SET deferred = n.deferred FROM found n WHERE r.id = n.id AND n.was <> n.deferred;
    GET DIAGNOSTICS counted = ROW_COUNT;
    RETURN counted;
END $$;

-- Send up to p_page failed deliveries of a run behind p_after again; answers how many, and the last that was looked at (null:
-- there are no more). What was written as ended cannot be sent.
CREATE FUNCTION dispatcher.replay_campaign_run(
    p_run_id bigint, p_after bigint, p_page integer, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default',
    p_workspace_id text DEFAULT 'default', p_actor text DEFAULT session_user, OUT replayed bigint, OUT last bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    one   bigint;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    replayed := 0;
    FOR one IN
        SELECT s.id FROM dispatcher.campaign_runs r
          JOIN dispatcher.job_queue q ON q.run_id = r.id AND q.failed > 0 AND q.last_id > p_after
          JOIN dispatcher.delivery_state s ON s.id BETWEEN q.first_id AND q.last_id AND s.job_id = q.id
          JOIN dispatcher.deliveries d ON d.id = s.id
         WHERE r.id = p_run_id AND r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id AND r.cancelled_at IS NULL
           AND s.id > p_after AND s.status = 'failed' AND s.error <> 'erased' AND d.ended IS NULL
         ORDER BY s.id LIMIT p_page
    LOOP
        replayed := replayed + (dispatcher.reopen_delivery(one, actor, coalesce(p_reason, '')) = 'reopened')::int;
        last := one;
    END LOOP;
    IF p_after = 0 AND last IS NOT NULL THEN
        PERFORM dispatcher.note_campaign(p_run_id, NULL, actor, 'replay', NULL, NULL, p_reason);
    END IF;
END $$;

REVOKE ALL ON FUNCTION dispatcher.lock_campaign_run, dispatcher.space_campaign_run, dispatcher.space_campaigns, dispatcher.skip_cancelled,
    dispatcher.count_deferred, dispatcher.pause_campaign_run, dispatcher.resume_campaign_run, dispatcher.set_campaign_rate,
    dispatcher.cancel_campaign_run, dispatcher.replay_campaign_run FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.pause_campaign_run, dispatcher.resume_campaign_run, dispatcher.set_campaign_rate,
    dispatcher.cancel_campaign_run, dispatcher.replay_campaign_run TO dispatcher_tenant;
