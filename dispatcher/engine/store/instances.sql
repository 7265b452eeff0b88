-- name: join
-- Make an epoch durable, before its first claim. Run again when the answer was lost. It yields every channel until it has
-- asked which are its own.
WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true))
INSERT INTO dispatcher.instances (epoch, lease_seconds, pid, name, version, config_hash, channels, yielded)
SELECT $1, $2, $3, $4, $5, $6, $7, $7 FROM durable ON CONFLICT (epoch) DO NOTHING;

-- name: beat
-- Renew our heartbeat, and count the instances; no row where we were fenced.
UPDATE dispatcher.instances SET beat = beat + 1, beat_at = clock_timestamp(), config_hash = $2, unready = $3
 WHERE epoch = $1 RETURNING (SELECT count(*) FROM dispatcher.instances) AS alive;

-- name: agree
-- Say what we have for our channels; answers those that we yield, and to whom.
SELECT channel, instance, provider FROM dispatcher.agree($1, $2);

-- name: yielded
-- The channels that instances yield.
SELECT name, channel FROM dispatcher.instances, unnest(yielded) AS channel WHERE providers <> '{}' ORDER BY name, channel;

-- name: others
-- Everybody's heartbeat.
SELECT epoch, beat, lease_seconds, name, config_hash FROM dispatcher.instances;

-- name: orphaned
-- Whether there are claims without an owner, and everybody's heartbeat: no row where there is nobody.
SELECT (SELECT EXISTS (SELECT FROM dispatcher.claims c
                        WHERE NOT EXISTS (SELECT FROM dispatcher.instances i WHERE i.epoch = c.epoch))) AS orphaned,
       epoch, beat, lease_seconds, name, config_hash
  FROM dispatcher.instances;

-- name: idle
-- Ask, or ask no longer, to be woken by inserts into the normal and bulk lanes.
UPDATE dispatcher.instances SET wants_notify = $2 WHERE epoch = $1;

-- name: idle_urgent
-- Ask, or ask no longer, to be woken by inserts into the transactional lanes.
UPDATE dispatcher.instances SET wants_urgent = $2 WHERE epoch = $1;

-- name: idle_walker
-- Ask, or ask no longer, to be woken by triggers and wakes.
UPDATE dispatcher.instances SET wants_runs = $2 WHERE epoch = $1;

-- name: fence
-- Take an epoch away; waits $2 ms at most for a mark under way.
SELECT dispatcher.fence($1, $2);

-- name: recover
-- Recover up to $1 claims that have no live instance.
SELECT claims, requeued, retried, held, poisoned FROM dispatcher.recover($1);
