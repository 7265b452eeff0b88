-- What a request may see is told of each row that a statement finds, and is no way to find it.
--
-- What was wrong
--   The condition of a policy is one for an index as well. Where the planner took the workspace for a small one, statements
--   of requests read all of it by `deliveries_key`, or all of its addresses by their primary key, to find what they knew the
--   number of. It took it for a small one where nobody had counted the rows yet, and where the workspace that asked when a
--   session made its plan for good was one: that plan is kept for the next, which has millions. With 250,000 deliveries
--   `/held/{id}` took 550 ms in place of 1, a page of `/deliveries` 1,000 in place of 10, one of `/contacts` 470 in place of 1.
--
-- How it is right
--   No index knows IS NOT DISTINCT FROM; it says the same of columns that are never null. What is to be found by its
--   workspace says so in its statement, as all of them do that anybody means.

CREATE OR REPLACE PROCEDURE dispatcher.isolate_v1(p_table regclass, p_column name DEFAULT NULL, p_parent regclass DEFAULT NULL)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    by_workspace CONSTANT boolean := EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = p_table AND a.attname = 'workspace_id' AND NOT a.attisdropped);
    condition text := 'tenant_id IS NOT DISTINCT FROM nullif(current_setting(''dispatcher.tenant'', true), '''')';
BEGIN
    IF p_column IS NOT NULL THEN
        -- Not EXISTS, of which Postgres may make one look at the whole parent.
        condition := format('(SELECT p.id FROM %s p WHERE p.id = %s.%I) IS NOT NULL', p_parent, p_table, p_column);
    ELSIF by_workspace THEN
        condition := condition || ' AND workspace_id IS NOT DISTINCT FROM nullif(current_setting(''dispatcher.workspace'', true), '''')';
    END IF;
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', p_table);
    EXECUTE format('CREATE POLICY everybody ON %s USING (true) WITH CHECK (true)', p_table);
    EXECUTE format('CREATE POLICY tenant ON %s AS RESTRICTIVE TO dispatcher_tenant USING (%s)', p_table, condition);
END $$;

-- Those that have a tenant and a workspace of their own and say no more than that. (Of a tenant alone are the lists of
-- addresses, which are found by their tenant.)
ALTER POLICY tenant ON dispatcher.deliveries
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.captured_messages
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.templates
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.objects
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.workflows
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.runs
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.schedules
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.api_answers
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.webhook_endpoints
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.contacts
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.contact_addresses
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));
ALTER POLICY tenant ON dispatcher.erasures
    USING (tenant_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id IS NOT DISTINCT FROM nullif(current_setting('dispatcher.workspace', true), ''));

-- As before. By the hash first, and then whose they are: where nobody has counted, all deliveries of a workspace look as few as
-- those to one address (380 ms among 250,000).
CREATE OR REPLACE FUNCTION dispatcher.sent_to_v1(p_tenant_id text, p_workspace_id text, p_forms text[]) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within_v1(p_tenant_id, p_workspace_id);
    RETURN QUERY
    SELECT d.id
      FROM (SELECT DISTINCT dispatcher.address_hash_v1(form) AS hash FROM unnest(p_forms) AS form) AS asked,
           LATERAL (SELECT b.id, b.tenant_id, b.workspace_id FROM dispatcher.deliveries b
                     WHERE dispatcher.address_hash_v1(b.recipient) = asked.hash OFFSET 0) AS d
     WHERE d.tenant_id = p_tenant_id AND d.workspace_id = p_workspace_id;
END $$;
