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
