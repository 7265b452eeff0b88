-- Row security: whoever comes through the HTTP door sees the rows of one workspace, whatever a statement forgets to say.
--
-- How it works
--   A request runs in one transaction that begins as the role dispatcher_tenant, which owns nothing, and says for which
--   tenant and workspace it is: in the settings dispatcher.tenant and dispatcher.workspace. Of the tables on which that
--   role has any right it sees, and writes, the rows of this workspace; without the settings none.
--   Everybody else goes on as before: the owner of the tables, who is the dispatcher itself and its command line, is not
--   subject to it, and roles of applications are let through by a policy of their own.
--
-- A table that comes later is isolated by one call, before anything of it is granted to dispatcher_tenant:
--   CALL dispatcher.isolate_v1('dispatcher.contacts');                                  -- has tenant_id (and workspace_id)
--   CALL dispatcher.isolate_v1('dispatcher.contact_events', 'contact_id', 'dispatcher.contacts');  -- belongs to a row that has
--
-- What passes by
--   A function that is SECURITY DEFINER runs as the owner. What the door calls of these is either called for a row that is
--   visible (SELECT dispatcher.pause_run_v1(id, ...) FROM dispatcher.runs WHERE id = $1), or asks stay_within_v1 first.
--   A view reads as its owner, unless it is made WITH (security_invoker = true): dispatcher_tenant is granted no other.
--
-- The role belongs to all databases of a server: `dispatcher migrate` makes it, where it is not there, before it comes here.

-- Let dispatcher_tenant see of a table what is its workspace's: by its columns tenant_id and workspace_id (of a table
-- without the second by the first alone), or by a column that leads to the row of another table that is isolated itself.
CREATE PROCEDURE dispatcher.isolate_v1(p_table regclass, p_column name DEFAULT NULL, p_parent regclass DEFAULT NULL)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    by_workspace CONSTANT boolean := EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = p_table AND a.attname = 'workspace_id' AND NOT a.attisdropped);
    condition text := 'tenant_id = nullif(current_setting(''dispatcher.tenant'', true), '''')';
BEGIN
    IF p_column IS NOT NULL THEN
        -- Not EXISTS, of which Postgres may make one look at the whole parent.
        condition := format('(SELECT p.id FROM %s p WHERE p.id = %s.%I) IS NOT NULL', p_parent, p_table, p_column);
    ELSIF by_workspace THEN
        condition := condition || ' AND workspace_id = nullif(current_setting(''dispatcher.workspace'', true), '''')';
    END IF;
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', p_table);
    EXECUTE format('CREATE POLICY everybody ON %s USING (true) WITH CHECK (true)', p_table);
    EXECUTE format('CREATE POLICY tenant ON %s AS RESTRICTIVE TO dispatcher_tenant USING (%s)', p_table, condition);
END $$;

