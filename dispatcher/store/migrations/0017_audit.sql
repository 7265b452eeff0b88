-- What was done by whom is read backwards in time: of each kind the newest, without what came before.

CREATE INDEX operator_actions_by_time ON dispatcher.operator_actions (at, id);
CREATE INDEX workflow_actions_by_time ON dispatcher.workflow_actions (at, id);
CREATE INDEX template_versions_by_time ON dispatcher.template_versions (created_at, id);
CREATE INDEX template_publications_by_time ON dispatcher.template_publications (at, id);
CREATE INDEX api_key_actions_by_time ON dispatcher.api_key_actions (at, id);
CREATE INDEX schedule_actions_by_time ON dispatcher.schedule_actions (at, id);
CREATE INDEX suppression_log_by_time ON dispatcher.suppression_log (tenant_id, at, id);
-- Of what is in the logs of runs, what people did.
CREATE INDEX run_entries_by_people ON dispatcher.run_entries (at, run_id)
    WHERE event IN ('paused', 'resumed', 'cancelled', 'replayed', 'discarded');
CREATE INDEX pauses_by_time ON dispatcher.pauses (since, id);
CREATE INDEX pauses_by_end ON dispatcher.pauses (ended_at, id) WHERE ended_at IS NOT NULL;


-- What requests do with schedules and files, and see of what was done.
DROP POLICY tenant ON dispatcher.schedule_actions;
-- By what it said: a schedule that was deleted has no row any more.
CREATE POLICY tenant ON dispatcher.schedule_actions AS RESTRICTIVE TO dispatcher_tenant
    USING (said ->> 'tenant_id' = nullif(current_setting('dispatcher.tenant', true), '')
       AND said ->> 'workspace_id' = nullif(current_setting('dispatcher.workspace', true), ''));
GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.schedules, dispatcher.objects TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.schedule_actions TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.put_schedule_v1, dispatcher.set_schedule_active_v1, dispatcher.delete_schedule_v1,
    dispatcher.note_schedule_v1, dispatcher.schedule_fault_v1, dispatcher.trigger_schedule_v1, dispatcher.refuse_v1,
    dispatcher.put_object_v1, dispatcher.erase_object_v1
    TO dispatcher_tenant;

-- As before, by the door that a request may take: whoever looks at a schedule is told whether its tick would be refused.
CREATE OR REPLACE FUNCTION dispatcher.trigger_schedule_v1(
    p_held dispatcher.schedules, p_tick timestamptz, p_key text, OUT run_id bigint, OUT refusal text
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT t.execution_id INTO run_id
      FROM dispatcher.trigger_workflow_v2(
               p_held.workflow, jsonb_build_object('scheduled_for', dispatcher.tick_text_v1(p_tick)) || p_held.input, p_key,
               p_held.tenant_id, p_held.workspace_id, 'schedule:' || p_held.name) AS t;
EXCEPTION WHEN OTHERS THEN
    -- Connections, transactions to be tried again, resources, somebody's intervention, the server's own errors.
    IF left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58', 'XX') AND SQLSTATE <> '55000' THEN RAISE; END IF;
    refusal := left(SQLERRM, 1000);
END $$;
