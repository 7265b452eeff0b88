-- Workflows: plans in versions that never change.
--
-- The map
--   workflows         one row a name, of a tenant and workspace: whether it takes triggers, and on which version
--   plan_versions     one row a version: the definition as it was given, and the plan that it was compiled to
--   workflow_actions  actor and time of each version, activation, deactivation and deletion

CREATE TABLE dispatcher.workflows (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    current      bigint,
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    deleted_at   timestamptz,
    latest       integer NOT NULL DEFAULT 0,
    active       boolean NOT NULL DEFAULT false,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    name         text NOT NULL,
    kind         text NOT NULL DEFAULT 'workflow' CHECK (kind IN ('workflow', 'sequence')),
    CONSTRAINT workflows_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$'),
    CONSTRAINT workflows_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100)
);
COMMENT ON COLUMN dispatcher.workflows.current IS 'the version that triggers run on: the newest';
COMMENT ON COLUMN dispatcher.workflows.kind IS 'a sequence has its name in a table of its own, and is not triggered by it';
CREATE UNIQUE INDEX workflows_name ON dispatcher.workflows (tenant_id, workspace_id, name)
    WHERE deleted_at IS NULL AND kind = 'workflow';
CALL dispatcher.isolate('dispatcher.workflows');

-- No foreign keys: a restore with several jobs brings tables in any order.
-- What a trigger checks stands in columns of its own: a plan of a thousand nodes is not read for it.
CREATE TABLE dispatcher.plan_versions (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_id     bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
    number          integer NOT NULL CHECK (number > 0),
    total_steps     integer NOT NULL,
    author          text NOT NULL CHECK (author <> ''),
    required_fields text[] NOT NULL,
    node_ids        text[] NOT NULL,
    reads           jsonb NOT NULL,
    templates       jsonb NOT NULL,
    definition      json NOT NULL,
    plan            json NOT NULL,
    lane            smallint NOT NULL DEFAULT 1,
    CONSTRAINT plan_versions_number UNIQUE (workflow_id, number)
);
COMMENT ON COLUMN dispatcher.plan_versions.lane IS 'of its runs: the first lane in which it sends anything';
COMMENT ON COLUMN dispatcher.plan_versions.reads IS 'what a trigger must bring: [{"path": "order.id", "at": ["order", "id"]}]';
COMMENT ON COLUMN dispatcher.plan_versions.templates IS 'the stored templates that its nodes use, by name or by variable';
CREATE TRIGGER plan_versions_never_change BEFORE UPDATE OR DELETE OR TRUNCATE ON dispatcher.plan_versions
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.templates_never_change();
CALL dispatcher.isolate('dispatcher.plan_versions', 'workflow_id', 'dispatcher.workflows');

CREATE TABLE dispatcher.workflow_actions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_id bigint NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    version     integer NOT NULL,
    actor       text NOT NULL CHECK (actor <> ''),
    action      text NOT NULL CHECK (action IN ('put', 'activate', 'deactivate', 'delete', 'publish', 'pause', 'resume',
                                                       'cancel', 'move'))
);
CREATE INDEX workflow_actions_by_workflow ON dispatcher.workflow_actions (workflow_id, id);
CREATE INDEX workflow_actions_by_time ON dispatcher.workflow_actions (at, id);
CALL dispatcher.isolate('dispatcher.workflow_actions', 'workflow_id', 'dispatcher.workflows');

-- Write a version: it never changes.
CREATE FUNCTION dispatcher.add_plan_version(
    p_workflow_id bigint, p_number integer, p_definition json, p_plan json, p_author text
) RETURNS dispatcher.plan_versions
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO dispatcher.plan_versions (workflow_id, number, total_steps, author, required_fields, node_ids, reads,
                                          templates, definition, plan, lane)
    SELECT p_workflow_id, p_number, count(*), p_author,
           ARRAY(SELECT json_array_elements_text(coalesce(p_plan -> 'required_fields', '[]'))),
           coalesce(array_agg(n.key), '{}'), coalesce(p_plan -> 'reads', '[]')::jsonb,
           coalesce(p_plan -> 'templates', '[]')::jsonb, p_definition, p_plan, coalesce(min((n.value ->> 'lane')::smallint), 1)
      FROM json_each(p_plan -> 'nodes') AS n
    RETURNING *
$$;

-- Save a workflow: one that says what the newest version says makes no other. Activated where that is asked for, and left
-- as it is else.
CREATE FUNCTION dispatcher.put_workflow(
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
        ON CONFLICT (tenant_id, workspace_id, name) WHERE deleted_at IS NULL AND kind = 'workflow' DO NOTHING;
        SELECT w.* INTO held FROM dispatcher.workflows w
         WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_name AND w.deleted_at IS NULL
           AND w.kind = 'workflow'
           FOR UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
    SELECT v.* INTO last FROM dispatcher.plan_versions v WHERE v.id = held.current;
    created := NOT FOUND OR last.definition::jsonb <> p_definition::jsonb OR last.plan::jsonb <> p_plan::jsonb;
    IF created THEN
        last := dispatcher.add_plan_version(held.id, held.latest + 1, p_definition, p_plan, p_author);
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
CREATE FUNCTION dispatcher.set_workflow_active(
    p_tenant_id text, p_workspace_id text, p_name text, p_active boolean, p_actor text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.workflows;
BEGIN
    SELECT w.* INTO held FROM dispatcher.workflows w
     WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_name AND w.deleted_at IS NULL
           AND w.kind = 'workflow'
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
CREATE FUNCTION dispatcher.delete_workflow(p_tenant_id text, p_workspace_id text, p_name text, p_actor text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.workflows;
BEGIN
    SELECT w.* INTO held FROM dispatcher.workflows w
     WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id AND w.name = p_name AND w.deleted_at IS NULL
           AND w.kind = 'workflow'
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

REVOKE ALL ON FUNCTION dispatcher.add_plan_version, dispatcher.put_workflow, dispatcher.set_workflow_active, dispatcher.delete_workflow FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON dispatcher.workflows TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.plan_versions, dispatcher.workflow_actions TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.add_plan_version, dispatcher.put_workflow, dispatcher.set_workflow_active,
    dispatcher.delete_workflow TO dispatcher_tenant;