-- Raise where the transaction is bound to another workspace, or to none though it should be. For functions that run as the
-- owner and take a workspace as an argument.
CREATE FUNCTION dispatcher.stay_within_v1(p_tenant_id text, p_workspace_id text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- `current_user` is the owner by now; the setting says who has called.
    IF current_setting('role') = 'dispatcher_tenant' AND (p_tenant_id, p_workspace_id) IS DISTINCT FROM (
        nullif(current_setting('dispatcher.tenant', true), ''), nullif(current_setting('dispatcher.workspace', true), ''))
    THEN
        RAISE EXCEPTION 'this transaction is bound to another workspace' USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- As before; from within a workspace nothing is triggered in another one.
CREATE FUNCTION dispatcher.trigger_workflow_v2(
    p_workflow text, p_input jsonb, p_idempotency_key text, p_tenant_id text, p_workspace_id text, p_triggered_by text,
    OUT execution_id bigint, OUT workflow_name text, OUT version integer, OUT status text, OUT total_steps integer,
    OUT duplicate boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within_v1(p_tenant_id, p_workspace_id);
    SELECT t.execution_id, t.workflow_name, t.version, t.status, t.total_steps, t.duplicate
      INTO execution_id, workflow_name, version, status, total_steps, duplicate
      FROM dispatcher.trigger_workflow_v1(p_workflow, p_input, p_idempotency_key, p_tenant_id, p_workspace_id,
                                          p_triggered_by) AS t;
END $$;

-- As before; from within a workspace nothing is said about the templates of another one.
CREATE FUNCTION dispatcher.template_fault_v2(p_tenant_id text, p_workspace_id text, p_name text, p_channel text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within_v1(p_tenant_id, p_workspace_id);
    RETURN dispatcher.template_fault_v1(p_tenant_id, p_workspace_id, p_name, p_channel);
END $$;

REVOKE ALL ON PROCEDURE dispatcher.isolate_v1 FROM PUBLIC;
REVOKE ALL ON FUNCTION dispatcher.stay_within_v1, dispatcher.trigger_workflow_v2, dispatcher.template_fault_v2 FROM PUBLIC;


-- As before, with the rights of whoever asks, and without who has claimed it.
CREATE VIEW dispatcher.delivery_life_v2 WITH (security_invoker = true) AS
SELECT s.id, d.tenant_id, d.workspace_id, d.idempotency_key, s.channel, s.lane, d.recipient, s.status,
       CASE WHEN s.status <> 'queued' THEN s.status
            WHEN s.held THEN 'held'
            WHEN s.marked THEN 'sending'
            WHEN s.token IS NOT NULL THEN 'claimed'
            WHEN s.ready THEN 'pending'
            ELSE 'parked' END AS life,
       s.run_at, s.attempt, d.max_attempts, s.recoveries, s.error, s.provider_message_id, s.finished_at
  FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id);

-- As before, with the rights of whoever asks.
CREATE VIEW dispatcher.dead_letters_v2 WITH (security_invoker = true) AS
SELECT 'run' AS kind, r.id, r.tenant_id, r.workspace_id, r.workflow AS name, r.error_node AS node, NULL AS channel,
       NULL AS recipient, r.idempotency_key, r.error, r.created_at, r.finished_at AS failed_at, r.retries
  FROM dispatcher.runs r WHERE r.dead
UNION ALL
SELECT 'delivery', d.id, d.tenant_id, d.workspace_id, d.template_name, NULL, d.channel, d.recipient, d.idempotency_key,
       s.error, d.created_at, s.finished_at, (SELECT count(*) FROM dispatcher.reopened_ends e WHERE e.delivery_id = d.id)::smallint
  FROM dispatcher.dead_deliveries l JOIN dispatcher.deliveries d ON d.id = l.delivery_id
  JOIN dispatcher.delivery_state s ON s.id = l.delivery_id
 WHERE l.discarded_at IS NULL;


-- What has a tenant and a workspace of its own, or a tenant alone.
CALL dispatcher.isolate_v1('dispatcher.deliveries');
CALL dispatcher.isolate_v1('dispatcher.captured_messages');
CALL dispatcher.isolate_v1('dispatcher.templates');
CALL dispatcher.isolate_v1('dispatcher.suppressions');
CALL dispatcher.isolate_v1('dispatcher.topic_preferences');
CALL dispatcher.isolate_v1('dispatcher.suppression_log');
CALL dispatcher.isolate_v1('dispatcher.objects');
CALL dispatcher.isolate_v1('dispatcher.workflows');
CALL dispatcher.isolate_v1('dispatcher.runs');
CALL dispatcher.isolate_v1('dispatcher.schedules');
CALL dispatcher.isolate_v1('dispatcher.api_keys');
CALL dispatcher.isolate_v1('dispatcher.api_answers');

-- What belongs to one of these.
CALL dispatcher.isolate_v1('dispatcher.delivery_state', 'id', 'dispatcher.deliveries');
CALL dispatcher.isolate_v1('dispatcher.delivery_attempts', 'delivery_id', 'dispatcher.deliveries');
CALL dispatcher.isolate_v1('dispatcher.delivery_evidence', 'delivery_id', 'dispatcher.deliveries');
CALL dispatcher.isolate_v1('dispatcher.delivery_receipts', 'delivery_id', 'dispatcher.deliveries');
CALL dispatcher.isolate_v1('dispatcher.reopened_ends', 'delivery_id', 'dispatcher.deliveries');
CALL dispatcher.isolate_v1('dispatcher.operator_actions', 'delivery_id', 'dispatcher.deliveries');
CALL dispatcher.isolate_v1('dispatcher.dead_deliveries', 'delivery_id', 'dispatcher.deliveries');
CALL dispatcher.isolate_v1('dispatcher.template_versions', 'template_id', 'dispatcher.templates');
CALL dispatcher.isolate_v1('dispatcher.template_publications', 'template_id', 'dispatcher.templates');
CALL dispatcher.isolate_v1('dispatcher.plan_versions', 'workflow_id', 'dispatcher.workflows');
CALL dispatcher.isolate_v1('dispatcher.workflow_actions', 'workflow_id', 'dispatcher.workflows');
CALL dispatcher.isolate_v1('dispatcher.run_entries', 'run_id', 'dispatcher.runs');
CALL dispatcher.isolate_v1('dispatcher.schedule_actions', 'schedule_id', 'dispatcher.schedules');
CALL dispatcher.isolate_v1('dispatcher.api_secrets', 'key_id', 'dispatcher.api_keys');
CALL dispatcher.isolate_v1('dispatcher.api_key_actions', 'key_id', 'dispatcher.api_keys');

-- What the door does with them.
GRANT USAGE ON SCHEMA dispatcher TO dispatcher_tenant;
GRANT SELECT ON dispatcher.delivery_life_v2, dispatcher.dead_letters_v2,
    dispatcher.delivery_attempts, dispatcher.delivery_evidence, dispatcher.delivery_receipts, dispatcher.captured_messages,
    dispatcher.run_entries, dispatcher.suppression_log
    TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.deliveries, dispatcher.operator_actions, dispatcher.delivery_attempts,
    dispatcher.reopened_ends, dispatcher.template_versions, dispatcher.template_publications, dispatcher.plan_versions,
    dispatcher.workflow_actions, dispatcher.api_key_actions
    TO dispatcher_tenant;
GRANT SELECT, UPDATE ON dispatcher.delivery_state TO dispatcher_tenant;
GRANT SELECT, INSERT, UPDATE ON dispatcher.dead_deliveries, dispatcher.templates, dispatcher.workflows,
    dispatcher.api_keys, dispatcher.api_answers
    TO dispatcher_tenant;
GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.suppressions, dispatcher.topic_preferences, dispatcher.api_secrets
    TO dispatcher_tenant;
-- To lock them: what is written is written by functions of the owner's.
GRANT SELECT, UPDATE (id) ON dispatcher.runs TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.trigger_workflow_v2, dispatcher.template_fault_v2,
    dispatcher.pause_run_v1, dispatcher.resume_run_v1, dispatcher.cancel_run_v1, dispatcher.replay_run_v1,
    dispatcher.discard_run_v1, dispatcher.signal_run_v1, dispatcher.discard_delivery_v1,
    dispatcher.put_workflow_v1, dispatcher.set_workflow_active_v1, dispatcher.delete_workflow_v1,
    dispatcher.create_api_key_v1, dispatcher.rotate_api_key_v1, dispatcher.revoke_api_key_v1
    TO dispatcher_tenant;
