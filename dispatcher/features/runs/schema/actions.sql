-- What operators and applications do to a run: signal, pause, resume, cancel, replay, discard.

-- The run of an id, locked; of another tenant or workspace it is unknown.
CREATE FUNCTION dispatcher.lock_run(p_run_id bigint, p_tenant_id text, p_workspace_id text)
RETURNS dispatcher.runs
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dispatcher.runs;
BEGIN
    PERFORM dispatcher.stay_within(coalesce(p_tenant_id, 'default'), coalesce(p_workspace_id, 'default'));
    SELECT r.* INTO run FROM dispatcher.runs r
     WHERE r.id = p_run_id AND r.tenant_id = coalesce(p_tenant_id, 'default')
       AND r.workspace_id = coalesce(p_workspace_id, 'default')
       FOR UPDATE;
    RETURN run;
END $$;

-- Log an action on a run that is locked.
CREATE FUNCTION dispatcher.note_run(p_run_id bigint, p_event text, p_actor text, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number integer;
BEGIN
    UPDATE dispatcher.runs SET state = jsonb_set(state, '{entries}', to_jsonb(coalesce((state ->> 'entries')::integer, 0) + 1))
     WHERE id = p_run_id RETURNING (state ->> 'entries')::integer - 1 INTO number;
    INSERT INTO dispatcher.run_entries (run_id, number, event, error)
    VALUES (p_run_id, number, p_event, concat_ws(': ', p_actor, left(nullif(p_reason, ''), 2000)));
END $$;

-- Send an event to a run. It is kept until a node takes it, also one that the run has not come to yet. Answers accepted,
-- unknown, or the status that the run has ended with.
CREATE FUNCTION dispatcher.signal_run(
    run_id bigint, event text, data jsonb DEFAULT '{}', tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default', actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    bytes_max   CONSTANT integer := 262144;
    waiting_max CONSTANT integer := 1000;
    faults      jsonb := '[]';
    run         dispatcher.runs;
BEGIN
    PERFORM dispatcher.stay_within(coalesce(signal_run.tenant_id, 'default'), coalesce(signal_run.workspace_id, 'default'));
    IF coalesce(length(signal_run.event), 0) NOT BETWEEN 1 AND 200 THEN
        faults := faults || dispatcher.fault('$.event', 'expected 1 to 200 characters');
    END IF;
    faults := faults || dispatcher.object_faults('$.data', signal_run.data, bytes_max);
    IF faults <> '[]' THEN
        PERFORM dispatcher.refuse('the event cannot be sent: ' || dispatcher.faults_in_words(faults), faults);
    END IF;
    -- Against a walk that ends the run just now. Until the caller commits, the run is not walked.
    SELECT r.* INTO run FROM dispatcher.runs r
     WHERE r.id = signal_run.run_id AND r.tenant_id = coalesce(signal_run.tenant_id, 'default')
       AND r.workspace_id = coalesce(signal_run.workspace_id, 'default') FOR KEY SHARE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF (SELECT count(*) FROM (SELECT FROM dispatcher.signals s WHERE s.run_id = signal_run.run_id AND NOT s.taken LIMIT waiting_max) w)
       = waiting_max THEN
        PERFORM dispatcher.refuse(format('run %s has %s events waiting already', signal_run.run_id, waiting_max),
            dispatcher.fault('$.event', format('%s events are waiting already', waiting_max)), '54000');
    END IF;
    INSERT INTO dispatcher.signals (run_id, name, actor, data)
    VALUES (signal_run.run_id, signal_run.event, coalesce(nullif(signal_run.actor, ''), session_user), signal_run.data);
    IF run.contact_id IS NOT NULL
       AND EXISTS (SELECT FROM dispatcher.plan_versions v WHERE v.id = run.version_id AND v.plan ->> 'stop_on' = signal_run.event) THEN
        PERFORM dispatcher.cancel_run(run.id, 'event ' || signal_run.event, run.tenant_id, run.workspace_id,
                                      coalesce(nullif(signal_run.actor, ''), session_user));
    END IF;
    PERFORM dispatcher.wake_run(signal_run.run_id);
    RETURN 'accepted';
END $$;

-- Skip what a run has queued and not marked. The run is locked: nothing is added meanwhile. What is marked stays locked until
-- the end of the run is committed, and is then not made ready again.
CREATE FUNCTION dispatcher.cancel_deliveries_of(p_run_id bigint, p_actor text, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one bigint;
BEGIN
    FOR one IN
        SELECT d.id FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
         WHERE d.run_id = p_run_id AND d.node IS NOT NULL AND s.status = 'queued' AND NOT s.held ORDER BY d.id
    LOOP
        PERFORM dispatcher.cancel_delivery_by_id(one, p_actor, p_reason);
        DELETE FROM dispatcher.parked WHERE delivery_id = one;
    END LOOP;
END $$;

-- Cancel a run: nothing more of it is sent. What is with a provider already ends as it does. Answers cancelled, unknown, or
-- the status that it has ended with.
CREATE FUNCTION dispatcher.cancel_run(
    run_id bigint, reason text DEFAULT '', tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default',
    actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    actor CONSTANT text := coalesce(nullif(cancel_run.actor, ''), session_user);
    run   dispatcher.runs := dispatcher.lock_run(cancel_run.run_id, cancel_run.tenant_id, cancel_run.workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    UPDATE dispatcher.runs
       SET status = 'cancelled', available_at = NULL, paused_at = NULL, finished_at = statement_timestamp(),
           note = concat_ws(': ', 'cancelled by ' || actor, nullif(cancel_run.reason, ''))
     WHERE id = cancel_run.run_id;
    PERFORM dispatcher.note_run(cancel_run.run_id, 'cancelled', actor, cancel_run.reason);
    PERFORM dispatcher.cancel_deliveries_of(cancel_run.run_id, actor, 'its run was cancelled');
    PERFORM dispatcher.resume_everywhere('run', cancel_run.run_id::text, actor, cancel_run.reason);
    RETURN 'cancelled';
END $$;

-- Pause a run: it goes no further, and what it has queued waits. Answers done, same, unknown, or the status that it has
-- ended with.
CREATE FUNCTION dispatcher.pause_run(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.runs := dispatcher.lock_run(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF run.status = 'paused' THEN RETURN 'same'; END IF;
    UPDATE dispatcher.runs
       SET status = 'paused', available_at = NULL, paused_at = statement_timestamp(),
           note = concat_ws(': ', 'paused by ' || actor, nullif(p_reason, ''))
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run(p_run_id, 'paused', actor, p_reason);
    -- An enrolment that waits has nothing queued: many can be paused without a row for each in every sender's memory.
    IF run.contact_id IS NULL OR run.status = 'running' THEN
        PERFORM dispatcher.pause_everywhere('run', p_run_id::text, actor, coalesce(p_reason, ''));
    END IF;
    RETURN 'done';
END $$;

-- Send again what has failed of the nodes that a run is at, and what was skipped because of it. The run is locked.
CREATE FUNCTION dispatcher.reopen_failed(p_run_id bigint, p_state jsonb, p_actor text, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one bigint;
BEGIN
    FOR one IN
        SELECT d.id FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
         WHERE d.run_id = p_run_id AND p_state -> 'cursor' ? d.node
           AND (s.status = 'failed' OR s.status = 'skipped' AND s.error LIKE 'cancelled: its run %')
         ORDER BY d.id
    LOOP
        PERFORM dispatcher.reopen_delivery(one, p_actor, coalesce(p_reason, ''));
    END LOOP;
END $$;

-- Let a paused run go on. An enrolment that was paused because a step had failed sends that again. The time of the pause does not count as work.
CREATE FUNCTION dispatcher.resume_run(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.runs := dispatcher.lock_run(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF run.status <> 'paused' THEN RETURN 'same'; END IF;
    UPDATE dispatcher.runs
       SET status = CASE WHEN started_at IS NULL THEN 'pending' ELSE 'running' END, available_at = statement_timestamp(),
           paused_at = NULL, note = NULL,
           error = CASE WHEN contact_id IS NULL THEN error END, error_node = CASE WHEN contact_id IS NULL THEN error_node END,
           takes = CASE WHEN contact_id IS NULL THEN takes ELSE 0 END,
           state = CASE WHEN contact_id IS NOT NULL
                        THEN jsonb_set(state, '{rests}', coalesce(state -> 'rests', '[]') || jsonb_build_object(
                                 'since', extract(epoch FROM paused_at), 'ended', extract(epoch FROM statement_timestamp())))
                        WHEN state ? 'working_since'
                        THEN jsonb_set(state, '{working_since}', to_jsonb((state ->> 'working_since')::float8
                                 + extract(epoch FROM statement_timestamp() - paused_at)))
                        ELSE state END
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run(p_run_id, 'resumed', actor, p_reason);
    PERFORM dispatcher.resume_everywhere('run', p_run_id::text, actor, p_reason);
    IF run.contact_id IS NOT NULL THEN PERFORM dispatcher.reopen_failed(p_run_id, run.state, actor, p_reason); END IF;
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
    RETURN 'done';
END $$;

-- Replay a failed run from where it failed: its failed deliveries are sent again, and so is what was skipped because of
-- it; what was sent stays sent. Where it goes on from is for the walk that has failed to say: it has left the cursor so.
-- Answers replayed, unknown, or what it is.
CREATE FUNCTION dispatcher.replay_run(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.runs := dispatcher.lock_run(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.status <> 'failed' THEN RETURN run.status; END IF;
    UPDATE dispatcher.runs
       SET status = 'running', available_at = statement_timestamp(), finished_at = NULL, dead = false, error = NULL,
           error_node = NULL, note = NULL, discarded_at = NULL, takes = 0, retries = least(retries + 1, 32767),
           state = state - 'worked_seconds' - 'working_since'
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run(p_run_id, 'replayed', actor, p_reason);
    PERFORM dispatcher.reopen_failed(p_run_id, run.state, actor, p_reason);
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
    RETURN 'replayed';
END $$;

-- A run that cannot be walked is a dead letter; an enrolment is paused. The run is locked.
CREATE FUNCTION dispatcher.bury_run(p_run_id bigint, p_error text, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE dispatcher.runs SET status = 'paused', available_at = NULL, paused_at = statement_timestamp(), error = p_error,
           error_node = NULL, takes = 0
     WHERE id = p_run_id AND contact_id IS NOT NULL;
    IF FOUND THEN
        PERFORM dispatcher.note_run(p_run_id, 'paused', 'dispatcher', p_reason);
        RETURN;
    END IF;
    UPDATE dispatcher.runs SET status = 'failed', dead = true, finished_at = statement_timestamp(), available_at = NULL,
           error = p_error, error_node = NULL
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run(p_run_id, 'failed', 'dispatcher', p_reason);
    PERFORM dispatcher.cancel_deliveries_of(p_run_id, 'dispatcher', 'its run has failed');
END $$;

-- Discard a failed run, or a failed delivery that belongs to none: it is no dead letter any more, and stays what it is.
CREATE FUNCTION dispatcher.discard_run(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.runs := dispatcher.lock_run(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.status <> 'failed' THEN RETURN run.status; END IF;
    IF NOT run.dead THEN RETURN 'same'; END IF;
    UPDATE dispatcher.runs SET dead = false, discarded_at = statement_timestamp(),
           note = concat_ws(': ', 'discarded by ' || actor, nullif(p_reason, ''))
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run(p_run_id, 'discarded', actor, p_reason);
    RETURN 'discarded';
END $$;

REVOKE ALL ON FUNCTION dispatcher.lock_run, dispatcher.note_run, dispatcher.signal_run,
    dispatcher.cancel_deliveries_of, dispatcher.reopen_failed, dispatcher.cancel_run, dispatcher.pause_run, dispatcher.resume_run,
    dispatcher.replay_run, dispatcher.bury_run, dispatcher.discard_run FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.signal_run, dispatcher.cancel_run, dispatcher.pause_run,
    dispatcher.resume_run, dispatcher.replay_run, dispatcher.discard_run TO dispatcher_tenant;
