-- Functions that run with their owner's rights do nothing for another workspace than the one that their caller is bound to;
-- whoever may insert into channel_outbox needs nothing else; deliveries are not truncated.
--
-- What was wrong
--   signal_run_v1, pause_run_v1 and the like took the workspace from their arguments: a transaction of dispatcher_tenant that was
--   bound to one workspace could name another one and reach its runs. No statement did; nothing but the statements kept them.
--   And whoever may name a trigger function may put it on a table of its own, where it says itself which rows were deleted.
--   An INSERT into the view needed rights on the table, its states and its sequence, with which one can do much more.
--   TRUNCATE of deliveries fired no trigger: their states stayed behind.
--
-- How it is right
--   Each of them begins with stay_within_v1, or locks or finds its row by a function that does. What only they call has its
--   caller's rights. No function with its owner's rights is everybody's. The view writes with the rights of its owner, and
--   numbers its rows itself, since a default is computed with the rights of who inserts.

-- The run of an id, locked; of another tenant or workspace it is unknown.
CREATE OR REPLACE FUNCTION dispatcher.lock_run_v1(p_run_id bigint, p_tenant_id text, p_workspace_id text)
RETURNS dispatcher.runs
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dispatcher.runs;
BEGIN
    PERFORM dispatcher.stay_within_v1(coalesce(p_tenant_id, 'default'), coalesce(p_workspace_id, 'default'));
    SELECT r.* INTO run FROM dispatcher.runs r
     WHERE r.id = p_run_id AND r.tenant_id = coalesce(p_tenant_id, 'default')
       AND r.workspace_id = coalesce(p_workspace_id, 'default')
       FOR UPDATE;
    RETURN run;
END $$;

