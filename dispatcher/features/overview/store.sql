-- name: record
-- Add what an epoch has counted since the last time, by workspace (empty: all), channel, lane and outcome.
INSERT INTO dispatcher.throughput AS t (at, epoch, deliveries, lane, tenant_id, workspace_id, channel, outcome)
SELECT date_trunc('minute', statement_timestamp()), $1, r.deliveries, r.lane, r.tenant_id, r.workspace_id, r.channel, r.outcome
  FROM unnest($2::text[], $3::text[], $4::text[], $5::smallint[], $6::text[], $7::bigint[])
    AS r (tenant_id, workspace_id, channel, lane, outcome, deliveries)
 ORDER BY r.tenant_id, r.workspace_id, r.channel, r.lane, r.outcome
ON CONFLICT ON CONSTRAINT throughput_pkey DO UPDATE SET deliveries = t.deliveries + excluded.deliveries;

-- name: forget
-- Drop what is older than $1 seconds.
DELETE FROM dispatcher.throughput WHERE at < statement_timestamp() - make_interval(secs => $1);

-- name: throughput
-- The minutes of the last $3 seconds in a workspace (empty: of all), by channel, lane and outcome.
SELECT extract(epoch FROM at)::bigint AS at, channel, lane, outcome, sum(deliveries)::bigint AS deliveries
  FROM dispatcher.throughput
 WHERE tenant_id = $1 AND workspace_id = $2 AND at >= date_trunc('minute', statement_timestamp()) - make_interval(secs => $3)
 GROUP BY at, channel, lane, outcome ORDER BY at;

-- name: held
-- Held deliveries of a workspace by channel, counted to $3 at most, the oldest first.
SELECT channel, deliveries, oldest FROM dispatcher.held_by_channel($1, $2, $3::integer);

-- name: dead
-- Dead letters of a workspace of each kind, counted to $3 at most.
SELECT (SELECT count(*) FROM (SELECT FROM dispatcher.runs WHERE dead LIMIT $3) AS few) AS runs,
       dispatcher.count_dead_deliveries($1, $2, $3::integer) AS deliveries,
       (SELECT count(*) FROM (SELECT FROM dispatcher.job_queue WHERE failed > 0 AND discarded_at IS NULL LIMIT $3) AS few) AS jobs;

-- name: backlog
-- How many are due in each lane, counted to $2 at most, and for how many seconds the oldest has been; in all workspaces.
SELECT asked.channel, lane.lane::smallint, few.deliveries,
       coalesce(extract(epoch FROM statement_timestamp() - few.oldest), 0)::float8 AS oldest_seconds
  FROM unnest($1::text[]) AS asked (channel), generate_series(0, 2) AS lane (lane),
       LATERAL (SELECT count(*) AS deliveries, min(run_at) AS oldest
                  FROM (SELECT run_at FROM dispatcher.delivery_state s
                         WHERE s.ready AND s.channel = asked.channel AND s.lane = lane.lane AND s.run_at <= statement_timestamp()
                         ORDER BY s.run_at LIMIT $2) AS few) AS few;

-- name: replicas
-- The instances with their heartbeats, the newest last.
SELECT epoch, name, version, started_at, channels, yielded, unready, lease_seconds,
       extract(epoch FROM statement_timestamp() - beat_at)::float8 AS beat_seconds
  FROM dispatcher.instances ORDER BY started_at, epoch;
