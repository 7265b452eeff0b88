-- Row security: a request of the HTTP API sees the rows of one workspace, whatever its statement forgets to say.
--
-- How it works
--   A request runs in one transaction that begins as the role dispatcher_tenant, which owns nothing, and says for which
--   tenant and workspace it is: in the settings dispatcher.tenant and dispatcher.workspace. Of the tables on which that
--   role has any right it sees, and writes, the rows of this workspace; without the settings none.
--   Other roles are not restricted: the owner of the tables, which is the dispatcher itself and its command line, is not
--   subject to row security, and roles of applications are let through by a policy of their own.
--
-- Each table is isolated by one call beside its definition, before anything of it is granted to dispatcher_tenant:
--   CALL dispatcher.isolate('dispatcher.contacts');                                  -- has tenant_id (and workspace_id)
--   CALL dispatcher.isolate('dispatcher.contact_events', 'contact_id', 'dispatcher.contacts');  -- belongs to a row that has
--
-- What is not restricted
--   A function that is SECURITY DEFINER runs as the owner. Those that the API calls are either called for a row that is
--   visible (SELECT dispatcher.pause_run(id, ...) FROM dispatcher.runs WHERE id = $1), or call stay_within first.
--   A view reads as its owner, unless it is made WITH (security_invoker = true): dispatcher_tenant is granted no other.
--
-- The role belongs to all databases of a server: `dispatcher migrate` makes it, where it is missing, before this file.
--
-- A policy is a filter, not a way to find rows
--   The condition of a policy can be a condition of an index, too. Where the planner took a workspace for a small one (no
--   statistics yet, or a generic plan made for a small workspace), statements of requests read all of it by its key: with
--   250,000 deliveries `/held/{id}` took 550 ms in place of 1, a page of `/deliveries` 1,000 in place of 10. No index knows
--   IS NOT DISTINCT FROM, which says the same of columns that are never null. Lists of addresses belong to a tenant alone,
--   and are found by it: their policy keeps the condition that an index knows.

-- Let dispatcher_tenant see of a table what is its workspace's: by its columns tenant_id and workspace_id (of a table
-- without the second by the first alone), or by a column that leads to the row of another table that is isolated itself.
-- New rows of a tenant that is in another cell are refused, unless the table only records what happens to work that was taken.
CREATE PROCEDURE dispatcher.isolate(
    p_table regclass, p_column name DEFAULT NULL, p_parent regclass DEFAULT NULL, p_records boolean DEFAULT false
)
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
        condition := 'tenant_id IS NOT DISTINCT FROM nullif(current_setting(''dispatcher.tenant'', true), '''')'
            || ' AND workspace_id IS NOT DISTINCT FROM nullif(current_setting(''dispatcher.workspace'', true), '''')';
    END IF;
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', p_table);
    EXECUTE format('CREATE POLICY everybody ON %s USING (true) WITH CHECK (true)', p_table);
    EXECUTE format('CREATE POLICY tenant ON %s AS RESTRICTIVE TO dispatcher_tenant USING (%s)', p_table, condition);
    IF p_column IS NULL AND NOT p_records THEN
        EXECUTE format('CREATE TRIGGER stay_in_cell AFTER INSERT ON %s REFERENCING NEW TABLE AS fresh '
            'FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.stay_in_cell()', p_table);
        -- join_cells enables it: a database that is in no cell does not pay for it.
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER stay_in_cell', p_table);
    END IF;
END $$;

-- Raise where the transaction is bound to another workspace, or to none though it should be, and where the tenant is in another
-- cell. For functions that run as the owner and take a workspace as an argument.
CREATE FUNCTION dispatcher.stay_within(p_tenant_id text, p_workspace_id text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- `current_user` is the owner by now; the setting says who has called. Null is the same as nothing.
    IF current_setting('role') = 'dispatcher_tenant' AND ((p_tenant_id, p_workspace_id) = (
        nullif(current_setting('dispatcher.tenant', true), ''), nullif(current_setting('dispatcher.workspace', true), ''))) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'this transaction is bound to another workspace' USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- Without a row, in no cell, nothing is asked.
    PERFORM dispatcher.require_here(p_tenant_id) FROM dispatcher.own_cell;
END $$;

REVOKE ALL ON PROCEDURE dispatcher.isolate FROM PUBLIC;
REVOKE ALL ON FUNCTION dispatcher.stay_within FROM PUBLIC;
GRANT USAGE ON SCHEMA dispatcher TO dispatcher_tenant;