-- Send an event to a run. It is kept until a node takes it, also one that the run has not come to yet. Answers accepted,
-- unknown, or the status that the run has ended with.
CREATE OR REPLACE FUNCTION dispatcher.signal_run_v1(
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
    PERFORM dispatcher.stay_within_v1(coalesce(p_tenant_id, 'default'), coalesce(p_workspace_id, 'default'));
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

-- Discard a failed delivery that belongs to no run: it is no dead letter any more, and stays what it is. Answers discarded,
-- same, unknown, or what it is: failed is one that belongs to a run.
CREATE OR REPLACE FUNCTION dispatcher.discard_delivery_v1(
    p_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
BEGIN
    PERFORM dispatcher.stay_within_v1(coalesce(p_tenant_id, 'default'), coalesce(p_workspace_id, 'default'));
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

-- The delivery of an id or a key, or of both where they agree.
CREATE OR REPLACE FUNCTION dispatcher.find_delivery_v1(
    p_delivery_id bigint, p_idempotency_key text, p_tenant_id text, p_workspace_id text
) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within_v1(coalesce(p_tenant_id, 'default'), coalesce(p_workspace_id, 'default'));
    IF p_delivery_id IS NULL AND p_idempotency_key IS NULL THEN
        PERFORM dispatcher.refuse_v1('delivery_id: expected the id of a delivery, or its idempotency_key',
            dispatcher.fault_v1('$.delivery_id', 'expected the id of a delivery, or its idempotency_key'));
    END IF;
    IF p_delivery_id IS NULL THEN
        RETURN (SELECT d.id FROM dispatcher.deliveries d
                 WHERE d.tenant_id = coalesce(p_tenant_id, 'default') AND d.workspace_id = coalesce(p_workspace_id, 'default')
                   AND d.idempotency_key = p_idempotency_key);
    END IF;
    RETURN (SELECT d.id FROM dispatcher.deliveries d
             WHERE d.id = p_delivery_id AND d.tenant_id = coalesce(p_tenant_id, 'default')
               AND d.workspace_id = coalesce(p_workspace_id, 'default')
               AND (p_idempotency_key IS NULL OR d.idempotency_key = p_idempotency_key));
END $$;

CREATE OR REPLACE FUNCTION dispatcher.trigger_workflow(
    workflow text, input jsonb DEFAULT '{}', idempotency_key text DEFAULT NULL, tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default', triggered_by text DEFAULT session_user, correlation_id text DEFAULT NULL,
    OUT execution_id bigint, OUT workflow_name text, OUT version integer, OUT status text, OUT total_steps integer,
    OUT duplicate boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within_v1(coalesce(tenant_id, 'default'), coalesce(workspace_id, 'default'));
    IF idempotency_key <> correlation_id THEN
        PERFORM dispatcher.refuse_v1('idempotency_key and correlation_id are one thing, and differ',
            '[{"path": "$.correlation_id", "words": "another name for idempotency_key: give one of them"}]');
    END IF;
    SELECT t.execution_id, t.workflow_name, t.version, t.status, t.total_steps, t.duplicate
      INTO execution_id, workflow_name, version, status, total_steps, duplicate
      FROM dispatcher.trigger_workflow_v1(workflow, input, coalesce(idempotency_key, correlation_id), tenant_id,
                                          workspace_id, triggered_by) AS t;
END $$;

CREATE OR REPLACE FUNCTION dispatcher.enqueue_delivery(
    channel text, recipient text, idempotency_key text, template jsonb DEFAULT NULL, template_name text DEFAULT NULL,
    variables jsonb DEFAULT '{}', options jsonb DEFAULT '{}', lane text DEFAULT 'normal',
    scheduled_for timestamptz DEFAULT NULL, expires_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 5,
    locale text DEFAULT NULL, topic text DEFAULT NULL, tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default', OUT delivery_id bigint, OUT duplicate boolean, OUT status text
)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.stay_within_v1(coalesce(tenant_id, 'default'), coalesce(workspace_id, 'default'));
    SELECT * FROM dispatcher.enqueue_delivery_v1(channel, recipient, idempotency_key, template, template_name, variables,
        options, lane, scheduled_for, expires_at, max_attempts, locale, topic, tenant_id, workspace_id)
$$;

-- Where a run stands; no row where there is none.
CREATE OR REPLACE FUNCTION dispatcher.run_status(
    run_id bigint, tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default'
) RETURNS TABLE (
    execution_id bigint, workflow_name text, version integer, status text, current_steps text[], total_steps integer,
    idempotency_key text, triggered_by text, retry_count integer, error text, error_step text, note text, input jsonb,
    context jsonb, held bigint, deliveries_total bigint, available_at timestamptz, created_at timestamptz,
    started_at timestamptz, finished_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.stay_within_v1(coalesce(tenant_id, 'default'), coalesce(workspace_id, 'default'));
    SELECT * FROM dispatcher.run_status_v1(run_id, tenant_id, workspace_id)
$$;

-- What only those above call, or triggers with their owner's rights.
ALTER FUNCTION dispatcher.trigger_workflow_v1 SECURITY INVOKER;
ALTER FUNCTION dispatcher.enqueue_delivery_v1 SECURITY INVOKER;
ALTER FUNCTION dispatcher.run_status_v1 SECURITY INVOKER;
ALTER FUNCTION dispatcher.delivery_status_v1 SECURITY INVOKER;
ALTER FUNCTION dispatcher.cancel_delivery_v2 SECURITY INVOKER;
ALTER FUNCTION dispatcher.template_fault_v1 SECURITY INVOKER;

REVOKE ALL ON FUNCTION dispatcher.deliveries_become_due_v1, dispatcher.deliveries_become_due_v2, dispatcher.deliveries_freeze_v1,
    dispatcher.deliveries_go_whole_v1, dispatcher.deliveries_without_template_v1, dispatcher.preferences_changed_v1,
    dispatcher.receipts_go_too_v1, dispatcher.states_wait_v1, dispatcher.suppressions_added_v1,
    dispatcher.suppressions_released_v1 FROM PUBLIC;

-- The end of a delivery that a node has ordered moves its run on, whoever's that is: a request writes none.
CREATE POLICY ordered_by_no_node ON dispatcher.deliveries AS RESTRICTIVE FOR INSERT TO dispatcher_tenant WITH CHECK (node IS NULL);


-- Through the view a row is queued, or it is skipped from the start: with its reason in error, and never sent. What has no
-- template is born failed, whatever else was asked for.
CREATE FUNCTION dispatcher.channel_outbox_insert_v3() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within_v1(NEW.tenant_id, NEW.workspace_id);
    IF NEW.status IS NULL OR NEW.status NOT IN ('queued', 'sent', 'called', 'posted', 'failed', 'skipped') THEN
        RAISE EXCEPTION 'unknown status %', coalesce(quote_literal(NEW.status), 'null')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'delivery_state_status_known', COLUMN = 'status';
    END IF;
    IF NEW.skipped AND NEW.status <> 'skipped' THEN
        RAISE EXCEPTION 'skipped is true and status is %, not skipped', quote_literal(NEW.status)
            USING ERRCODE = 'check_violation', CONSTRAINT = 'skipped_means_skipped', COLUMN = 'skipped';
    END IF;
    IF NEW.status NOT IN ('queued', 'skipped') THEN
        RAISE EXCEPTION 'a delivery is born queued or skipped, not %', NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'born_queued_or_skipped', COLUMN = 'status';
    END IF;
    IF NEW.created_at <> now() THEN
        RAISE EXCEPTION 'created_at is the time of the transaction, and cannot be given'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'created_by_its_transaction', COLUMN = 'created_at',
                  HINT = 'Leave it out. What comes out of a backup goes into dispatcher.deliveries, and is held there.';
    END IF;
    NEW.id := coalesce(NEW.id, nextval('dispatcher.deliveries_id_seq'));
    NEW.scheduled_for := coalesce(NEW.scheduled_for, NEW.run_at, now());
    INSERT INTO dispatcher.deliveries (id, tenant_id, workspace_id, run_id, job_id, channel, lane, recipient, template,
        variables, options, idempotency_key, max_attempts, scheduled_for, expires_at, created_at, template_name,
        template_version, locale)
    VALUES (NEW.id, NEW.tenant_id, NEW.workspace_id, NEW.run_id, NEW.job_id, NEW.channel, NEW.lane, NEW.recipient,
        NEW.template, NEW.variables, NEW.options, NEW.idempotency_key, NEW.max_attempts, NEW.scheduled_for,
        NEW.expires_at, NEW.created_at, NEW.template_name, NEW.template_version, NEW.locale)
    RETURNING template_version, locale INTO NEW.template_version, NEW.locale;
    IF NEW.template IS NULL AND NEW.template_version IS NULL THEN
        SELECT s.status, s.finished_at, s.error INTO NEW.status, NEW.finished_at, NEW.error
          FROM dispatcher.delivery_state s WHERE s.id = NEW.id;
    ELSIF NEW.status = 'skipped' THEN
        NEW.finished_at := statement_timestamp();
        UPDATE dispatcher.delivery_state
           SET status = 'skipped', ready = false, finished_at = NEW.finished_at, error = NEW.error WHERE id = NEW.id;
    ELSIF NEW.run_at IS DISTINCT FROM NEW.scheduled_for AND NEW.run_at IS NOT NULL THEN
        UPDATE dispatcher.delivery_state SET run_at = NEW.run_at WHERE id = NEW.id;
    END IF;
    NEW.run_at := coalesce(NEW.run_at, NEW.scheduled_for);
    NEW.skipped := NEW.status = 'skipped';
    NEW.attempts := 0;
    RETURN NEW;
END $$;

DROP TRIGGER channel_outbox_insert ON dispatcher.channel_outbox;
CREATE TRIGGER channel_outbox_insert INSTEAD OF INSERT ON dispatcher.channel_outbox
    FOR EACH ROW EXECUTE FUNCTION dispatcher.channel_outbox_insert_v3();
ALTER VIEW dispatcher.channel_outbox ALTER COLUMN id DROP DEFAULT;
DROP FUNCTION dispatcher.channel_outbox_insert_v1, dispatcher.channel_outbox_insert_v2;
REVOKE ALL ON FUNCTION dispatcher.channel_outbox_insert_v3 FROM PUBLIC;

-- A DELETE takes along what belongs to a delivery, and leaves alone what is not finished; TRUNCATE could do neither.
CREATE FUNCTION dispatcher.deliveries_are_deleted_v1() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'deliveries are not truncated, since where they stand would stay behind: DELETE FROM dispatcher.deliveries instead'
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Cancel those first that are not finished.';
END $$;

CREATE TRIGGER deliveries_are_deleted BEFORE TRUNCATE ON dispatcher.deliveries
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.deliveries_are_deleted_v1();
REVOKE ALL ON FUNCTION dispatcher.deliveries_are_deleted_v1 FROM PUBLIC;
