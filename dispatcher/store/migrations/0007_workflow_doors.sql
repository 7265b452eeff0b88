-- The doors of workflows: what an application calls inside its own transaction, and what operators do to runs.
--
-- Each function has a version in its name, which stays what it is, and a face without one, which is the newest. They run
-- with their owner's rights and are nobody's by default: a role needs USAGE on the schema and EXECUTE on the face.
--
-- What is wrong with a call is one exception. Its DETAIL is a JSON list of every fault: [{"path": "$.order", "words": ...}].


-- Raise what is wrong with a call, all of it.
CREATE FUNCTION dispatcher.refuse_v1(p_message text, p_faults jsonb, p_code text DEFAULT '22023') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = p_message, DETAIL = p_faults::text, ERRCODE = p_code;
END $$;

-- Whether something is there, null included. `size`, `first` and `last` at the end are what Liquid says of a list or a
-- text, also where no such field is.
CREATE FUNCTION dispatcher.has_path_v1(p_input jsonb, p_at text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (p_input #> p_at) IS NOT NULL
        OR cardinality(p_at) > 1 AND p_at[cardinality(p_at)] IN ('size', 'first', 'last')
           AND CASE p_at[cardinality(p_at)] WHEN 'size' THEN jsonb_typeof(p_input #> p_at[:cardinality(p_at) - 1]) IN ('array', 'string', 'object')
                                            ELSE jsonb_typeof(p_input #> p_at[:cardinality(p_at) - 1]) = 'array' END
$$;

-- The steps of a path as Liquid's analysis writes it: order.lines[0].name, labels["a b"].
CREATE FUNCTION dispatcher.path_steps_v1(p_path text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_path !~ '[\[]' THEN string_to_array(p_path, '.')
                ELSE ARRAY(SELECT coalesce(m[1], m[2], m[3], m[4])
                             FROM regexp_matches(p_path, '\["([^"]*)"\]|\[''([^'']*)''\]|\[(-?\d+)\]|([^.\[\]]+)', 'g') AS m) END
$$;


-- Save a workflow: one that says what the newest version says makes no other. Activated where that is asked for, and left
-- as it is else.
CREATE FUNCTION dispatcher.put_workflow_v1(
    p_tenant_id text, p_workspace_id text, p_name text, p_definition json, p_plan json, p_author text, p_activate boolean
) RETURNS TABLE (workflow_id bigint, version_id bigint, number integer, created boolean, active boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held dispatcher.workflows;
    last dispatcher.plan_versions;
BEGIN
    INSERT INTO dispatcher.workflows (tenant_id, workspace_id, name) VALUES (p_tenant_id, p_workspace_id, p_name)
    ON CONFLICT (tenant_id, workspace_id, name) WHERE deleted_at IS NULL DO NOTHING;
    SELECT w.* INTO STRICT held FROM dispatcher.workflows w
     WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_name AND w.deleted_at IS NULL
       FOR UPDATE;
    SELECT v.* INTO last FROM dispatcher.plan_versions v WHERE v.id = held.current;
    created := NOT FOUND OR last.definition::jsonb <> p_definition::jsonb OR last.plan::jsonb <> p_plan::jsonb;
    IF created THEN
        INSERT INTO dispatcher.plan_versions (workflow_id, number, total_steps, author, required_fields, node_ids, reads,
                                              templates, definition, plan)
        SELECT held.id, held.latest + 1, count(*), p_author,
               ARRAY(SELECT json_array_elements_text(coalesce(p_plan -> 'required_fields', '[]'))),
               coalesce(array_agg(n.key), '{}'), coalesce(p_plan -> 'reads', '[]')::jsonb,
               coalesce(p_plan -> 'templates', '[]')::jsonb, p_definition, p_plan
          FROM json_each(p_plan -> 'nodes') AS n
        RETURNING * INTO last;
        INSERT INTO dispatcher.workflow_actions (workflow_id, version, actor, action)
        VALUES (held.id, last.number, p_author, 'put');
    END IF;
    IF p_activate AND NOT held.active THEN
        INSERT INTO dispatcher.workflow_actions (workflow_id, version, actor, action)
        VALUES (held.id, last.number, p_author, 'activate');
    END IF;
    UPDATE dispatcher.workflows w SET latest = last.number, current = last.id, active = w.active OR p_activate
     WHERE w.id = held.id RETURNING w.active INTO active;
    workflow_id := held.id;
    version_id := last.id;
    number := last.number;
    RETURN NEXT;
END $$;

-- Activate or deactivate. Answers done, same (it was that already) or unknown.
CREATE FUNCTION dispatcher.set_workflow_active_v1(
    p_tenant_id text, p_workspace_id text, p_name text, p_active boolean, p_actor text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.workflows;
BEGIN
    SELECT w.* INTO held FROM dispatcher.workflows w
     WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_name AND w.deleted_at IS NULL
       FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF held.active = p_active THEN RETURN 'same'; END IF;
    UPDATE dispatcher.workflows SET active = p_active WHERE id = held.id;
    INSERT INTO dispatcher.workflow_actions (workflow_id, version, actor, action)
    VALUES (held.id, held.latest, p_actor, CASE WHEN p_active THEN 'activate' ELSE 'deactivate' END);
    RETURN 'done';
END $$;

-- Delete: refused while it is active and has any run, and while one is unfinished. What its runs have done stays, and so do
-- their keys. Answers deleted, unknown, active, or running. No trigger comes in between: both take the same lock.
CREATE FUNCTION dispatcher.delete_workflow_v1(p_tenant_id text, p_workspace_id text, p_name text, p_actor text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.workflows;
BEGIN
    SELECT w.* INTO held FROM dispatcher.workflows w
     WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_name AND w.deleted_at IS NULL
       FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('dispatcher.workflow', held.id));
    IF EXISTS (SELECT FROM dispatcher.runs r WHERE r.workflow_id = held.id AND r.finished_at IS NULL) THEN
        RETURN 'running';
    END IF;
    IF held.active AND EXISTS (SELECT FROM dispatcher.runs r WHERE r.workflow_id = held.id) THEN RETURN 'active'; END IF;
    UPDATE dispatcher.workflows SET deleted_at = statement_timestamp(), active = false WHERE id = held.id;
    INSERT INTO dispatcher.workflow_actions (workflow_id, version, actor, action)
    VALUES (held.id, held.latest, p_actor, 'delete');
    RETURN 'deleted';
END $$;


-- What an input lacks for a version: [{"path", "words", "kind": "field" | "variable" | "template"}].
CREATE FUNCTION dispatcher.input_faults_v1(p_tenant_id text, p_workspace_id text, p_version dispatcher.plan_versions, p_input jsonb)
RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    faults jsonb;
    used   record;
    called text;
BEGIN
    SELECT coalesce(jsonb_agg(jsonb_build_object('path', '$.' || f, 'kind', 'field', 'name', f, 'words', 'is required')
                              ORDER BY o), '[]')
      INTO faults FROM unnest(p_version.required_fields) WITH ORDINALITY AS r (f, o)
     WHERE NOT dispatcher.has_path_v1(p_input, dispatcher.path_steps_v1(f));
    FOR used IN
        SELECT s.value ->> 'name' AS name, s.value -> 'variable' ->> 'path' AS variable, s.value ->> 'channel' AS channel,
               ARRAY(SELECT jsonb_array_elements_text(s.value -> 'variable' -> 'at')) AS at,
               coalesce(s.value -> 'provides', '[]') AS provides
          FROM jsonb_array_elements(p_version.templates) AS s
    LOOP
        called := used.name;
        IF used.variable IS NOT NULL THEN
            CONTINUE WHEN NOT dispatcher.has_path_v1(p_input, used.at);
            called := p_input #>> used.at;
        END IF;
        IF dispatcher.template_fault_v1(p_tenant_id, p_workspace_id, coalesce(called, ''), used.channel) IS NOT NULL THEN
            faults := faults || jsonb_build_object('kind', 'template',
                'path', coalesce('$.' || used.variable, '$'), 'name', coalesce(called, 'null'),
                'words', dispatcher.template_fault_v1(p_tenant_id, p_workspace_id, coalesce(called, ''), used.channel));
            CONTINUE;
        END IF;
        SELECT faults || coalesce(jsonb_agg(jsonb_build_object('path', '$.' || read, 'kind', 'variable', 'name', read,
                   'words', format('is read by the template %s', quote_literal(called)))), '[]')
          INTO faults
          FROM dispatcher.templates t
          JOIN dispatcher.template_versions v ON v.id = t.published, unnest(v.variables) AS read,
               LATERAL (SELECT dispatcher.path_steps_v1(read) AS at) AS steps
         WHERE t.tenant_id = p_tenant_id AND t.workspace_id = p_workspace_id AND t.name = called
           AND NOT starts_with(at[1], 'step_') AND at[1] <> ALL (p_version.node_ids) AND NOT used.provides ? at[1]
           AND NOT dispatcher.has_path_v1(p_input, at);
    END LOOP;
    SELECT faults || coalesce(jsonb_agg(jsonb_build_object('path', '$.' || (r.value ->> 'path'), 'kind', 'variable',
               'name', r.value ->> 'path', 'words', 'is read by the workflow')), '[]')
      INTO faults FROM jsonb_array_elements(p_version.reads) AS r
     WHERE NOT dispatcher.has_path_v1(p_input, ARRAY(SELECT jsonb_array_elements_text(r.value -> 'at')));
    RETURN faults;
END $$;

-- The faults of an input in words: everything that is missing, each name once.
CREATE FUNCTION dispatcher.input_words_v1(p_faults jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws('; ',
        (SELECT 'Missing required fields: ' || string_agg(n, ', ')
           FROM (SELECT DISTINCT f.value ->> 'name' AS n FROM jsonb_array_elements(p_faults) f
                  WHERE f.value ->> 'kind' = 'field' ORDER BY 1) AS fields),
        (SELECT 'Missing template variables: ' || string_agg(n, ', ')
           FROM (SELECT DISTINCT f.value ->> 'name' AS n FROM jsonb_array_elements(p_faults) f
                  WHERE f.value ->> 'kind' = 'variable' ORDER BY 1) AS variables),
        (SELECT string_agg(w, '; ')
           FROM (SELECT DISTINCT f.value ->> 'words' AS w FROM jsonb_array_elements(p_faults) f
                  WHERE f.value ->> 'kind' = 'template' ORDER BY 1) AS templates))
$$;

-- Start a run, or find the one that its key has started already, whatever has become of its workflow since. Raises what is
-- missing, all of it.
CREATE FUNCTION dispatcher.trigger_workflow_v1(
    p_workflow text, p_input jsonb DEFAULT '{}', p_idempotency_key text DEFAULT NULL, p_tenant_id text DEFAULT 'default',
    p_workspace_id text DEFAULT 'default', p_triggered_by text DEFAULT session_user,
    OUT execution_id bigint, OUT workflow_name text, OUT version integer, OUT status text, OUT total_steps integer,
    OUT duplicate boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- What a run brings along is copied into its log and its deliveries.
    bytes_max CONSTANT integer := 1048576;
    held   dispatcher.workflows;
    used   dispatcher.plan_versions;
    faults jsonb;
BEGIN
    workflow_name := p_workflow;
    status := 'queued';
    IF coalesce(length(p_idempotency_key) NOT BETWEEN 1 AND 255, false) THEN
        PERFORM dispatcher.refuse_v1('idempotency_key: 1 to 255 characters',
            '[{"path": "$.idempotency_key", "words": "1 to 255 characters"}]');
    END IF;
    IF p_input IS NULL OR jsonb_typeof(p_input) <> 'object' THEN
        PERFORM dispatcher.refuse_v1('the input is a JSON object', '[{"path": "$", "words": "a JSON object"}]');
    END IF;
    LOOP
        IF p_idempotency_key IS NOT NULL THEN
            SELECT r.id, v.number, v.total_steps, true INTO execution_id, version, total_steps, duplicate
              FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id
             WHERE r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id AND r.workflow = p_workflow
               AND r.idempotency_key = p_idempotency_key;
            IF FOUND THEN RETURN; END IF;
        END IF;
        IF held.id IS NULL THEN
            SELECT w.* INTO held FROM dispatcher.workflows w
             WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_workflow
               AND w.deleted_at IS NULL;
            IF NOT FOUND THEN
                PERFORM dispatcher.refuse_v1(format('there is no workflow %s', quote_literal(p_workflow)),
                    jsonb_build_array(jsonb_build_object('path', '$.workflow', 'words', 'there is no such workflow')),
                    'P0002');
            END IF;
            -- Against a deletion, which takes it whole; what was deleted meanwhile is seen by the next look.
            PERFORM pg_advisory_xact_lock_shared(hashtextextended('dispatcher.workflow', held.id));
            SELECT w.* INTO held FROM dispatcher.workflows w WHERE w.id = held.id;
            IF NOT held.active THEN
                PERFORM dispatcher.refuse_v1(format('the workflow %s is not active', quote_literal(p_workflow)),
                    jsonb_build_array(jsonb_build_object('path', '$.workflow', 'words', 'it is not active')), '55000');
            END IF;
            IF pg_column_size(p_input) > bytes_max THEN
                PERFORM dispatcher.refuse_v1(format('the input is larger than %s bytes', bytes_max),
                    jsonb_build_array(jsonb_build_object('path', '$', 'words', format('larger than %s bytes', bytes_max))));
            END IF;
            SELECT v.* INTO used FROM dispatcher.plan_versions v WHERE v.id = held.current;
            faults := dispatcher.input_faults_v1(p_tenant_id, p_workspace_id, used, p_input);
            IF faults <> '[]' THEN PERFORM dispatcher.refuse_v1(dispatcher.input_words_v1(faults), faults); END IF;
        END IF;
        INSERT INTO dispatcher.runs (workflow_id, version_id, available_at, tenant_id, workspace_id, workflow,
                                     idempotency_key, triggered_by, input)
        VALUES (held.id, used.id, now(), p_tenant_id, p_workspace_id, p_workflow, p_idempotency_key,
                coalesce(nullif(p_triggered_by, ''), session_user), p_input)
        ON CONFLICT (tenant_id, workspace_id, workflow, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING id INTO execution_id;
        EXIT WHEN FOUND;
    END LOOP;
    version := used.number;
    total_steps := used.total_steps;
    duplicate := false;
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
END $$;

CREATE FUNCTION dispatcher.trigger_workflow(
    p_workflow text, p_input jsonb DEFAULT '{}', p_idempotency_key text DEFAULT NULL, p_tenant_id text DEFAULT 'default',
    p_workspace_id text DEFAULT 'default', p_triggered_by text DEFAULT session_user,
    OUT execution_id bigint, OUT workflow_name text, OUT version integer, OUT status text, OUT total_steps integer,
    OUT duplicate boolean
)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM dispatcher.trigger_workflow_v1(p_workflow, p_input, p_idempotency_key, p_tenant_id, p_workspace_id, p_triggered_by)
$$;


-- The run of an id, locked; of another tenant or workspace it is unknown.
CREATE FUNCTION dispatcher.lock_run_v1(p_run_id bigint, p_tenant_id text, p_workspace_id text) RETURNS dispatcher.runs
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.* FROM dispatcher.runs r WHERE r.id = p_run_id AND r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id
       FOR UPDATE
$$;

-- Write down what somebody did to a run that is locked.
CREATE FUNCTION dispatcher.note_run_v1(p_run_id bigint, p_event text, p_actor text, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number integer;
BEGIN
    UPDATE dispatcher.runs SET state = jsonb_set(state, '{entries}', to_jsonb(coalesce((state ->> 'entries')::integer, 0) + 1))
     WHERE id = p_run_id RETURNING (state ->> 'entries')::integer - 1 INTO number;
    INSERT INTO dispatcher.run_entries (run_id, number, event, error)
    VALUES (p_run_id, number, p_event, concat_ws(': ', p_actor, nullif(p_reason, '')));
END $$;

-- Send an event to a run. It is kept until a node takes it, also one that the run has not come to yet. Answers accepted,
-- unknown, or the status that the run has ended with.
CREATE FUNCTION dispatcher.signal_run_v1(
    p_run_id bigint, p_event text, p_data jsonb DEFAULT '{}', p_tenant_id text DEFAULT 'default',
    p_workspace_id text DEFAULT 'default', p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bytes_max CONSTANT integer := 262144;
    faults jsonb := '[]';
    run    dispatcher.runs;
BEGIN
    IF coalesce(length(p_event), 0) NOT BETWEEN 1 AND 200 THEN
        faults := faults || '{"path": "$.event", "words": "1 to 200 characters"}'::jsonb;
    END IF;
    IF p_data IS NULL OR jsonb_typeof(p_data) <> 'object' THEN
        faults := faults || '{"path": "$.data", "words": "a JSON object"}'::jsonb;
    ELSIF pg_column_size(p_data) > bytes_max THEN
        faults := faults || jsonb_build_object('path', '$.data', 'words', format('larger than %s bytes', bytes_max));
    END IF;
    IF faults <> '[]' THEN PERFORM dispatcher.refuse_v1('the event cannot be sent', faults); END IF;
    -- Against a walk that ends the run just now; it is not kept from walking.
    SELECT r.* INTO run FROM dispatcher.runs r
     WHERE r.id = p_run_id AND r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id FOR KEY SHARE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    INSERT INTO dispatcher.signals (run_id, name, actor, data) VALUES (p_run_id, p_event, p_actor, p_data);
    PERFORM dispatcher.wake_run_v1(p_run_id);
    RETURN 'accepted';
END $$;

CREATE FUNCTION dispatcher.signal_run(
    p_run_id bigint, p_event text, p_data jsonb DEFAULT '{}', p_tenant_id text DEFAULT 'default',
    p_workspace_id text DEFAULT 'default', p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.signal_run_v1(p_run_id, p_event, p_data, p_tenant_id, p_workspace_id, p_actor)
$$;

-- Skip what a run has queued and not marked. The run is locked: nothing is added meanwhile.
CREATE FUNCTION dispatcher.cancel_deliveries_of_v1(p_run_id bigint, p_actor text, p_reason text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one       bigint;
    cancelled bigint := 0;
BEGIN
    FOR one IN
        SELECT d.id FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
         WHERE d.run_id = p_run_id AND d.node IS NOT NULL AND s.status = 'queued' AND NOT s.held ORDER BY d.id
    LOOP
        cancelled := cancelled + (dispatcher.cancel_delivery_v1(one, p_actor, p_reason) = 'cancelled')::int;
        DELETE FROM dispatcher.parked WHERE delivery_id = one;
    END LOOP;
    RETURN cancelled;
END $$;

-- Cancel a run: nothing more of it is sent. What is with a provider already ends as it does. Answers cancelled, unknown, or
-- the status that it has ended with.
CREATE FUNCTION dispatcher.cancel_run_v1(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dispatcher.runs := dispatcher.lock_run_v1(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    UPDATE dispatcher.runs
       SET status = 'cancelled', available_at = NULL, paused_at = NULL, finished_at = statement_timestamp(),
           note = concat_ws(': ', 'cancelled by ' || p_actor, nullif(p_reason, ''))
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run_v1(p_run_id, 'cancelled', p_actor, p_reason);
    UPDATE dispatcher.digests SET is_open = false WHERE run_id = p_run_id AND is_open;
    PERFORM dispatcher.cancel_deliveries_of_v1(p_run_id, p_actor, 'its run was cancelled');
    PERFORM dispatcher.resume_v1('run', p_run_id::text, p_actor);
    RETURN 'cancelled';
END $$;

CREATE FUNCTION dispatcher.cancel_run(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.cancel_run_v1(p_run_id, p_reason, p_tenant_id, p_workspace_id, p_actor)
$$;

-- Pause a run: it goes no further, and what it has queued waits. Answers done, same, unknown, or the status that it has
-- ended with.
CREATE FUNCTION dispatcher.pause_run_v1(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dispatcher.runs := dispatcher.lock_run_v1(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF run.status = 'paused' THEN RETURN 'same'; END IF;
    UPDATE dispatcher.runs
       SET status = 'paused', available_at = NULL, paused_at = statement_timestamp(),
           note = concat_ws(': ', 'paused by ' || p_actor, nullif(p_reason, ''))
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run_v1(p_run_id, 'paused', p_actor, p_reason);
    PERFORM dispatcher.pause_v1('run', p_run_id::text, p_actor, coalesce(p_reason, ''));
    RETURN 'done';
END $$;

-- Let a paused run go on. The time of the pause does not count as work.
CREATE FUNCTION dispatcher.resume_run_v1(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dispatcher.runs := dispatcher.lock_run_v1(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF run.status <> 'paused' THEN RETURN 'same'; END IF;
    UPDATE dispatcher.runs
       SET status = CASE WHEN started_at IS NULL THEN 'pending' ELSE 'running' END, available_at = statement_timestamp(),
           paused_at = NULL, note = NULL,
           state = CASE WHEN state ? 'working_since'
                        THEN jsonb_set(state, '{working_since}', to_jsonb((state ->> 'working_since')::float8
                                 + extract(epoch FROM statement_timestamp() - paused_at)))
                        ELSE state END
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run_v1(p_run_id, 'resumed', p_actor, p_reason);
    PERFORM dispatcher.resume_v1('run', p_run_id::text, p_actor);
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
    RETURN 'done';
END $$;

-- Replay a failed run from where it failed: its failed deliveries are sent again, and so is what was skipped because of
-- it; what was sent stays sent. Answers replayed, unknown, or what it is.
CREATE FUNCTION dispatcher.replay_run_v1(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run      dispatcher.runs := dispatcher.lock_run_v1(p_run_id, p_tenant_id, p_workspace_id);
    one      record;
    reopened integer := 0;
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.status <> 'failed' THEN RETURN run.status; END IF;
    FOR one IN
        SELECT d.id, d.node FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
         WHERE d.run_id = p_run_id AND run.state -> 'cursor' ? d.node
           AND (s.status = 'failed' OR s.status = 'skipped' AND s.error LIKE 'cancelled: its run %')
         ORDER BY d.id
    LOOP
        PERFORM dispatcher.reopen_delivery_v1(one.id, p_actor, coalesce(p_reason, ''));
        reopened := reopened + (one.node IS NOT DISTINCT FROM run.error_node)::int;
    END LOOP;
    UPDATE dispatcher.runs
       SET status = 'running', available_at = statement_timestamp(), finished_at = NULL, dead = false, error = NULL,
           error_node = NULL, note = NULL, discarded_at = NULL, takes = 0, retries = least(retries + 1, 32767),
           state = CASE WHEN reopened = 0 AND run.error_node IS NOT NULL
                        THEN jsonb_set(state, ARRAY['cursor', run.error_node], jsonb_build_object(
                                 'standing', 'joining', 'since', extract(epoch FROM statement_timestamp())))
                        ELSE state END - 'worked_seconds' - 'working_since'
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run_v1(p_run_id, 'replayed', p_actor, p_reason);
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
    RETURN 'replayed';
END $$;

-- Discard a failed run, or a failed delivery that belongs to none: it is no dead letter any more, and stays what it is.
CREATE FUNCTION dispatcher.discard_run_v1(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dispatcher.runs := dispatcher.lock_run_v1(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.status <> 'failed' THEN RETURN run.status; END IF;
    IF NOT run.dead THEN RETURN 'same'; END IF;
    UPDATE dispatcher.runs SET dead = false, discarded_at = statement_timestamp(),
           note = concat_ws(': ', 'discarded by ' || p_actor, nullif(p_reason, ''))
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run_v1(p_run_id, 'discarded', p_actor, p_reason);
    RETURN 'discarded';
END $$;

CREATE FUNCTION dispatcher.discard_delivery_v1(
    p_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM dispatcher.deliveries d
                    WHERE d.id = p_id AND d.tenant_id = p_tenant_id AND d.workspace_id = p_workspace_id) THEN
        RETURN 'unknown';
    END IF;
    UPDATE dispatcher.dead_deliveries SET discarded_at = statement_timestamp(),
           note = concat_ws(': ', 'discarded by ' || p_actor, nullif(p_reason, ''))
     WHERE delivery_id = p_id AND discarded_at IS NULL;
    RETURN CASE WHEN FOUND THEN 'discarded' ELSE coalesce((SELECT CASE s.status WHEN 'failed' THEN 'same' ELSE s.status END
                                                             FROM dispatcher.delivery_state s WHERE s.id = p_id), 'unknown') END;
END $$;


CREATE VIEW dispatcher.dead_letters AS
SELECT 'run' AS kind, r.id, r.tenant_id, r.workspace_id, r.workflow AS name, r.error_node AS node, NULL AS channel,
       NULL AS recipient, r.idempotency_key, r.error, r.created_at, r.finished_at AS failed_at, r.retries
  FROM dispatcher.runs r WHERE r.dead
UNION ALL
SELECT 'delivery', d.id, d.tenant_id, d.workspace_id, d.template_name, NULL, d.channel, d.recipient, d.idempotency_key,
       s.error, d.created_at, s.finished_at, (SELECT count(*) FROM dispatcher.reopened_ends e WHERE e.delivery_id = d.id)::smallint
  FROM dispatcher.dead_deliveries l JOIN dispatcher.deliveries d ON d.id = l.delivery_id
  JOIN dispatcher.delivery_state s ON s.id = l.delivery_id
 WHERE l.discarded_at IS NULL;

CREATE VIEW dispatcher.workflow_executions AS
SELECT r.id AS execution_id, r.tenant_id, r.workspace_id, r.workflow AS workflow_name, v.number AS version,
       CASE r.status WHEN 'waiting' THEN 'running' WHEN 'paused' THEN 'running' ELSE r.status END AS status,
       r.input, r.input || coalesce(r.state -> 'vars', '{}') AS context,
       ARRAY(SELECT jsonb_object_keys(r.state -> 'cursor') ORDER BY 1) AS current_steps, v.total_steps,
       r.error, r.error_node AS error_step, r.retries AS retry_count, r.triggered_by, r.idempotency_key,
       r.created_at, r.started_at, r.finished_at
  FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id;
COMMENT ON VIEW dispatcher.workflow_executions IS
    'runs in the words of others: waiting and paused ones are running; pending is elsewhere called enqueued, running processing';


REVOKE ALL ON FUNCTION dispatcher.trigger_workflow_v1, dispatcher.trigger_workflow, dispatcher.signal_run_v1, dispatcher.signal_run,
    dispatcher.cancel_run_v1, dispatcher.cancel_run, dispatcher.pause_run_v1, dispatcher.resume_run_v1, dispatcher.replay_run_v1,
    dispatcher.discard_run_v1, dispatcher.discard_delivery_v1, dispatcher.wake_run_v1 FROM PUBLIC;
