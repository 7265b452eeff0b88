-- Schedules: workflows that are triggered by the clock, once for each tick.
--
-- The map
--   schedules         one row a name, of a tenant and workspace: what is triggered, when next, and what came of the last tick
--   schedule_actions  actor and definition of each put, activation, deactivation and deletion
--
-- A tick
--   A ticker locks schedules that are due (FOR UPDATE SKIP LOCKED), triggers their workflows and moves `next_at`, all in one
--   transaction: whoever dies before its commit has done neither, and whoever comes second finds the next tick. The run's
--   key has the tick in it, so that it is one run even where somebody puts `next_at` back. When the next tick is, only the
--   program can say: what is put here was computed by it, from this server's clock.
--
-- Lock order: instance, then schedules, then runs by id, then state rows by id. Whoever locks several schedules does not
-- wait for any.

CREATE TABLE dispatcher.schedules (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at    timestamptz NOT NULL DEFAULT now(),
    next_at       timestamptz,
    last_tick     timestamptz,
    last_run      bigint,
    doubted_until timestamptz,
    missed        bigint NOT NULL DEFAULT 0,
    version       integer NOT NULL DEFAULT 1,
    active        boolean NOT NULL DEFAULT true,
    tenant_id     text NOT NULL,
    workspace_id  text NOT NULL,
    name          text NOT NULL,
    workflow      text NOT NULL,
    cron          text NOT NULL,
    time_zone     text NOT NULL,
    refusal       text,
    input         jsonb NOT NULL,
    CONSTRAINT schedules_name UNIQUE (tenant_id, workspace_id, name),
    CONSTRAINT schedules_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$'),
    CONSTRAINT schedules_workflow_form CHECK (workflow ~ '^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$'),
    CONSTRAINT schedules_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT schedules_cron_length CHECK (length(cron) BETWEEN 1 AND 500 AND length(time_zone) BETWEEN 1 AND 100),
    CONSTRAINT schedules_input_is_object CHECK (jsonb_typeof(input) = 'object'),
    CONSTRAINT schedules_tick_ran_or_not CHECK (last_run IS NULL OR refusal IS NULL)
) WITH (fillfactor = 70);
COMMENT ON COLUMN dispatcher.schedules.next_at IS 'the next tick, or the first one that was missed; null where none comes';
COMMENT ON COLUMN dispatcher.schedules.last_run IS 'the run of the last tick';
COMMENT ON COLUMN dispatcher.schedules.refusal IS 'why the last tick has no run';
COMMENT ON COLUMN dispatcher.schedules.missed IS 'ticks that have no run since a later one was due already';
COMMENT ON COLUMN dispatcher.schedules.doubted_until IS
    'ticks until then may have run where this database was before: they have no run here';
COMMENT ON COLUMN dispatcher.schedules.version IS 'how often it was put with something else to say';
CREATE INDEX schedules_due ON dispatcher.schedules (next_at) WHERE active;
CALL dispatcher.isolate('dispatcher.schedules');

CREATE TABLE dispatcher.schedule_actions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id bigint NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    version     integer NOT NULL,
    actor       text NOT NULL CHECK (actor <> ''),
    action      text NOT NULL CHECK (action IN ('put', 'activate', 'deactivate', 'delete')),
    said        jsonb NOT NULL
);
COMMENT ON COLUMN dispatcher.schedule_actions.said IS 'what the schedule said from then on, or until then where it was deleted';
CREATE INDEX schedule_actions_by_schedule ON dispatcher.schedule_actions (schedule_id, id);
CREATE INDEX schedule_actions_by_time ON dispatcher.schedule_actions (at, id);
ALTER TABLE dispatcher.schedule_actions ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON dispatcher.schedule_actions USING (true) WITH CHECK (true);
-- By what it said: a schedule that was deleted has no row any more.
CREATE POLICY tenant ON dispatcher.schedule_actions AS RESTRICTIVE TO dispatcher_tenant
    USING (said ->> 'tenant_id' = nullif(current_setting('dispatcher.tenant', true), '')
       AND said ->> 'workspace_id' = nullif(current_setting('dispatcher.workspace', true), ''));

