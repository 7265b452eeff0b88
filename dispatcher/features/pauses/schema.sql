-- Pauses of channels, providers, tenants, workspaces, templates and runs: actor, reason and time.
--
-- The map
--   pauses       one row a pause; an open one has no end
--   parked       deliveries that wait for a pause to end
--
-- A pause says where it holds: `tenant_id` and `workspace_id`, or nowhere in particular, which is everywhere. That of a run
-- names the run's workspace. That of a campaign's run is opened and ended by functions of the owner alone (features/campaigns), since
-- it stops the run by its number in any workspace. One of the scope `moved` stops a tenant that is not in this cell (features/cells).

CREATE TABLE dispatcher.pauses (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    since        timestamptz NOT NULL DEFAULT statement_timestamp(),
    ended_at     timestamptz,
    scope        text NOT NULL CHECK (scope IN ('channel', 'provider', 'tenant', 'template', 'run', 'workspace', 'campaign_run', 'sequence', 'moved')),
    name         text NOT NULL CHECK (name <> ''),
    actor        text NOT NULL CHECK (actor <> ''),
    reason       text NOT NULL,
    ended_by     text,
    tenant_id    text,
    workspace_id text,
    end_reason   text,
    CONSTRAINT pauses_place
        CHECK ((tenant_id IS NULL) = (workspace_id IS NULL) AND
               CASE WHEN scope = 'workspace' THEN workspace_id IS NOT NULL AND name = workspace_id
                    WHEN scope = 'campaign_run' THEN workspace_id IS NOT NULL
                    WHEN scope IN ('provider', 'tenant', 'moved') THEN workspace_id IS NULL ELSE true END)
);
COMMENT ON COLUMN dispatcher.pauses.tenant_id IS 'the tenant in which it applies; null: everywhere';
CREATE UNIQUE INDEX pauses_open ON dispatcher.pauses (scope, name, tenant_id, workspace_id) NULLS NOT DISTINCT
    WHERE ended_at IS NULL;
-- A walk looks up what pauses its sequences have had.
CREATE INDEX pauses_of_sequences ON dispatcher.pauses (name, since) WHERE scope = 'sequence';
CREATE INDEX pauses_by_time ON dispatcher.pauses (since, id);
CREATE INDEX pauses_by_end ON dispatcher.pauses (ended_at, id) WHERE ended_at IS NOT NULL;
ALTER TABLE dispatcher.pauses ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON dispatcher.pauses USING (true) WITH CHECK (true);
CREATE POLICY tenant ON dispatcher.pauses AS RESTRICTIVE TO dispatcher_tenant
    USING (current_setting('dispatcher.operators', true) = 'yes'
           -- That of a run that had ended when pauses began to say where they hold says nothing.
        OR CASE WHEN tenant_id IS NOT NULL THEN tenant_id = nullif(current_setting('dispatcher.tenant', true), '')
                                            AND workspace_id = nullif(current_setting('dispatcher.workspace', true), '')
                WHEN scope IN ('tenant', 'moved') THEN name = nullif(current_setting('dispatcher.tenant', true), '')
                ELSE scope <> 'run' END)
    WITH CHECK (current_setting('dispatcher.operators', true) = 'yes'
             OR tenant_id = nullif(current_setting('dispatcher.tenant', true), '')
            AND workspace_id = nullif(current_setting('dispatcher.workspace', true), ''));

CREATE POLICY opened_by_its_run ON dispatcher.pauses AS RESTRICTIVE FOR INSERT TO dispatcher_tenant
    WITH CHECK (scope NOT IN ('campaign_run', 'moved'));
CREATE POLICY ended_by_its_run ON dispatcher.pauses AS RESTRICTIVE FOR UPDATE TO dispatcher_tenant
    USING (scope NOT IN ('campaign_run', 'moved'));

CREATE TABLE dispatcher.parked (
    delivery_id bigint PRIMARY KEY,
    pause_id    bigint NOT NULL
);
CREATE INDEX parked_by_pause ON dispatcher.parked (pause_id);

-- Stop something in a workspace, or everywhere where none is named. Answers the pause that is open now, and whether it was
-- before.
CREATE FUNCTION dispatcher.pause(
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

-- Let it go on there, or everywhere where no workspace is named. What was parked is made ready by unpark, page by page.
-- False where nothing was paused.
CREATE FUNCTION dispatcher.resume(
    p_scope text, p_name text, p_tenant_id text, p_workspace_id text, p_actor text, p_reason text DEFAULT NULL
)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE dispatcher.pauses p
       SET ended_at = statement_timestamp(), ended_by = p_actor, end_reason = nullif(p_reason, '')
     WHERE p.scope = p_scope AND p.name = p_name AND p.tenant_id IS NOT DISTINCT FROM p_tenant_id
       AND p.workspace_id IS NOT DISTINCT FROM p_workspace_id AND p.ended_at IS NULL;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM pg_notify('dispatcher_control', '');
    RETURN true;
END $$;

-- As pause, everywhere; a run is paused where it is.
CREATE FUNCTION dispatcher.pause_everywhere(p_scope text, p_name text, p_actor text, p_reason text) RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.pause_id
      FROM (VALUES (CASE WHEN p_scope = 'run' THEN p_name::bigint END)) AS asked (run_id)
      LEFT JOIN dispatcher.runs r ON r.id = asked.run_id,
           LATERAL dispatcher.pause(p_scope, p_name, r.tenant_id, r.workspace_id, p_actor, p_reason) AS p
$$;

-- As resume, everywhere; a run is resumed where it is.
CREATE FUNCTION dispatcher.resume_everywhere(p_scope text, p_name text, p_actor text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.resume(p_scope, p_name, r.tenant_id, r.workspace_id, p_actor, p_reason)
      FROM (VALUES (CASE WHEN p_scope = 'run' THEN p_name::bigint END)) AS asked (run_id)
      LEFT JOIN dispatcher.runs r ON r.id = asked.run_id
$$;

CREATE FUNCTION dispatcher.unpark(p_page integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    freed bigint;
BEGIN
    WITH free AS (
        SELECT p.delivery_id FROM dispatcher.parked p
         WHERE NOT EXISTS (SELECT FROM dispatcher.pauses o WHERE o.id = p.pause_id AND o.ended_at IS NULL)
         ORDER BY p.delivery_id LIMIT p_page FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM dispatcher.parked p USING free f WHERE p.delivery_id = f.delivery_id
    )
    UPDATE dispatcher.delivery_state s SET ready = true FROM free f
     WHERE s.id = f.delivery_id AND s.status = 'queued' AND NOT s.ready AND NOT s.held AND s.token IS NULL;
    GET DIAGNOSTICS freed = ROW_COUNT;
    IF freed > 0 THEN PERFORM pg_notify('dispatcher_work', ''); END IF;
    RETURN freed;
END $$;

GRANT SELECT, INSERT, UPDATE ON dispatcher.pauses TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.pause, dispatcher.resume TO dispatcher_tenant;
