-- The doors of workflows: what an application calls inside its own transaction, and what operators do to runs.
--
-- Each function has a version in its name, which stays what it is, and a face without one, which is the newest. They run
-- with their owner's rights and are nobody's by default: a role needs USAGE on the schema and EXECUTE on the face.
--
-- The arguments of a face are called by plain names: dispatcher.trigger_workflow(workflow => 'welcome', input => '{}').
--
-- What is wrong with a call is one exception. Its DETAIL is a JSON list of every fault: [{"path": "$.order", "words": ...}].


-- Raise what is wrong with a call, all of it.
CREATE FUNCTION dispatcher.refuse_v1(p_message text, p_faults jsonb, p_code text DEFAULT '22023') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = p_message, DETAIL = p_faults::text, ERRCODE = p_code;
END $$;

-- A fault as it stands in DETAIL.
CREATE FUNCTION dispatcher.fault_v1(p_path text, p_words text) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_array(jsonb_build_object('path', p_path, 'words', p_words))
$$;

-- What is wrong with an object that comes with a call. What it has is read and written again by programs whose numbers end
-- at 64 bits, and whose stack does somewhere.
CREATE FUNCTION dispatcher.object_faults_v1(p_path text, p_value jsonb, p_bytes_max integer) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    faults jsonb := '[]';
BEGIN
    IF p_value IS NULL OR jsonb_typeof(p_value) <> 'object' THEN
        RETURN dispatcher.fault_v1(p_path, 'expected a JSON object');
    END IF;
    IF octet_length(p_value::text) > p_bytes_max THEN
        RETURN dispatcher.fault_v1(p_path, format('larger than %s bytes', p_bytes_max));
    END IF;
    IF jsonb_path_exists(p_value, '$.**{129}') THEN
        faults := faults || dispatcher.fault_v1(p_path, 'nested more than 128 deep');
    END IF;
    IF jsonb_path_exists(p_value, 'strict $.** ? (@.type() == "number" && (@ > 18446744073709551615 || @ < -9223372036854775808))') THEN
        faults := faults || dispatcher.fault_v1(p_path, 'has a number of more than 64 bits: write it as a text');
    END IF;
    RETURN faults;
END $$;

-- Whether something is there, null included, as Liquid looks for it: `size`, `first` and `last` are what it says of a list,
-- a text or an object, also where no such field is. A number among the steps is the place in a list.
CREATE FUNCTION dispatcher.has_path_v1(p_input jsonb, p_at text[]) RETURNS boolean
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
            CASE step
                WHEN 'size' THEN
                    next := CASE WHEN jsonb_typeof(here) IN ('array', 'string', 'object') THEN '0'::jsonb END;
                WHEN 'first' THEN
                    -- Of an object it is a name and its value, as a list.
                    next := CASE jsonb_typeof(here)
                                WHEN 'array' THEN here -> 0
                                WHEN 'object' THEN (SELECT jsonb_build_array(e.key, e.value) FROM jsonb_each(here) e LIMIT 1)
                            END;
                WHEN 'last' THEN
                    next := CASE WHEN jsonb_typeof(here) = 'array' THEN here -> -1 END;
                ELSE NULL;
            END CASE;
        END IF;
        IF next IS NULL THEN RETURN false; END IF;
        here := next;
    END LOOP;
    RETURN true;
END $$;

