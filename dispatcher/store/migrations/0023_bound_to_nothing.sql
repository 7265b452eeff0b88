-- Bound to nothing: a transaction of dispatcher_tenant that is for no workspace does nothing for the default one either.
--
-- What was wrong
--   stay_within_v1 compared null with null and found them the same, and behind it null means the default workspace: a
--   request that had forgotten to say whose it is, and to say for whom, started runs there.
--
-- How it is right
--   Whoever is bound to nothing, or asks for nobody, is refused.

CREATE OR REPLACE FUNCTION dispatcher.stay_within_v1(p_tenant_id text, p_workspace_id text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- `current_user` is the owner by now; the setting says who has called. Null is the same as nothing.
    IF current_setting('role') = 'dispatcher_tenant' AND ((p_tenant_id, p_workspace_id) = (
        nullif(current_setting('dispatcher.tenant', true), ''), nullif(current_setting('dispatcher.workspace', true), ''))) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'this transaction is bound to another workspace' USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;