-- Log an action on a schedule that is locked.
CREATE FUNCTION dispatcher.note_schedule(p_held dispatcher.schedules, p_action text, p_actor text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO dispatcher.schedule_actions (schedule_id, version, actor, action, said)
    VALUES (p_held.id, p_held.version, p_actor, p_action, jsonb_build_object(
        'name', p_held.name, 'tenant_id', p_held.tenant_id, 'workspace_id', p_held.workspace_id, 'workflow', p_held.workflow,
        'cron', p_held.cron, 'time_zone', p_held.time_zone, 'input', p_held.input))
$$;

-- Save a schedule; a new one is active. p_next_at is its next tick from now on, which it takes over where its times are
-- others than before: else a tick that was missed is kept. Answers created, changed or same.
CREATE FUNCTION dispatcher.put_schedule(
    p_tenant_id text, p_workspace_id text, p_name text, p_workflow text, p_cron text, p_time_zone text, p_input jsonb,
    p_next_at timestamptz, p_actor text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- What a trigger takes.
    bytes_max CONSTANT integer := 1048576;
    held dispatcher.schedules;
BEGIN
    IF NOT EXISTS (SELECT FROM dispatcher.workflows w
                    WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_workflow
                      AND w.deleted_at IS NULL AND w.kind = 'workflow') THEN
        PERFORM dispatcher.refuse('the schedule has faults',
            '[{"path": "$.workflow", "words": "there is no such workflow"}]');
    END IF;
    IF octet_length(p_input::text) > bytes_max THEN
        PERFORM dispatcher.refuse('the schedule has faults',
            jsonb_build_array(jsonb_build_object('path', '$.input', 'words', format('larger than %s bytes', bytes_max))));
    END IF;
    -- Again, where the one that stood in the way is deleted meanwhile.
    LOOP
        INSERT INTO dispatcher.schedules (tenant_id, workspace_id, name, workflow, cron, time_zone, input, next_at)
        VALUES (p_tenant_id, p_workspace_id, p_name, p_workflow, p_cron, p_time_zone, p_input, p_next_at)
        ON CONFLICT (tenant_id, workspace_id, name) DO NOTHING RETURNING * INTO held;
        IF FOUND THEN
            PERFORM dispatcher.note_schedule(held, 'put', p_actor);
            RETURN 'created';
        END IF;
        SELECT s.* INTO held FROM dispatcher.schedules s
         WHERE s.tenant_id = p_tenant_id AND s.workspace_id = p_workspace_id AND s.name = p_name FOR UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
    IF (held.workflow, held.cron, held.time_zone, held.input) = (p_workflow, p_cron, p_time_zone, p_input) THEN
        RETURN 'same';
    END IF;
    UPDATE dispatcher.schedules s
       SET workflow = p_workflow, cron = p_cron, time_zone = p_time_zone, input = p_input, version = s.version + 1,
           next_at = CASE WHEN (held.cron, held.time_zone) = (p_cron, p_time_zone) THEN s.next_at ELSE p_next_at END
     WHERE s.id = held.id RETURNING s.* INTO held;
    PERFORM dispatcher.note_schedule(held, 'put', p_actor);
    RETURN 'changed';
END $$;

-- Activate or deactivate. With p_next_at it goes on from there; without, the latest tick that was missed is made up for.
-- Answers done, same (it was that already) or unknown.
CREATE FUNCTION dispatcher.set_schedule_active(
    p_tenant_id text, p_workspace_id text, p_name text, p_active boolean, p_actor text, p_next_at timestamptz DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.schedules;
BEGIN
    SELECT s.* INTO held FROM dispatcher.schedules s
     WHERE s.tenant_id = p_tenant_id AND s.workspace_id = p_workspace_id AND s.name = p_name FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF held.active = p_active THEN RETURN 'same'; END IF;
    UPDATE dispatcher.schedules s SET active = p_active, next_at = coalesce(p_next_at, s.next_at) WHERE s.id = held.id;
    PERFORM dispatcher.note_schedule(held, CASE WHEN p_active THEN 'activate' ELSE 'deactivate' END, p_actor);
    RETURN 'done';
END $$;

-- Delete. Its runs, and what was done to it, stay. Answers deleted or unknown.
CREATE FUNCTION dispatcher.delete_schedule(p_tenant_id text, p_workspace_id text, p_name text, p_actor text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.schedules;
BEGIN
    DELETE FROM dispatcher.schedules s
     WHERE s.tenant_id = p_tenant_id AND s.workspace_id = p_workspace_id AND s.name = p_name RETURNING s.* INTO held;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    PERFORM dispatcher.note_schedule(held, 'delete', p_actor);
    RETURN 'deleted';
END $$;

-- A tick as it stands in keys and inputs: 2026-03-29T01:00:00Z.
CREATE FUNCTION dispatcher.tick_text(p_tick timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_char(p_tick AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
$$;

-- Trigger the workflow of a schedule for a tick. Whatever else than trouble that passes is the schedule's own fault, and an
-- answer: it keeps no other schedule from ticking.
CREATE FUNCTION dispatcher.trigger_schedule(
    p_held dispatcher.schedules, p_tick timestamptz, p_key text, OUT run_id bigint, OUT refusal text
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT t.execution_id INTO run_id
      FROM dispatcher.trigger_workflow(
               p_held.workflow, jsonb_build_object('scheduled_for', dispatcher.tick_text(p_tick)) || p_held.input, p_key,
               p_held.tenant_id, p_held.workspace_id, 'schedule:' || p_held.name) AS t;
EXCEPTION WHEN OTHERS THEN
    -- Connections, transactions to be tried again, resources, somebody's intervention, the server's own errors.
    IF left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58', 'XX') AND SQLSTATE <> '55000' THEN RAISE; END IF;
    refusal := left(SQLERRM, 1000);
END $$;

-- Let a schedule that is locked have its tick, and move it on. A tick that may have run elsewhere has no run.
CREATE FUNCTION dispatcher.tick_schedule(
    p_id bigint, p_tick timestamptz, p_next_at timestamptz, p_missed bigint, OUT run_id bigint, OUT refusal text
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.schedules;
BEGIN
    SELECT s.* INTO STRICT held FROM dispatcher.schedules s WHERE s.id = p_id;
    IF p_tick <= held.doubted_until THEN
        refusal := 'quarantined: it may have run where this database was before';
    ELSE
        SELECT t.run_id, t.refusal INTO run_id, refusal
          FROM dispatcher.trigger_schedule(
                   held, p_tick, format('schedule:%s:%s', held.name, dispatcher.tick_text(p_tick))) AS t;
    END IF;
    UPDATE dispatcher.schedules s
       SET next_at = p_next_at, last_tick = p_tick, last_run = tick_schedule.run_id, refusal = tick_schedule.refusal,
           missed = s.missed + p_missed
     WHERE s.id = p_id;
END $$;

-- Why a tick of a schedule would be refused now; null where it would have a run. Found by trying, which leaves nothing.
CREATE FUNCTION dispatcher.schedule_fault(p_tenant_id text, p_workspace_id text, p_name text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fault text;
BEGIN
    SELECT t.refusal INTO fault
      FROM dispatcher.schedules s, dispatcher.trigger_schedule(s, statement_timestamp(), NULL) AS t
     WHERE s.tenant_id = p_tenant_id AND s.workspace_id = p_workspace_id AND s.name = p_name;
    RAISE EXCEPTION 'undo' USING ERRCODE = 'DX001', DETAIL = coalesce(fault, '');
EXCEPTION WHEN SQLSTATE 'DX001' THEN
    GET STACKED DIAGNOSTICS fault = PG_EXCEPTION_DETAIL;
    RETURN nullif(fault, '');
END $$;

-- A schedule that was not created by the transaction that inserts it comes out of a dump: where that was made it may still
-- tick.
CREATE FUNCTION dispatcher.copied_schedules_rest() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.active := false;
    RETURN NEW;
END $$;

CREATE TRIGGER copied_schedules_rest BEFORE INSERT ON dispatcher.schedules
    FOR EACH ROW WHEN (NEW.created_at <> now())
    EXECUTE FUNCTION dispatcher.copied_schedules_rest();

GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.schedules TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.schedule_actions TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.note_schedule, dispatcher.put_schedule, dispatcher.set_schedule_active,
    dispatcher.delete_schedule, dispatcher.trigger_schedule, dispatcher.schedule_fault TO dispatcher_tenant;