-- The steps of a path as Liquid's analysis writes it: order.lines[0].name, labels['a b']. Where a variable says how it goes
-- on, as in prices[currency].net, nobody knows that before it is rendered: the steps end there.
CREATE FUNCTION dispatcher.path_steps_v1(p_path text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN position('[' IN p_path) = 0 THEN string_to_array(p_path, '.')
                ELSE ARRAY(SELECT coalesce(replace(replace(coalesce(m[1], m[2]), '\''', ''''), '\\', '\'), m[3], m[4])
                             FROM regexp_matches(
                                      substring(p_path FROM '^(?:\["(?:[^"\\]|\\.)*"\]|\[''(?:[^''\\]|\\.)*''\]|\[-?\d+\]|[^\[\]]+)*'),
                                      '\["((?:[^"\\]|\\.)*)"\]|\[''((?:[^''\\]|\\.)*)''\]|\[(-?\d+)\]|([^.\[\]]+)', 'g') AS m) END
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
    -- Again, where the one that stood in the way is deleted meanwhile.
    LOOP
        INSERT INTO dispatcher.workflows (tenant_id, workspace_id, name) VALUES (p_tenant_id, p_workspace_id, p_name)
        ON CONFLICT (tenant_id, workspace_id, name) WHERE deleted_at IS NULL DO NOTHING;
        SELECT w.* INTO held FROM dispatcher.workflows w
         WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_name AND w.deleted_at IS NULL
           FOR UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
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
-- their keys. Answers deleted, unknown, active, or running. No trigger comes in between: both take the same lock. It is
-- looked before as well, since triggers wait behind whoever waits for it.
CREATE FUNCTION dispatcher.delete_workflow_v1(p_tenant_id text, p_workspace_id text, p_name text, p_actor text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.workflows;
BEGIN
    SELECT w.* INTO held FROM dispatcher.workflows w
     WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_name AND w.deleted_at IS NULL
       FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a workflow is deleted in READ COMMITTED: the runs that have begun since must be seen'
            USING ERRCODE = 'active_sql_transaction';
    END IF;
    FOR look IN 1..2 LOOP
        IF EXISTS (SELECT FROM dispatcher.runs r WHERE r.workflow_id = held.id AND r.finished_at IS NULL) THEN
            RETURN 'running';
        END IF;
        IF held.active AND EXISTS (SELECT FROM dispatcher.runs r WHERE r.workflow_id = held.id) THEN RETURN 'active'; END IF;
        PERFORM pg_advisory_xact_lock(hashtextextended('dispatcher.workflow', held.id));
    END LOOP;
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
        -- No name is longer, and what is said of it is not either.
        called := left(called, 101);
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
           -- (The link by which one unsubscribes comes with each message.)
           AND NOT starts_with(at[1], 'step_') AND at[1] <> 'unsubscribe_url' AND at[1] <> ALL (p_version.node_ids) AND NOT used.provides ? at[1]
           AND NOT dispatcher.has_path_v1(p_input, at);
    END LOOP;
    SELECT faults || coalesce(jsonb_agg(jsonb_build_object('path', '$.' || (r.value ->> 'path'), 'kind', 'variable',
               'name', r.value ->> 'path', 'words', 'is read by the workflow')), '[]')
      INTO faults FROM jsonb_array_elements(p_version.reads) AS r
     WHERE NOT dispatcher.has_path_v1(p_input, ARRAY(SELECT jsonb_array_elements_text(r.value -> 'at')));
    RETURN faults;
END $$;

-- Faults in words, with the paths at which they are.
CREATE FUNCTION dispatcher.faults_in_words_v1(p_faults jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(CASE f.value ->> 'path' WHEN '$' THEN '' ELSE substr(f.value ->> 'path', 3) || ': ' END || (f.value ->> 'words'),
                      '; ' ORDER BY f.ordinality)
      FROM jsonb_array_elements(p_faults) WITH ORDINALITY AS f
$$;

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
    tenant    CONSTANT text := coalesce(p_tenant_id, 'default');
    workspace CONSTANT text := coalesce(p_workspace_id, 'default');
    held      dispatcher.workflows;
    used      dispatcher.plan_versions;
    faults    jsonb;
BEGIN
    workflow_name := p_workflow;
    status := 'queued';
    IF coalesce(length(p_idempotency_key) NOT BETWEEN 1 AND 255, false) THEN
        PERFORM dispatcher.refuse_v1('idempotency_key: expected 1 to 255 characters',
            dispatcher.fault_v1('$.idempotency_key', 'expected 1 to 255 characters'));
    END IF;
    LOOP
        IF p_idempotency_key IS NOT NULL THEN
            SELECT r.id, v.number, v.total_steps, true INTO execution_id, version, total_steps, duplicate
              FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id
             WHERE r.tenant_id = tenant AND r.workspace_id = workspace AND r.workflow = p_workflow
               AND r.idempotency_key = p_idempotency_key;
            IF FOUND THEN RETURN; END IF;
        END IF;
        IF held.id IS NULL THEN
            SELECT w.* INTO held FROM dispatcher.workflows w
             WHERE w.tenant_id = tenant AND w.workspace_id = workspace AND w.name = p_workflow AND w.deleted_at IS NULL;
            IF NOT FOUND THEN
                PERFORM dispatcher.refuse_v1(format('there is no workflow %s', coalesce(quote_literal(left(p_workflow, 101)), 'null')),
                    dispatcher.fault_v1('$.workflow', 'there is no such workflow'), 'P0002');
            END IF;
            -- Against a deletion, which takes it whole; what was deleted meanwhile is seen by the next look. A transaction
            -- that keeps its first look for ever has to be told.
            PERFORM pg_advisory_xact_lock_shared(hashtextextended('dispatcher.workflow', held.id));
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                PERFORM FROM dispatcher.workflows w WHERE w.id = held.id FOR KEY SHARE;
            END IF;
            SELECT w.* INTO held FROM dispatcher.workflows w WHERE w.id = held.id;
            IF NOT held.active THEN
                PERFORM dispatcher.refuse_v1(format('the workflow %s is not active', quote_literal(p_workflow)),
                    dispatcher.fault_v1('$.workflow', 'it is not active'), '55000');
            END IF;
            faults := dispatcher.object_faults_v1('$', p_input, bytes_max);
            IF faults <> '[]' THEN PERFORM dispatcher.refuse_v1('input: ' || dispatcher.faults_in_words_v1(faults), faults); END IF;
            SELECT v.* INTO used FROM dispatcher.plan_versions v WHERE v.id = held.current;
            faults := dispatcher.input_faults_v1(tenant, workspace, used, p_input);
            IF faults <> '[]' THEN PERFORM dispatcher.refuse_v1(dispatcher.input_words_v1(faults), faults); END IF;
        END IF;
        INSERT INTO dispatcher.runs (workflow_id, version_id, available_at, tenant_id, workspace_id, workflow,
                                     idempotency_key, triggered_by, input)
        VALUES (held.id, used.id, now(), tenant, workspace, p_workflow, p_idempotency_key,
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

-- `correlation_id` is what others call the key.
CREATE FUNCTION dispatcher.trigger_workflow(
    workflow text, input jsonb DEFAULT '{}', idempotency_key text DEFAULT NULL, tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default', triggered_by text DEFAULT session_user, correlation_id text DEFAULT NULL,
    OUT execution_id bigint, OUT workflow_name text, OUT version integer, OUT status text, OUT total_steps integer,
    OUT duplicate boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF idempotency_key <> correlation_id THEN
        PERFORM dispatcher.refuse_v1('idempotency_key and correlation_id are one thing, and differ',
            '[{"path": "$.correlation_id", "words": "another name for idempotency_key: give one of them"}]');
    END IF;
    SELECT t.execution_id, t.workflow_name, t.version, t.status, t.total_steps, t.duplicate
      INTO execution_id, workflow_name, version, status, total_steps, duplicate
      FROM dispatcher.trigger_workflow_v1(workflow, input, coalesce(idempotency_key, correlation_id), tenant_id,
                                          workspace_id, triggered_by) AS t;
END $$;


-- What is wrong with a template's parts; null: nothing. Their Liquid is read by whoever renders them.
CREATE FUNCTION dispatcher.parts_fault_v1(p_template jsonb, p_bytes_max integer) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN jsonb_typeof(p_template) <> 'object' THEN 'expected an object of texts, such as {"body": "Hello"}'
                WHEN p_template = '{}' THEN 'has no parts'
                WHEN octet_length(p_template::text) > p_bytes_max THEN format('larger than %s bytes', p_bytes_max)
                ELSE (SELECT format('the part %s is no text', quote_literal(left(e.key, 100)))
                        FROM jsonb_each(p_template) AS e WHERE jsonb_typeof(e.value) <> 'string' LIMIT 1) END
$$;

-- What is wrong with a delivery that is asked for, all of it.
CREATE FUNCTION dispatcher.delivery_faults_v1(
    p_channel text, p_recipient text, p_idempotency_key text, p_template jsonb, p_template_name text, p_variables jsonb,
    p_options jsonb, p_lane text, p_scheduled_for timestamptz, p_expires_at timestamptz, p_max_attempts integer,
    p_locale text, p_topic text, p_tenant_id text, p_workspace_id text
) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bytes_max      CONSTANT integer := 262144;
    -- As long as an e-mail address with a name may become.
    recipient_max  CONSTANT integer := 2000;
    stored         CONSTANT boolean := p_template IS NULL AND p_template_name IS NOT NULL;
    faults         jsonb := '[]';
    found          text;
BEGIN
    SELECT faults || coalesce(jsonb_agg(jsonb_build_object('path', '$.' || f.name, 'words', f.words) ORDER BY f.place), '[]')
      INTO faults
      FROM (VALUES
        (1, 'channel', 'expected a channel''s name, such as email', coalesce(p_channel, '') !~ '^[a-z][a-z0-9_]{0,31}$'),
        (2, 'recipient', format('expected 1 to %s characters', recipient_max),
            coalesce(length(p_recipient), 0) NOT BETWEEN 1 AND recipient_max),
        (3, 'idempotency_key', 'expected 1 to 255 characters', coalesce(length(p_idempotency_key), 0) NOT BETWEEN 1 AND 255),
        (4, 'template', 'expected a template, or the template_name of a stored one', p_template IS NULL AND p_template_name IS NULL),
        (5, 'template_name', 'expected 1 to 100 characters', length(p_template_name) NOT BETWEEN 1 AND 100),
        (6, 'lane', 'expected transactional, normal or bulk',
            coalesce(p_lane, '') NOT IN ('transactional', 'normal', 'bulk')),
        (7, 'scheduled_for', 'expected a time that comes', NOT isfinite(p_scheduled_for)),
        (8, 'expires_at', 'expected a time that comes', NOT isfinite(p_expires_at)),
        (9, 'expires_at', 'is over already', isfinite(p_expires_at) AND p_expires_at <= statement_timestamp()),
        (10, 'expires_at', 'is not after scheduled_for', isfinite(p_expires_at) AND p_expires_at > statement_timestamp()
            AND isfinite(p_scheduled_for) AND p_expires_at <= p_scheduled_for),
        (11, 'max_attempts', 'expected a number from 1 to 100', coalesce(p_max_attempts, 0) NOT BETWEEN 1 AND 100),
        (12, 'locale', 'expected 1 to 100 characters', length(p_locale) NOT BETWEEN 1 AND 100),
        (13, 'topic', 'expected up to 64 of a to z, 0 to 9, ._- and no sign at the beginning',
            p_topic !~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
        (14, 'tenant_id', 'expected 1 to 100 characters', length(p_tenant_id) NOT BETWEEN 1 AND 100),
        (15, 'workspace_id', 'expected 1 to 100 characters', length(p_workspace_id) NOT BETWEEN 1 AND 100)
      ) AS f (place, name, words, is_wrong)
     WHERE f.is_wrong;
    IF p_template IS NOT NULL THEN
        found := dispatcher.parts_fault_v1(p_template, bytes_max);
        IF found IS NOT NULL THEN faults := faults || dispatcher.fault_v1('$.template', found); END IF;
    ELSIF stored AND length(p_template_name) BETWEEN 1 AND 100 AND p_channel IS NOT NULL THEN
        found := dispatcher.template_fault_v1(p_tenant_id, p_workspace_id, p_template_name, left(p_channel, 32));
        IF found IS NOT NULL THEN faults := faults || dispatcher.fault_v1('$.template_name', found); END IF;
    END IF;
    RETURN faults || dispatcher.object_faults_v1('$.variables', p_variables, bytes_max)
                  || dispatcher.object_faults_v1('$.options', p_options, bytes_max);
END $$;

-- Write a delivery, or find the one that its key has written already, whatever else it is asked for now. Raises what is
-- wrong with it, all of it.
CREATE FUNCTION dispatcher.enqueue_delivery_v1(
    p_channel text, p_recipient text, p_idempotency_key text, p_template jsonb DEFAULT NULL, p_template_name text DEFAULT NULL,
    p_variables jsonb DEFAULT '{}', p_options jsonb DEFAULT '{}', p_lane text DEFAULT 'normal',
    p_scheduled_for timestamptz DEFAULT NULL, p_expires_at timestamptz DEFAULT NULL, p_max_attempts integer DEFAULT 5,
    p_locale text DEFAULT NULL, p_topic text DEFAULT NULL, p_tenant_id text DEFAULT 'default',
    p_workspace_id text DEFAULT 'default', OUT delivery_id bigint, OUT duplicate boolean, OUT status text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tenant    CONSTANT text := coalesce(p_tenant_id, 'default');
    workspace CONSTANT text := coalesce(p_workspace_id, 'default');
    variables CONSTANT jsonb := coalesce(p_variables, '{}');
    options   CONSTANT jsonb := coalesce(p_options, '{}');
    lane      CONSTANT text := coalesce(p_lane, 'normal');
    attempts  CONSTANT integer := coalesce(p_max_attempts, 5);
    faults    jsonb;
BEGIN
    LOOP
        SELECT d.id, true, s.status INTO delivery_id, duplicate, status
          FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
         WHERE d.tenant_id = tenant AND d.workspace_id = workspace AND d.idempotency_key = p_idempotency_key;
        IF FOUND THEN RETURN; END IF;
        IF faults IS NULL THEN
            faults := dispatcher.delivery_faults_v1(p_channel, p_recipient, p_idempotency_key, p_template, p_template_name,
                variables, options, lane, p_scheduled_for, p_expires_at, attempts, p_locale, p_topic, tenant, workspace);
            IF faults <> '[]' THEN
                PERFORM dispatcher.refuse_v1('the delivery cannot be written: ' || dispatcher.faults_in_words_v1(faults), faults);
            END IF;
        END IF;
        INSERT INTO dispatcher.deliveries (tenant_id, workspace_id, idempotency_key, channel, recipient, template,
               template_name, variables, options, lane, scheduled_for, expires_at, max_attempts, locale, topic)
        VALUES (tenant, workspace, p_idempotency_key, p_channel, p_recipient, p_template, p_template_name, variables, options,
                array_position(ARRAY['transactional', 'normal', 'bulk'], lane) - 1, coalesce(p_scheduled_for, now()),
                p_expires_at, attempts, p_locale, p_topic)
        ON CONFLICT ON CONSTRAINT deliveries_key DO NOTHING RETURNING id INTO delivery_id;
        EXIT WHEN FOUND;
    END LOOP;
    duplicate := false;
    SELECT s.status INTO status FROM dispatcher.delivery_state s WHERE s.id = delivery_id;
END $$;

CREATE FUNCTION dispatcher.enqueue_delivery(
    channel text, recipient text, idempotency_key text, template jsonb DEFAULT NULL, template_name text DEFAULT NULL,
    variables jsonb DEFAULT '{}', options jsonb DEFAULT '{}', lane text DEFAULT 'normal',
    scheduled_for timestamptz DEFAULT NULL, expires_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 5,
    locale text DEFAULT NULL, topic text DEFAULT NULL, tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default', OUT delivery_id bigint, OUT duplicate boolean, OUT status text
)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM dispatcher.enqueue_delivery_v1(channel, recipient, idempotency_key, template, template_name, variables,
        options, lane, scheduled_for, expires_at, max_attempts, locale, topic, tenant_id, workspace_id)
$$;


-- The run of an id, locked; of another tenant or workspace it is unknown.
CREATE FUNCTION dispatcher.lock_run_v1(p_run_id bigint, p_tenant_id text, p_workspace_id text) RETURNS dispatcher.runs
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.* FROM dispatcher.runs r
     WHERE r.id = p_run_id AND r.tenant_id = coalesce(p_tenant_id, 'default') AND r.workspace_id = coalesce(p_workspace_id, 'default')
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
    VALUES (p_run_id, number, p_event, concat_ws(': ', p_actor, left(nullif(p_reason, ''), 2000)));
END $$;

-- Send an event to a run. It is kept until a node takes it, also one that the run has not come to yet. Answers accepted,
-- unknown, or the status that the run has ended with.
CREATE FUNCTION dispatcher.signal_run_v1(
    p_run_id bigint, p_event text, p_data jsonb DEFAULT '{}', p_tenant_id text DEFAULT 'default',
    p_workspace_id text DEFAULT 'default', p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bytes_max   CONSTANT integer := 262144;
    waiting_max CONSTANT integer := 1000;
    faults      jsonb := '[]';
    run         dispatcher.runs;
BEGIN
    IF coalesce(length(p_event), 0) NOT BETWEEN 1 AND 200 THEN
        faults := faults || dispatcher.fault_v1('$.event', 'expected 1 to 200 characters');
    END IF;
    faults := faults || dispatcher.object_faults_v1('$.data', p_data, bytes_max);
    IF faults <> '[]' THEN
        PERFORM dispatcher.refuse_v1('the event cannot be sent: ' || dispatcher.faults_in_words_v1(faults), faults);
    END IF;
    -- Against a walk that ends the run just now. Until the caller commits, the run is walked by nobody.
    SELECT r.* INTO run FROM dispatcher.runs r
     WHERE r.id = p_run_id AND r.tenant_id = coalesce(p_tenant_id, 'default')
       AND r.workspace_id = coalesce(p_workspace_id, 'default') FOR KEY SHARE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF (SELECT count(*) FROM (SELECT FROM dispatcher.signals s WHERE s.run_id = p_run_id AND NOT s.taken LIMIT waiting_max) w)
       = waiting_max THEN
        PERFORM dispatcher.refuse_v1(format('run %s has %s events waiting already', p_run_id, waiting_max),
            dispatcher.fault_v1('$.event', format('%s events are waiting already', waiting_max)), '54000');
    END IF;
    INSERT INTO dispatcher.signals (run_id, name, actor, data)
    VALUES (p_run_id, p_event, coalesce(nullif(p_actor, ''), session_user), p_data);
    PERFORM dispatcher.wake_run_v1(p_run_id);
    RETURN 'accepted';
END $$;

CREATE FUNCTION dispatcher.signal_run(
    run_id bigint, event text, data jsonb DEFAULT '{}', tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default', actor text DEFAULT session_user
) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.signal_run_v1(run_id, event, data, tenant_id, workspace_id, actor)
$$;

-- Skip what a run has queued and not marked. The run is locked: nothing is added meanwhile. What is marked stays locked until
-- the end of the run is committed, and is then not made ready again.
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
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.runs := dispatcher.lock_run_v1(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    UPDATE dispatcher.runs
       SET status = 'cancelled', available_at = NULL, paused_at = NULL, finished_at = statement_timestamp(),
           note = concat_ws(': ', 'cancelled by ' || actor, nullif(p_reason, ''))
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run_v1(p_run_id, 'cancelled', actor, p_reason);
    PERFORM dispatcher.cancel_deliveries_of_v1(p_run_id, actor, 'its run was cancelled');
    PERFORM dispatcher.resume_v1('run', p_run_id::text, actor);
    RETURN 'cancelled';
END $$;

CREATE FUNCTION dispatcher.cancel_run(
    run_id bigint, reason text DEFAULT '', tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default',
    actor text DEFAULT session_user
) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.cancel_run_v1(run_id, reason, tenant_id, workspace_id, actor)
$$;

-- Pause a run: it goes no further, and what it has queued waits. Answers done, same, unknown, or the status that it has
-- ended with.
CREATE FUNCTION dispatcher.pause_run_v1(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.runs := dispatcher.lock_run_v1(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.finished_at IS NOT NULL THEN RETURN run.status; END IF;
    IF run.status = 'paused' THEN RETURN 'same'; END IF;
    UPDATE dispatcher.runs
       SET status = 'paused', available_at = NULL, paused_at = statement_timestamp(),
           note = concat_ws(': ', 'paused by ' || actor, nullif(p_reason, ''))
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run_v1(p_run_id, 'paused', actor, p_reason);
    PERFORM dispatcher.pause_v1('run', p_run_id::text, actor, coalesce(p_reason, ''));
    RETURN 'done';
END $$;

-- Let a paused run go on. The time of the pause does not count as work.
CREATE FUNCTION dispatcher.resume_run_v1(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.runs := dispatcher.lock_run_v1(p_run_id, p_tenant_id, p_workspace_id);
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
    PERFORM dispatcher.note_run_v1(p_run_id, 'resumed', actor, p_reason);
    PERFORM dispatcher.resume_v1('run', p_run_id::text, actor);
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
    RETURN 'done';
END $$;

-- Replay a failed run from where it failed: its failed deliveries are sent again, and so is what was skipped because of
-- it; what was sent stays sent. Where it goes on from is for the walk that has failed to say: it has left the cursor so.
-- Answers replayed, unknown, or what it is.
CREATE FUNCTION dispatcher.replay_run_v1(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.runs := dispatcher.lock_run_v1(p_run_id, p_tenant_id, p_workspace_id);
    one   bigint;
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.status <> 'failed' THEN RETURN run.status; END IF;
    UPDATE dispatcher.runs
       SET status = 'running', available_at = statement_timestamp(), finished_at = NULL, dead = false, error = NULL,
           error_node = NULL, note = NULL, discarded_at = NULL, takes = 0, retries = least(retries + 1, 32767),
           state = state - 'worked_seconds' - 'working_since'
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run_v1(p_run_id, 'replayed', actor, p_reason);
    FOR one IN
        SELECT d.id FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
         WHERE d.run_id = p_run_id AND run.state -> 'cursor' ? d.node
           AND (s.status = 'failed' OR s.status = 'skipped' AND s.error LIKE 'cancelled: its run %')
         ORDER BY d.id
    LOOP
        PERFORM dispatcher.reopen_delivery_v1(one, actor, coalesce(p_reason, ''));
    END LOOP;
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
    RETURN 'replayed';
END $$;

-- A run that cannot be walked is a dead letter. The run is locked.
CREATE FUNCTION dispatcher.bury_run_v1(p_run_id bigint, p_error text, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE dispatcher.runs SET status = 'failed', dead = true, finished_at = statement_timestamp(), available_at = NULL,
           error = p_error, error_node = NULL
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run_v1(p_run_id, 'failed', 'dispatcher', p_reason);
    PERFORM dispatcher.cancel_deliveries_of_v1(p_run_id, 'dispatcher', 'its run has failed');
END $$;

-- Discard a failed run, or a failed delivery that belongs to none: it is no dead letter any more, and stays what it is.
CREATE FUNCTION dispatcher.discard_run_v1(
    p_run_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    run   dispatcher.runs := dispatcher.lock_run_v1(p_run_id, p_tenant_id, p_workspace_id);
BEGIN
    IF run.id IS NULL THEN RETURN 'unknown'; END IF;
    IF run.status <> 'failed' THEN RETURN run.status; END IF;
    IF NOT run.dead THEN RETURN 'same'; END IF;
    UPDATE dispatcher.runs SET dead = false, discarded_at = statement_timestamp(),
           note = concat_ws(': ', 'discarded by ' || actor, nullif(p_reason, ''))
     WHERE id = p_run_id;
    PERFORM dispatcher.note_run_v1(p_run_id, 'discarded', actor, p_reason);
    RETURN 'discarded';
END $$;

ALTER TABLE dispatcher.operator_actions DROP CONSTRAINT operator_actions_action_check;
ALTER TABLE dispatcher.operator_actions ADD CONSTRAINT operator_actions_action_check CHECK (action IN
    ('cancel', 'move', 'reopen', 'discard', 'settle_sent', 'settle_failed', 'settle_requeue', 'quarantine'));

-- The answers are discarded, same, unknown, or what it is: failed is one that belongs to a run.
CREATE FUNCTION dispatcher.discard_delivery_v1(
    p_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
BEGIN
    IF NOT EXISTS (SELECT FROM dispatcher.deliveries d
                    WHERE d.id = p_id AND d.tenant_id = coalesce(p_tenant_id, 'default')
                      AND d.workspace_id = coalesce(p_workspace_id, 'default')) THEN
        RETURN 'unknown';
    END IF;
    UPDATE dispatcher.dead_deliveries SET discarded_at = statement_timestamp(),
           note = concat_ws(': ', 'discarded by ' || actor, nullif(p_reason, ''))
     WHERE delivery_id = p_id AND discarded_at IS NULL;
    IF FOUND THEN
        -- Kept here as well: the list forgets what is sent again.
        INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
        VALUES (p_id, actor, 'discard', 'failed', coalesce(p_reason, ''));
        RETURN 'discarded';
    END IF;
    RETURN coalesce((SELECT CASE WHEN l.delivery_id IS NOT NULL THEN 'same' ELSE s.status END
                       FROM dispatcher.delivery_state s LEFT JOIN dispatcher.dead_deliveries l ON l.delivery_id = s.id
                      WHERE s.id = p_id), 'unknown');
END $$;


-- What became of a run's deliveries: as long as one is held, the run stays open.
CREATE VIEW dispatcher.run_deliveries AS
SELECT d.run_id, count(*) AS deliveries,
       count(*) FILTER (WHERE s.status = 'queued' AND NOT s.held) AS queued,
       count(*) FILTER (WHERE s.held) AS held,
       count(*) FILTER (WHERE s.status IN ('sent', 'called', 'posted')) AS sent,
       count(*) FILTER (WHERE s.status = 'failed') AS failed,
       count(*) FILTER (WHERE s.status = 'skipped') AS skipped,
       min(s.held_at) FILTER (WHERE s.held) AS held_since
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
 WHERE d.run_id IS NOT NULL AND d.node IS NOT NULL
 GROUP BY d.run_id;
COMMENT ON VIEW dispatcher.run_deliveries IS 'of each run how many deliveries it has ordered, and where they stand';

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

-- The log of a run, with the retries of its deliveries between the lines of its nodes.
CREATE VIEW dispatcher.run_log AS
SELECT e.run_id, e.at, e.number, e.step, e.node, e.event, e.context, e.added, e.error, NULL::bigint AS delivery_id,
       NULL::smallint AS attempt
  FROM dispatcher.run_entries e
UNION ALL
SELECT d.run_id, a.ended_at, NULL, NULL, d.node, 'retry', NULL, NULL, a.reason, d.id, a.attempt
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_attempts a ON a.delivery_id = d.id
 WHERE d.node IS NOT NULL AND a.next_at IS NOT NULL;

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


REVOKE ALL ON FUNCTION dispatcher.refuse_v1, dispatcher.fault_v1, dispatcher.object_faults_v1, dispatcher.has_path_v1,
    dispatcher.path_steps_v1, dispatcher.put_workflow_v1, dispatcher.set_workflow_active_v1,
    dispatcher.delete_workflow_v1, dispatcher.input_faults_v1, dispatcher.faults_in_words_v1, dispatcher.input_words_v1,
    dispatcher.trigger_workflow_v1, dispatcher.trigger_workflow, dispatcher.parts_fault_v1, dispatcher.delivery_faults_v1,
    dispatcher.enqueue_delivery_v1, dispatcher.enqueue_delivery, dispatcher.lock_run_v1, dispatcher.note_run_v1,
    dispatcher.signal_run_v1, dispatcher.signal_run, dispatcher.cancel_deliveries_of_v1, dispatcher.cancel_run_v1,
    dispatcher.cancel_run, dispatcher.pause_run_v1, dispatcher.resume_run_v1, dispatcher.replay_run_v1,
    dispatcher.bury_run_v1, dispatcher.discard_run_v1, dispatcher.discard_delivery_v1 FROM PUBLIC;
-- It would tell anybody which templates there are.
REVOKE ALL ON FUNCTION dispatcher.template_fault_v1 FROM PUBLIC;
