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

REVOKE ALL ON FUNCTION dispatcher.the_dead_are_listed, dispatcher.discard_delivery FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON dispatcher.dead_deliveries TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.discard_delivery TO dispatcher_tenant;
