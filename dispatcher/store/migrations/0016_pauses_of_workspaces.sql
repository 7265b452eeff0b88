-- Pauses of a workspace, beside those of the whole installation: the workspace itself, a channel or a template in it.
--
-- A pause says where it holds: `tenant_id` and `workspace_id`, or nowhere in particular, which is everywhere. That of a run
-- says whose the run is. A program that is older than this takes a channel or a template that is paused somewhere for one
-- that is paused everywhere, and so stops more than it has to, and never less; and it knows no pause of a workspace.

ALTER TABLE dispatcher.pauses
    ADD COLUMN tenant_id text,
    ADD COLUMN workspace_id text;
COMMENT ON COLUMN dispatcher.pauses.tenant_id IS 'in whose workspace it holds; null: everywhere';

ALTER TABLE dispatcher.pauses DROP CONSTRAINT pauses_scope_check;
ALTER TABLE dispatcher.pauses ADD CONSTRAINT pauses_scope_check
    CHECK (scope IN ('channel', 'provider', 'tenant', 'template', 'run', 'workspace'));
ALTER TABLE dispatcher.pauses ADD CONSTRAINT pauses_place
    CHECK ((tenant_id IS NULL) = (workspace_id IS NULL) AND
           CASE WHEN scope = 'workspace' THEN workspace_id IS NOT NULL AND name = workspace_id
                WHEN scope IN ('provider', 'tenant') THEN workspace_id IS NULL ELSE true END);

UPDATE dispatcher.pauses p SET tenant_id = r.tenant_id, workspace_id = r.workspace_id
  FROM dispatcher.runs r WHERE p.scope = 'run' AND p.ended_at IS NULL AND r.id::text = p.name;

DROP INDEX dispatcher.pauses_open;
CREATE UNIQUE INDEX pauses_open ON dispatcher.pauses (scope, name, tenant_id, workspace_id) NULLS NOT DISTINCT
    WHERE ended_at IS NULL;


-- Stop something in a workspace, or everywhere where none is named. Answers the pause that is open now, and whether it was
-- before.
CREATE FUNCTION dispatcher.pause_v2(
    p_scope text, p_name text, p_tenant_id text, p_workspace_id text, p_actor text, p_reason text, OUT pause_id bigint,
    OUT already boolean
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Again, where the one that stood in the way has ended meanwhile.
    WHILE pause_id IS NULL LOOP
        INSERT INTO dispatcher.pauses (scope, name, tenant_id, workspace_id, actor, reason)
        VALUES (p_scope, p_name, p_tenant_id, p_workspace_id, p_actor, p_reason)
        ON CONFLICT (scope, name, tenant_id, workspace_id) WHERE ended_at IS NULL DO NOTHING RETURNING id INTO pause_id;
        already := pause_id IS NULL;
        IF already THEN
            SELECT p.id INTO pause_id FROM dispatcher.pauses p
             WHERE p.scope = p_scope AND p.name = p_name AND p.tenant_id IS NOT DISTINCT FROM p_tenant_id
               AND p.workspace_id IS NOT DISTINCT FROM p_workspace_id AND p.ended_at IS NULL;
        END IF;
    END LOOP;
    PERFORM pg_notify('dispatcher_control', '');
END $$;

-- Let it go on there, or everywhere where no workspace is named. What was parked is made ready by unpark_v1, page by page.
-- False where nothing was paused.
CREATE FUNCTION dispatcher.resume_v2(p_scope text, p_name text, p_tenant_id text, p_workspace_id text, p_actor text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE dispatcher.pauses p SET ended_at = statement_timestamp(), ended_by = p_actor
     WHERE p.scope = p_scope AND p.name = p_name AND p.tenant_id IS NOT DISTINCT FROM p_tenant_id
       AND p.workspace_id IS NOT DISTINCT FROM p_workspace_id AND p.ended_at IS NULL;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM pg_notify('dispatcher_control', '');
    RETURN true;
END $$;

-- As before: everywhere. A run is paused where it is.
CREATE OR REPLACE FUNCTION dispatcher.pause_v1(p_scope text, p_name text, p_actor text, p_reason text) RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.pause_id
      FROM (VALUES (CASE WHEN p_scope = 'run' THEN p_name::bigint END)) AS asked (run_id)
      LEFT JOIN dispatcher.runs r ON r.id = asked.run_id,
           LATERAL dispatcher.pause_v2(p_scope, p_name, r.tenant_id, r.workspace_id, p_actor, p_reason) AS p
$$;

CREATE OR REPLACE FUNCTION dispatcher.resume_v1(p_scope text, p_name text, p_actor text) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.resume_v2(p_scope, p_name, r.tenant_id, r.workspace_id, p_actor)
      FROM (VALUES (CASE WHEN p_scope = 'run' THEN p_name::bigint END)) AS asked (run_id)
      LEFT JOIN dispatcher.runs r ON r.id = asked.run_id
$$;

-- A request sees the pauses of its workspace and of its tenant, and those that hold for all; it makes and ends those of its
-- workspace alone. One of the operators, which says so in the setting dispatcher.operators, sees, makes and ends all; and so
-- with keys, in any workspace.
ALTER TABLE dispatcher.pauses ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON dispatcher.pauses USING (true) WITH CHECK (true);
CREATE POLICY tenant ON dispatcher.pauses AS RESTRICTIVE TO dispatcher_tenant
    USING (current_setting('dispatcher.operators', true) = 'yes'
           -- That of a run that had ended when pauses began to say where they hold says nothing.
        OR CASE WHEN tenant_id IS NOT NULL THEN tenant_id = nullif(current_setting('dispatcher.tenant', true), '')
                                            AND workspace_id = nullif(current_setting('dispatcher.workspace', true), '')
                WHEN scope = 'tenant' THEN name = nullif(current_setting('dispatcher.tenant', true), '')
                ELSE scope <> 'run' END)
    WITH CHECK (current_setting('dispatcher.operators', true) = 'yes'
             OR tenant_id = nullif(current_setting('dispatcher.tenant', true), '')
            AND workspace_id = nullif(current_setting('dispatcher.workspace', true), ''));
DROP POLICY tenant ON dispatcher.api_keys;
CREATE POLICY tenant ON dispatcher.api_keys AS RESTRICTIVE TO dispatcher_tenant
    USING (tenant_id = nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id = nullif(current_setting('dispatcher.workspace', true), '')
        OR current_setting('dispatcher.operators', true) = 'yes');
GRANT SELECT, INSERT, UPDATE ON dispatcher.pauses TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.pause_v2, dispatcher.resume_v2 TO dispatcher_tenant;
