-- Triggers that arrive together are written together.
--
-- New in the map
--   trigger_workflows_v1  trigger_workflow_v1 for many callers at once: one look at the workflow, one INSERT, one commit
--
-- Each of them is answered as if it had come alone.

-- Start runs of one workflow, or find those that their keys have started already. One row each, in no order: its place among
-- those that were asked for, and the run, or how it is refused.
CREATE FUNCTION dispatcher.trigger_workflows_v1(
    p_tenant_id text, p_workspace_id text, p_workflow text, p_inputs text[], p_keys text[], p_triggered_by text[]
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
    SELECT w.* INTO held FROM dispatcher.workflows w
     WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_workflow AND w.deleted_at IS NULL;
    IF FOUND THEN
        -- Against a deletion, as for one alone.
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('dispatcher.workflow', held.id));
        SELECT w.* INTO held FROM dispatcher.workflows w WHERE w.id = held.id AND w.deleted_at IS NULL;
    END IF;
    IF held.active THEN
        SELECT v.* INTO used FROM dispatcher.plan_versions v WHERE v.id = held.current;
        -- In the order of their keys: who inserts the same keys at the same time waits for us, and we not for them.
        FOR fresh IN
            WITH asked AS MATERIALIZED (
                SELECT a.place, a.key, a.actor, a.input::jsonb AS input, nextval('dispatcher.run_ids') AS id
                  FROM unnest(p_inputs, p_keys, p_triggered_by) WITH ORDINALITY AS a (input, key, actor, place)
            ), written AS (
                INSERT INTO dispatcher.runs (id, workflow_id, version_id, available_at, tenant_id, workspace_id, workflow,
                                             idempotency_key, triggered_by, input)
                SELECT a.id, held.id, used.id, now(), p_tenant_id, p_workspace_id, p_workflow, a.key, a.actor, a.input
                  FROM asked a
                 WHERE dispatcher.object_faults_v1('$', a.input, bytes_max) = '[]'
                   AND dispatcher.input_faults_v1(p_tenant_id, p_workspace_id, used, a.input) = '[]'
                   AND coalesce(length(a.key) BETWEEN 1 AND 255, true)
                 ORDER BY a.key, a.place
                ON CONFLICT (tenant_id, workspace_id, workflow, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
                RETURNING id
            )
            SELECT a.place, a.id FROM written w JOIN asked a ON a.id = w.id
        LOOP
            started := started || fresh.place::integer;
            place := fresh.place;
            execution_id := fresh.id;
            version := used.number;
            total_steps := used.total_steps;
            duplicate := false;
            RETURN NEXT;
        END LOOP;
        IF started <> '{}' AND EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN
            PERFORM pg_notify('dispatcher_runs', '');
        END IF;
    END IF;
    -- Duplicates and what is refused: as one alone, each, which knows what there is to say.
    FOR rest IN
        SELECT a.* FROM unnest(p_inputs, p_keys, p_triggered_by) WITH ORDINALITY AS a (input, key, actor, place)
         WHERE a.place <> ALL (started) ORDER BY a.key, a.place
    LOOP
        place := rest.place;
        execution_id := NULL; version := NULL; total_steps := NULL; duplicate := NULL;
        refusal := NULL; message := NULL; detail := NULL;
        BEGIN
            SELECT t.execution_id, t.version, t.total_steps, t.duplicate INTO execution_id, version, total_steps, duplicate
              FROM dispatcher.trigger_workflow_v1(p_workflow, rest.input::jsonb, rest.key, p_tenant_id, p_workspace_id, rest.actor) AS t;
        EXCEPTION
            WHEN data_exception OR no_data_found OR object_not_in_prerequisite_state OR program_limit_exceeded THEN
                GET STACKED DIAGNOSTICS refusal = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
        END;
        RETURN NEXT;
    END LOOP;
END $$;

REVOKE ALL ON FUNCTION dispatcher.trigger_workflows_v1 FROM PUBLIC;
