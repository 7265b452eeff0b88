-- What was sent to addresses, found by their index under row security, too.
--
-- The hash of a recipient may tell more than the row may show (Postgres takes only its own functions' word for it, or an
-- administrator's, that they do not), so a statement of a request reads all deliveries of its workspace first: 232 ms where
-- there are 200,000, and more than a request has where there are millions. As the owner it is 1 ms, however many there are.

-- Deliveries of a workspace to recipients that look like these.
CREATE FUNCTION dispatcher.sent_to_v1(p_tenant_id text, p_workspace_id text, p_forms text[]) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within_v1(p_tenant_id, p_workspace_id);
    RETURN QUERY
    SELECT d.id
      FROM (SELECT DISTINCT dispatcher.address_hash_v1(form) AS hash FROM unnest(p_forms) AS form) AS asked
      JOIN dispatcher.deliveries d ON dispatcher.address_hash_v1(d.recipient) = asked.hash
     WHERE d.tenant_id = p_tenant_id AND d.workspace_id = p_workspace_id;
END $$;

REVOKE ALL ON FUNCTION dispatcher.sent_to_v1 FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.sent_to_v1 TO dispatcher_tenant;
