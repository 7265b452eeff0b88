-- Triggers: what starts a run, by one call or by many at once, inside the transaction of an application.
--
-- The functions of applications (trigger_workflow, run_status, and those of run_actions.sql and enqueue.sql without `p_` before
-- their arguments) run with their owner's rights, begin with stay_within, and are granted to no role by default: a role needs
-- USAGE on the schema and EXECUTE on the function. Their arguments have plain names:
-- dispatcher.trigger_workflow(workflow => 'welcome', input => '{}').
--
-- Keys are looked up one at a time. Before Postgres 17 a list of keys is either a condition of the index or a filter behind
-- it, and without statistics the second looks as good: each call read all runs of its workflow. One key is a condition of the
-- index for any planner: first the key itself, and where that is there but not found, what an erasure leaves of it.

-- Whether something is there, null included, as Liquid looks for it: `size`, `first` and `last` are what it says of a list,
-- a text or an object, also where no such field is. A number among the steps is the place in a list.
CREATE FUNCTION dispatcher.has_path(p_input jsonb, p_at text[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here jsonb := p_input;
    next jsonb;
    step text;
BEGIN
    IF (p_input #> p_at) IS NOT NULL THEN RETURN true; END IF;
    IF NOT p_at[2:] && ARRAY['size', 'first', 'last'] THEN RETURN false; END IF;
    FOR number IN 1..cardinality(p_at) LOOP
        step := p_at[number];
        next := here #> ARRAY[step];
        IF next IS NULL AND number > 1 THEN
            -- The first of an object is a name and its value, as a list.
            next := CASE step || ' of ' || jsonb_typeof(here)
                        WHEN 'size of array' THEN '0' WHEN 'size of string' THEN '0' WHEN 'size of object' THEN '0'
                        WHEN 'first of array' THEN here -> 0
                        WHEN 'first of object' THEN
                            (SELECT jsonb_build_array(e.key, e.value) FROM jsonb_each(here) e LIMIT 1)
                        WHEN 'last of array' THEN here -> -1 END;
        END IF;
        IF next IS NULL THEN RETURN false; END IF;
        here := next;
    END LOOP;
    RETURN true;
END $$;

-- The steps of a path as Liquid's analysis writes it: order.lines[0].name, labels['a b']. Where a variable says how it goes
-- on, as in prices[currency].net, is not known before it is rendered: the steps end there.
CREATE FUNCTION dispatcher.path_steps(p_path text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN position('[' IN p_path) = 0 THEN string_to_array(p_path, '.')
                ELSE ARRAY(SELECT coalesce(replace(replace(coalesce(m[1], m[2]), '\''', ''''), '\\', '\'), m[3], m[4])
                             FROM regexp_matches(
                                      substring(p_path FROM '^(?:\["(?:[^"\\]|\\.)*"\]|\[''(?:[^''\\]|\\.)*''\]|\[-?\d+\]|[^\[\]]+)*'),
                                      '\["((?:[^"\\]|\\.)*)"\]|\[''((?:[^''\\]|\\.)*)''\]|\[(-?\d+)\]|([^.\[\]]+)', 'g') AS m) END
$$;

-- What an input lacks for a version: [{"path", "words", "name", "kind": "field" | "variable" | "template"}]. Fields come in the
-- order of the definition, variables in order of appearance: those of the workflow, then those of its stored templates.
CREATE FUNCTION dispatcher.input_faults(
    p_tenant_id text, p_workspace_id text, p_version dispatcher.plan_versions, p_input jsonb
) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    faults jsonb := '[]';
    used   record;
    called text;
    fault  text;
BEGIN
    -- Nothing is looked for in empty lists, which most versions have: each look takes 4 us.
    IF p_version.required_fields <> '{}' THEN
        SELECT faults || coalesce(jsonb_agg(jsonb_build_object('path', '$.' || f, 'kind', 'field', 'name', f,
                   'words', 'is required') ORDER BY o), '[]')
          INTO faults FROM unnest(p_version.required_fields) WITH ORDINALITY AS r (f, o)
         WHERE NOT dispatcher.has_path(p_input, dispatcher.path_steps(f));
    END IF;
    FOR used IN
        SELECT r.value ->> 'path' AS name, ARRAY(SELECT jsonb_array_elements_text(r.value -> 'at')) AS at
          FROM jsonb_array_elements(p_version.reads) AS r
    LOOP
        -- (#> alone takes a fifth of has_path, and finds most.)
        IF (p_input #> used.at) IS NULL AND NOT dispatcher.has_path(p_input, used.at) THEN
            faults := faults || jsonb_build_object('path', '$.' || used.name, 'kind', 'variable', 'name', used.name,
                                                   'words', 'is read by the workflow');
        END IF;
    END LOOP;
    IF p_version.templates = '[]' THEN RETURN faults; END IF;
    FOR used IN
        SELECT s.value ->> 'name' AS name, s.value -> 'variable' ->> 'path' AS variable, s.value ->> 'channel' AS channel,
               coalesce((s.value ->> 'steps')::integer, 0) AS steps,
               ARRAY(SELECT jsonb_array_elements_text(s.value -> 'variable' -> 'at')) AS at,
               coalesce(s.value -> 'provides', '[]') AS provides
          FROM jsonb_array_elements(p_version.templates) WITH ORDINALITY AS s ORDER BY s.ordinality
    LOOP
        called := used.name;
        IF used.variable IS NOT NULL THEN
            CONTINUE WHEN NOT dispatcher.has_path(p_input, used.at);
            called := p_input #>> used.at;
        END IF;
        -- No name is longer, and what is said of it is not either.
        called := left(called, 101);
        fault := dispatcher.template_fault(p_tenant_id, p_workspace_id, coalesce(called, ''), used.channel);
        IF fault IS NOT NULL THEN
            faults := faults || jsonb_build_object('kind', 'template', 'path', coalesce('$.' || used.variable, '$'),
                                                   'name', coalesce(called, 'null'), 'words', fault);
            CONTINUE;
        END IF;
        SELECT faults || coalesce(jsonb_agg(jsonb_build_object('path', '$.' || read, 'kind', 'variable', 'name', read,
                   'words', format('is read by the template %s', quote_literal(called))) ORDER BY place), '[]')
          INTO faults
          FROM dispatcher.templates t
          JOIN dispatcher.template_versions v ON v.id = t.published, unnest(v.variables) WITH ORDINALITY AS r (read, place),
               LATERAL (SELECT dispatcher.path_steps(read) AS at) AS steps
         WHERE t.tenant_id = p_tenant_id AND t.workspace_id = p_workspace_id AND t.name = called
           -- (The link by which one unsubscribes comes with each message.)
           AND NOT coalesce(substring(at[1] FROM '^step_(0|[1-9][0-9]{0,5})_(?:result|error)$')::integer < used.steps, false)
           AND at[1] <> 'unsubscribe_url' AND at[1] <> ALL (p_version.node_ids) AND NOT used.provides ? at[1]
           AND NOT dispatcher.has_path(p_input, at);
    END LOOP;
    RETURN faults;
END $$;

-- The faults of an input in words: everything that is missing, each name once. What is required is not named again as read.
CREATE FUNCTION dispatcher.input_words(p_faults jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH said AS (
        SELECT f.value ->> 'kind' AS kind, f.value ->> CASE f.value ->> 'kind' WHEN 'template' THEN 'words' ELSE 'name' END AS what,
               min(f.ordinality) AS place
          FROM jsonb_array_elements(p_faults) WITH ORDINALITY AS f GROUP BY 1, 2
    )
    SELECT concat_ws('; ',
        (SELECT 'Missing required fields: ' || string_agg(what, ', ' ORDER BY place) FROM said WHERE kind = 'field'),
        (SELECT 'Missing template variables: ' || string_agg(what, ', ' ORDER BY place) FROM said
          WHERE kind = 'variable' AND what NOT IN (SELECT what FROM said WHERE kind = 'field')),
        (SELECT string_agg(what, '; ' ORDER BY place) FROM said WHERE kind = 'template'))
$$;

-- Start a run, or find the one that its key has started already, whatever has become of its workflow since. Raises what is
-- missing, all of it.
CREATE FUNCTION dispatcher.trigger_workflow(
    workflow text, input jsonb DEFAULT '{}', idempotency_key text DEFAULT NULL, tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default', triggered_by text DEFAULT session_user, correlation_id text DEFAULT NULL,
    traceparent text DEFAULT NULL,
    OUT execution_id bigint, OUT workflow_name text, OUT version integer, OUT status text, OUT total_steps integer,
    OUT duplicate boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- What a run brings along is copied into its log and its deliveries.
    bytes_max CONSTANT integer := 1048576;
    tenant    CONSTANT text := coalesce(trigger_workflow.tenant_id, 'default');
    workspace CONSTANT text := coalesce(trigger_workflow.workspace_id, 'default');
    key       CONSTANT text := coalesce(trigger_workflow.idempotency_key, correlation_id);
    held      dispatcher.workflows;
    used      dispatcher.plan_versions;
    faults    jsonb;
    hash      text;
    known     text;
BEGIN
    PERFORM dispatcher.stay_within(tenant, workspace);
    IF trigger_workflow.idempotency_key <> correlation_id THEN
        PERFORM dispatcher.refuse('idempotency_key and correlation_id are one thing, and differ',
            '[{"path": "$.correlation_id", "words": "another name for idempotency_key: give one of them"}]');
    END IF;
    workflow_name := trigger_workflow.workflow;
    status := 'queued';
    IF coalesce(length(key) NOT BETWEEN 1 AND 255, false) THEN
        PERFORM dispatcher.refuse('idempotency_key: expected 1 to 255 characters',
            dispatcher.fault('$.idempotency_key', 'expected 1 to 255 characters'));
    END IF;
    faults := CASE WHEN traceparent IS NOT NULL THEN dispatcher.traceparent_faults(traceparent) END;
    IF faults <> '[]' THEN PERFORM dispatcher.refuse(dispatcher.faults_in_words(faults), faults); END IF;
    LOOP
        FOREACH known IN ARRAY array_remove(ARRAY[key, hash], NULL) LOOP
            SELECT r.id, v.number, v.total_steps, true INTO execution_id, version, total_steps, duplicate
              FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id
             WHERE r.tenant_id = tenant AND r.workspace_id = workspace AND r.workflow = trigger_workflow.workflow
               AND r.idempotency_key = known;
            IF FOUND THEN RETURN; END IF;
        END LOOP;
        IF held.id IS NULL THEN
            SELECT w.* INTO held FROM dispatcher.workflows w
             WHERE w.tenant_id = tenant AND w.workspace_id = workspace AND w.name = trigger_workflow.workflow AND w.deleted_at IS NULL
               AND w.kind = 'workflow';
            IF NOT FOUND THEN
                PERFORM dispatcher.refuse(format('there is no workflow %s', coalesce(quote_literal(left(trigger_workflow.workflow, 101)), 'null')),
                    dispatcher.fault('$.workflow', 'there is no such workflow'), 'P0002');
            END IF;
            -- Against a deletion, which takes it whole; what was deleted meanwhile is seen by the next look. A transaction
            -- that keeps its first look for ever has to be told.
            PERFORM pg_advisory_xact_lock_shared(hashtextextended('dispatcher.workflow', held.id));
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                PERFORM FROM dispatcher.workflows w WHERE w.id = held.id FOR KEY SHARE;
            END IF;
            SELECT v.* INTO used FROM dispatcher.workflows w JOIN dispatcher.plan_versions v ON v.id = w.current
             WHERE w.id = held.id AND w.active;
            IF NOT FOUND THEN
                PERFORM dispatcher.refuse(format('the workflow %s is not active', quote_literal(trigger_workflow.workflow)),
                    dispatcher.fault('$.workflow', 'it is not active'), '55000');
            END IF;
            faults := dispatcher.object_faults('$', trigger_workflow.input, bytes_max);
            IF faults <> '[]' THEN PERFORM dispatcher.refuse('input: ' || dispatcher.faults_in_words(faults), faults); END IF;
            faults := dispatcher.input_faults(tenant, workspace, used, trigger_workflow.input);
            IF faults <> '[]' THEN PERFORM dispatcher.refuse(dispatcher.input_words(faults), faults); END IF;
        END IF;
        INSERT INTO dispatcher.runs (workflow_id, version_id, available_at, tenant_id, workspace_id, workflow,
                                     idempotency_key, triggered_by, input, lane, traceparent)
        VALUES (held.id, used.id, now(), tenant, workspace, trigger_workflow.workflow, key,
                coalesce(nullif(trigger_workflow.triggered_by, ''), session_user), trigger_workflow.input, used.lane,
                trigger_workflow.traceparent)
        ON CONFLICT (tenant_id, workspace_id, workflow, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING id INTO execution_id;
        EXIT WHEN FOUND;
        hash := dispatcher.erased(key);
    END LOOP;
    version := used.number;
    total_steps := used.total_steps;
    duplicate := false;
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
END $$;

-- Start runs of one workflow, or find those that their keys have started already. One row each, in no order: its place among
-- those that were asked for, and the run, or how it is refused.
CREATE FUNCTION dispatcher.trigger_workflows(
    p_tenant_id text, p_workspace_id text, p_workflow text, p_inputs text[], p_keys text[], p_triggered_by text[],
    p_traceparents text[] DEFAULT NULL
) RETURNS TABLE (
    place integer, execution_id bigint, version integer, total_steps integer, duplicate boolean,
    refusal text, message text, detail text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    bytes_max CONSTANT integer := 1048576;
    held      dispatcher.workflows;
    used      dispatcher.plan_versions;
    started   integer[] := '{}';
    fresh     record;
    rest      record;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    SELECT w.* INTO held FROM dispatcher.workflows w
     WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_workflow AND w.deleted_at IS NULL
       AND w.kind = 'workflow';
    IF FOUND THEN
        -- Against a deletion, as for one alone.
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('dispatcher.workflow', held.id));
        SELECT w.* INTO held FROM dispatcher.workflows w WHERE w.id = held.id AND w.deleted_at IS NULL;
    END IF;
    IF held.active THEN
        SELECT v.* INTO used FROM dispatcher.plan_versions v WHERE v.id = held.current;
        -- In the order of their keys: a concurrent insert of the same keys waits for us, and we not for it.
        FOR fresh IN
            WITH asked AS MATERIALIZED (
                SELECT a.place, a.key, a.actor, a.trace, a.input::jsonb AS input, nextval('dispatcher.run_ids') AS id
                  FROM unnest(p_inputs, p_keys, p_triggered_by, p_traceparents) WITH ORDINALITY
                    AS a (input, key, actor, trace, place)
            ), written AS (
                INSERT INTO dispatcher.runs (id, workflow_id, version_id, available_at, tenant_id, workspace_id, workflow,
                                             idempotency_key, triggered_by, input, lane, traceparent)
                SELECT a.id, held.id, used.id, now(), p_tenant_id, p_workspace_id, p_workflow, a.key, a.actor, a.input, used.lane,
                       a.trace
                  FROM asked a
                 WHERE dispatcher.object_faults('$', a.input, bytes_max) = '[]'
                   AND dispatcher.input_faults(p_tenant_id, p_workspace_id, used, a.input) = '[]'
                   AND coalesce(length(a.key) BETWEEN 1 AND 255, true) AND dispatcher.traceparent_faults(a.trace) = '[]'
                 ORDER BY a.key, a.place
                ON CONFLICT (tenant_id, workspace_id, workflow, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
                RETURNING id
            )
            SELECT a.place, a.id FROM written w JOIN asked a ON a.id = w.id
        LOOP
            started := started || fresh.place::integer;
            SELECT fresh.place, fresh.id, used.number, used.total_steps, false
              INTO place, execution_id, version, total_steps, duplicate;
            RETURN NEXT;
        END LOOP;
        IF started <> '{}' AND EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN
            PERFORM pg_notify('dispatcher_runs', '');
        END IF;
    END IF;
    -- Duplicates and what is refused: as one alone, each, which knows what there is to say.
    FOR rest IN
        SELECT a.* FROM unnest(p_inputs, p_keys, p_triggered_by, p_traceparents) WITH ORDINALITY
                          AS a (input, key, actor, trace, place)
         WHERE a.place <> ALL (started) ORDER BY a.key, a.place
    LOOP
        place := rest.place;
        execution_id := NULL; version := NULL; total_steps := NULL; duplicate := NULL;
        refusal := NULL; message := NULL; detail := NULL;
        BEGIN
            SELECT t.execution_id, t.version, t.total_steps, t.duplicate INTO execution_id, version, total_steps, duplicate
              FROM dispatcher.trigger_workflow(p_workflow, rest.input::jsonb, rest.key, p_tenant_id, p_workspace_id, rest.actor,
                                               traceparent => rest.trace) AS t;
        EXCEPTION
            WHEN data_exception OR no_data_found OR object_not_in_prerequisite_state OR program_limit_exceeded THEN
                GET STACKED DIAGNOSTICS refusal = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
        END;
        RETURN NEXT;
    END LOOP;
END $$;

-- Where a run stands; no row where there is none.
CREATE FUNCTION dispatcher.run_status(
    run_id bigint, tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default'
) RETURNS TABLE (
    execution_id bigint, workflow_name text, version integer, status text, current_steps text[], total_steps integer,
    idempotency_key text, triggered_by text, retry_count integer, error text, error_step text, note text, input jsonb,
    context jsonb, held bigint, deliveries_total bigint, available_at timestamptz, created_at timestamptz,
    started_at timestamptz, finished_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.stay_within(coalesce(run_status.tenant_id, 'default'), coalesce(run_status.workspace_id, 'default'));
    SELECT r.id, r.workflow, v.number, r.status, ARRAY(SELECT jsonb_object_keys(r.state -> 'cursor') ORDER BY 1),
           v.total_steps, r.idempotency_key, r.triggered_by, r.retries::integer, r.error, r.error_node, r.note, r.input,
           r.input || coalesce(r.state -> 'vars', '{}'), coalesce(c.held, 0), coalesce(c.deliveries, 0), r.available_at,
           r.created_at, r.started_at, r.finished_at
      FROM dispatcher.runs r
      JOIN dispatcher.plan_versions v ON v.id = r.version_id
      LEFT JOIN dispatcher.run_deliveries c ON c.run_id = r.id
     WHERE r.id = run_status.run_id AND r.tenant_id = coalesce(run_status.tenant_id, 'default')
       AND r.workspace_id = coalesce(run_status.workspace_id, 'default')
$$;

REVOKE ALL ON FUNCTION dispatcher.has_path, dispatcher.path_steps, dispatcher.input_faults, dispatcher.input_words,
    dispatcher.trigger_workflow, dispatcher.trigger_workflows, dispatcher.run_status FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.trigger_workflow, dispatcher.trigger_workflows TO dispatcher_tenant;
