-- Keys that are looked up one by one, and so by the whole of their index.
--
-- What was wrong
--   Before Postgres 17 a list of keys is either a condition of the index or a filter behind it, and where nobody has counted
--   the rows yet the second looks as good: each call read all runs of its workflow, or all deliveries of its workspace. What
--   writes thousands in one transaction is never counted meanwhile: of 8,000 triggers each took 4 ms, and of more each more.
--
-- How it is right
--   A key at a time is a condition of the index, for any planner: first the key itself, and where that is there after all and is
--   not found, what an erasure leaves of it. (A list that is taken apart, in a join that begins with it, would be planned anew at
--   each call: 0.1 ms.)

CREATE OR REPLACE FUNCTION dispatcher.trigger_workflow_v1(
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
    hash      text;
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
            IF NOT FOUND AND hash IS NOT NULL THEN
                SELECT r.id, v.number, v.total_steps, true INTO execution_id, version, total_steps, duplicate
                  FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id
                 WHERE r.tenant_id = tenant AND r.workspace_id = workspace AND r.workflow = p_workflow
                   AND r.idempotency_key = hash;
            END IF;
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
        hash := dispatcher.erased_v1(p_idempotency_key);
    END LOOP;
    version := used.number;
    total_steps := used.total_steps;
    duplicate := false;
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
END $$;

CREATE OR REPLACE FUNCTION dispatcher.enqueue_delivery_v1(
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
    hash      text;
BEGIN
    LOOP
        SELECT d.id, true, s.status INTO delivery_id, duplicate, status
          FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
         WHERE d.tenant_id = tenant AND d.workspace_id = workspace AND d.idempotency_key = p_idempotency_key;
        IF NOT FOUND AND hash IS NOT NULL THEN
            SELECT d.id, true, s.status INTO delivery_id, duplicate, status
              FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
             WHERE d.tenant_id = tenant AND d.workspace_id = workspace AND d.idempotency_key = hash;
        END IF;
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
        hash := dispatcher.erased_v1(p_idempotency_key);
    END LOOP;
    duplicate := false;
    SELECT s.status INTO status FROM dispatcher.delivery_state s WHERE s.id = delivery_id;
END $$;
