-- The overview: how many deliveries ended in each minute, as each dispatcher has counted them.
--
-- The map
--   throughput   one row for each minute, dispatcher, workspace, channel, lane and ending; kept for two hours
--
-- Each dispatcher adds what it has flushed once a second, all of it in one statement, so the flush itself writes nothing here:
-- counting deliveries by their end would need an index that marking and flushing would have to maintain. What a dispatcher has
-- counted in the second before it is killed is missing here, and nowhere else. Rows without a workspace are the sums of all.

CREATE TABLE dispatcher.throughput (
    at           timestamptz NOT NULL,
    epoch        bigint NOT NULL,
    deliveries   bigint NOT NULL,
    lane         smallint NOT NULL,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    channel      text NOT NULL,
    outcome      text NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, at, channel, lane, outcome, epoch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
COMMENT ON COLUMN dispatcher.throughput.at IS 'the minute that begins then';
COMMENT ON COLUMN dispatcher.throughput.workspace_id IS 'empty: the sum of all workspaces';
CREATE INDEX throughput_age ON dispatcher.throughput (at);
CALL dispatcher.isolate('dispatcher.throughput', p_records => true);
GRANT SELECT ON dispatcher.throughput TO dispatcher_tenant;

-- What stands still in a workspace, or with null in all: held deliveries by channel, counted to p_most of them, the oldest first.
-- As the owner, since a policy would look each delivery up again.
CREATE FUNCTION dispatcher.held_by_channel(p_tenant_id text, p_workspace_id text, p_most integer)
RETURNS TABLE (channel text, deliveries bigint, oldest timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    RETURN QUERY
    SELECT few.channel, count(*), min(few.held_at)
      FROM (SELECT s.channel, s.held_at
              FROM dispatcher.delivery_state s,
                   LATERAL (SELECT o.tenant_id, o.workspace_id FROM dispatcher.deliveries o WHERE o.id = s.id LIMIT 1) AS d
             WHERE s.held AND (p_tenant_id IS NULL OR d.tenant_id = p_tenant_id)
               AND (p_workspace_id IS NULL OR d.workspace_id = p_workspace_id)
             ORDER BY s.held_at LIMIT p_most) AS few
     GROUP BY few.channel;
END $$;

-- How many dead deliveries there are, counted to p_most. As above.
CREATE FUNCTION dispatcher.count_dead_deliveries(p_tenant_id text, p_workspace_id text, p_most integer) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    RETURN (SELECT count(*)
              FROM (SELECT FROM dispatcher.dead_deliveries l,
                           LATERAL (SELECT o.tenant_id, o.workspace_id FROM dispatcher.deliveries o WHERE o.id = l.delivery_id LIMIT 1) AS d
                     WHERE l.discarded_at IS NULL AND (p_tenant_id IS NULL OR d.tenant_id = p_tenant_id)
                       AND (p_workspace_id IS NULL OR d.workspace_id = p_workspace_id)
                     LIMIT p_most) AS few);
END $$;

REVOKE ALL ON FUNCTION dispatcher.held_by_channel, dispatcher.count_dead_deliveries FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.held_by_channel, dispatcher.count_dead_deliveries TO dispatcher_tenant;
