-- Dead letters: failed runs, failed deliveries that belong to no run, and jobs of campaigns of which deliveries have failed (jobs.sql),
-- until they are discarded.

CREATE TABLE dispatcher.dead_deliveries (
    delivery_id  bigint PRIMARY KEY,
    discarded_at timestamptz,
    note         text
);
CREATE INDEX dead_deliveries_here ON dispatcher.dead_deliveries (delivery_id) WHERE discarded_at IS NULL;
CALL dispatcher.isolate('dispatcher.dead_deliveries', 'delivery_id', 'dispatcher.deliveries');

-- What has failed stands in a list of its own: an index over `status` would make every flush write to all indexes.
CREATE FUNCTION dispatcher.the_dead_are_listed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.status = 'failed' THEN
        INSERT INTO dispatcher.dead_deliveries (delivery_id) VALUES (NEW.id)
        ON CONFLICT (delivery_id) DO UPDATE SET discarded_at = NULL, note = NULL;
    ELSE
        DELETE FROM dispatcher.dead_deliveries WHERE delivery_id = NEW.id;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER z_the_dead_are_listed BEFORE UPDATE OF status ON dispatcher.delivery_state
    FOR EACH ROW WHEN (NEW.wakes IS NULL AND NEW.job_id IS NULL AND OLD.status <> NEW.status AND (OLD.status = 'failed' OR NEW.status = 'failed'))
    EXECUTE FUNCTION dispatcher.the_dead_are_listed();

-- Discard a failed delivery that belongs to no run: it is no dead letter any more, and stays what it is. Answers discarded,
-- same, unknown, or what it is: failed is one that belongs to a run or a job.
CREATE FUNCTION dispatcher.discard_delivery(
    p_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
BEGIN
    -- No delivery has the id 0: it stands for null.
    IF dispatcher.find_delivery(coalesce(p_id, 0), NULL, p_tenant_id, p_workspace_id) IS NULL THEN RETURN 'unknown'; END IF;
    UPDATE dispatcher.dead_deliveries SET discarded_at = statement_timestamp(),
           note = concat_ws(': ', 'discarded by ' || actor, nullif(p_reason, ''))
     WHERE delivery_id = p_id AND discarded_at IS NULL;
    IF FOUND THEN
        -- Kept here as well: the list forgets what is sent again.
        INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
        VALUES (p_id, actor, 'discard', 'failed', coalesce(p_reason, ''));
        RETURN 'discarded';
    END IF;
    RETURN coalesce((SELECT CASE WHEN l.delivery_id IS NOT NULL THEN 'same' ELSE s.status END
                       FROM dispatcher.delivery_state s LEFT JOIN dispatcher.dead_deliveries l ON l.delivery_id = s.id
                      WHERE s.id = p_id), 'unknown');
END $$;

-- The newest dead deliveries below an id that match, p_most at most, of a tenant and workspace where given. p_looked are looked at,
-- and where there may be more the last of them follows with `matches` false. As the owner, since policies would look each up twice
-- more.
CREATE FUNCTION dispatcher.newest_dead_deliveries(
    p_below bigint, p_most integer, p_name text, p_channel text, p_tenant_id text, p_workspace_id text, p_since timestamptz,
    p_until timestamptz, p_error text, p_looked integer
) RETURNS TABLE (id bigint, channel text, error text, failed_at timestamptz, matches boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    RETURN QUERY
    WITH looked AS MATERIALIZED (
        SELECT l.delivery_id, s.channel, s.error, s.finished_at, d.template_name
          FROM dispatcher.dead_deliveries l,
               LATERAL (SELECT o.tenant_id, o.workspace_id, o.template_name FROM dispatcher.deliveries o WHERE o.id = l.delivery_id LIMIT 1) AS d,
               LATERAL (SELECT o.channel, o.error, o.finished_at FROM dispatcher.delivery_state o WHERE o.id = l.delivery_id LIMIT 1) AS s
         WHERE l.discarded_at IS NULL AND l.delivery_id < p_below
           AND (p_tenant_id IS NULL OR d.tenant_id = p_tenant_id) AND (p_workspace_id IS NULL OR d.workspace_id = p_workspace_id)
         ORDER BY l.delivery_id DESC LIMIT p_looked
    ), found AS (
        SELECT l.delivery_id, l.channel, l.error, l.finished_at, true
          FROM looked l
         WHERE (p_name IS NULL OR l.template_name = p_name) AND (p_channel IS NULL OR l.channel = p_channel)
           AND (p_since IS NULL OR l.finished_at >= p_since) AND (p_until IS NULL OR l.finished_at < p_until)
           AND (p_error IS NULL OR position(lower(p_error) IN lower(l.error)) > 0)
         ORDER BY l.delivery_id DESC LIMIT p_most
    )
    TABLE found
    UNION ALL
    SELECT min(l.delivery_id), NULL, NULL, NULL, false FROM looked l HAVING count(*) = p_looked;
END $$;

REVOKE ALL ON FUNCTION dispatcher.newest_dead_deliveries FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.newest_dead_deliveries TO dispatcher_tenant;
REVOKE ALL ON FUNCTION dispatcher.the_dead_are_listed, dispatcher.discard_delivery FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON dispatcher.dead_deliveries TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.discard_delivery TO dispatcher_tenant;
