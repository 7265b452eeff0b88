-- name: claim
-- Take up to $8 due deliveries of one lane, oldest first, and note them under a token; none where our epoch is gone, or
-- has yielded the channel.
-- run_at is compared with statement_timestamp(): clock_timestamp() is volatile and would filter all future rows
-- (128 ms against 0.4 ms with a million). Losing a claim in a crash of Postgres is harmless, since its token is never
-- issued again: it need not wait for the disk.
WITH me AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
      FROM dispatcher.instances WHERE epoch = $1 AND $6 <> ALL (yielded) FOR KEY SHARE
), taken AS (
    UPDATE dispatcher.delivery_state s SET ready = false, token = $2
     WHERE s.ctid = ANY (ARRAY(
            SELECT ctid FROM dispatcher.delivery_state
             WHERE ready AND channel = $6 AND lane = $7 AND run_at <= statement_timestamp() AND recoveries < 2
             ORDER BY run_at
             LIMIT (SELECT $8::bigint * count(*) FROM me)
               FOR UPDATE SKIP LOCKED))
    RETURNING s.id, s.attempt, s.attempt_base, s.throttled_since, s.run_at, s.job_id, s.resend_until, s.passed, s.provider
), noted AS (
    INSERT INTO dispatcher.claims
           (token, epoch, resend_by, key_seconds, settle_seconds, ids, keyed_recipients, provider_keys)
    SELECT $2, $1, $3, $4, $5, array_agg(id), $9::text[], $10::jsonb FROM taken HAVING count(*) > 0
)
SELECT t.id, d.tenant_id, d.workspace_id, d.idempotency_key, d.recipient,
       coalesce(d.template::text, 'v:' || d.template_version || ':' || d.locale, 'v:'), d.variables::text,
       d.options::text, t.attempt - t.attempt_base AS used, d.max_attempts, d.template_name,
       d.topic, CASE WHEN d.node IS NOT NULL THEN d.run_id END, CASE WHEN t.job_id IS NOT NULL THEN d.run_id END,
       d.sequence_id,
       (SELECT EXISTS (SELECT FROM dispatcher.suppressions)
                     OR EXISTS (SELECT FROM dispatcher.erased_suppressions)
                     OR EXISTS (SELECT FROM dispatcher.topic_preferences)) AS watched,
       coalesce(d.expires_at <= statement_timestamp()
                OR t.attempt = 0 AND t.throttled_since <= statement_timestamp() - interval '24 hours', false) AS expired,
       date_part('epoch', least(greatest(d.created_at, d.scheduled_for, 'epoch'), '9999-01-01Z'))::bigint AS dated,
       CASE WHEN t.resend_until IS NOT NULL THEN t.provider END AS bound_to, CASE WHEN t.passed THEN t.provider END AS passed_by,
       CASE WHEN d.expires_at IS NULL THEN 0
            ELSE date_part('epoch', least(greatest(d.expires_at, 'epoch'), '9999-01-01Z')) END AS expires_at, d.traceparent
  -- Sorted before the join, while the rows are narrow: a nested loop, the only join that the session has, keeps the order.
  FROM (SELECT * FROM taken ORDER BY run_at, id OFFSET 0) AS t JOIN dispatcher.deliveries d ON d.id >= t.id AND d.id <= t.id;

-- name: claim_recovered
-- Take up to $9 deliveries of a channel whose owners have died from $7 to $8 times, from any lane. Answered as by `claim`,
-- and by the lane of each.
WITH me AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
      FROM dispatcher.instances WHERE epoch = $1 AND $6 <> ALL (yielded) FOR KEY SHARE
), taken AS (
    UPDATE dispatcher.delivery_state s SET ready = false, token = $2
     WHERE s.ctid = ANY (ARRAY(
            SELECT ctid FROM dispatcher.delivery_state
             WHERE ready AND recoveries >= 2 AND recoveries BETWEEN $7 AND $8 AND channel = $6
               AND run_at <= statement_timestamp()
             ORDER BY recoveries, run_at
             LIMIT (SELECT $9::bigint * count(*) FROM me)
               FOR UPDATE SKIP LOCKED))
    RETURNING s.id, s.attempt, s.attempt_base, s.throttled_since, s.run_at, s.lane, s.job_id, s.resend_until, s.passed,
              s.provider
), noted AS (
    INSERT INTO dispatcher.claims
           (token, epoch, resend_by, key_seconds, settle_seconds, ids, keyed_recipients, provider_keys)
    SELECT $2, $1, $3, $4, $5, array_agg(id), $10::text[], $11::jsonb FROM taken HAVING count(*) > 0
)

-- name: recovered_due
-- Of the channels and numbers of deaths asked about, the positions of those that have such a delivery due.
SELECT asked.position FROM unnest($1::text[], $2::smallint[], $3::smallint[]) WITH ORDINALITY
                        AS asked (channel, deaths_min, deaths_max, position)
 WHERE EXISTS (SELECT FROM dispatcher.delivery_state s
                WHERE s.ready AND s.recoveries >= 2 AND s.recoveries BETWEEN asked.deaths_min AND asked.deaths_max
                  AND s.channel = asked.channel AND s.run_at <= statement_timestamp());

-- name: due
-- For each lane asked about: the time of its first ready delivery, and whether that has come. Last, without a channel,
-- whether any delivery is ready whose owners have died. Until Postgres 17 an endless time cannot be subtracted from, its
-- seconds can.
SELECT asked.channel, asked.lane, first.run_at <= statement_timestamp() AS due,
       (extract(epoch FROM first.run_at) - extract(epoch FROM statement_timestamp()))::float8 AS wait_seconds
  FROM unnest($1::text[], $2::smallint[]) AS asked (channel, lane),
       LATERAL (SELECT run_at FROM dispatcher.delivery_state s
                 WHERE s.ready AND s.channel = asked.channel AND s.lane = asked.lane AND s.recoveries < 2
                 ORDER BY run_at LIMIT 1) AS first
 UNION ALL
SELECT NULL, NULL, EXISTS (SELECT FROM dispatcher.delivery_state s WHERE s.ready AND s.recoveries >= 2), NULL;

-- name: depth
-- How many are ready in each lane, counted to $3 at most, and how late the oldest is; a time before 1970 counts as then.
SELECT asked.channel, asked.lane, counted.depth,
       coalesce(greatest(extract(epoch FROM statement_timestamp()) - extract(epoch FROM counted.oldest), 0), 0)::float8
           AS age_seconds
  FROM unnest($1::text[], $2::smallint[]) AS asked (channel, lane),
       LATERAL (SELECT count(*) AS depth, min(greatest(run_at, 'epoch')) AS oldest FROM (
                 SELECT run_at FROM dispatcher.delivery_state s
                  WHERE s.ready AND s.channel = asked.channel AND s.lane = asked.lane
                  ORDER BY run_at LIMIT $3) AS few) AS counted;

-- name: spent
-- Drop claims, oldest first and $1 at most, in which nothing is queued any more under their token.
DELETE FROM dispatcher.claims c
 WHERE c.token = ANY (ARRAY(SELECT token FROM dispatcher.claims
                             WHERE claimed_at < statement_timestamp() - make_interval(secs => $2)
                             ORDER BY claimed_at LIMIT $1))
   AND NOT EXISTS (SELECT FROM dispatcher.delivery_state s
                    WHERE s.id = ANY (c.ids) AND s.token = c.token AND s.status = 'queued');

-- name: older
-- An epoch's claims older than $2 seconds in which something is queued and not held.
SELECT c.token FROM dispatcher.claims c
 WHERE c.epoch = $1 AND c.claimed_at < statement_timestamp() - make_interval(secs => $2)
   AND EXISTS (SELECT FROM dispatcher.delivery_state s
                WHERE s.id = ANY (c.ids) AND s.token = c.token AND s.status = 'queued' AND NOT s.held);

-- name: forget
-- Free a claim whose answer was lost: its owner knows of none of its deliveries, so none was marked.
SELECT dispatcher.forget_claim($1, $2);

-- name: fail_unserved
-- Fail up to $1 due deliveries whose channel no instance serves; answers how many. The channels that have something
-- ready are found by skipping through the index.
WITH RECURSIVE served AS MATERIALIZED (
    SELECT DISTINCT unnest(channels) AS channel FROM dispatcher.instances
), waiting AS (
    (SELECT channel FROM dispatcher.delivery_state WHERE ready ORDER BY channel LIMIT 1)
    UNION ALL
    SELECT (SELECT s.channel FROM dispatcher.delivery_state s WHERE s.ready AND s.channel > w.channel
             ORDER BY s.channel LIMIT 1)
      FROM waiting w WHERE w.channel IS NOT NULL
), unserved AS (
    SELECT s.id FROM waiting w JOIN dispatcher.delivery_state s ON s.channel = w.channel
     WHERE w.channel NOT IN (SELECT channel FROM served) AND EXISTS (SELECT FROM served)
       AND s.ready AND s.run_at <= statement_timestamp()
     LIMIT $1 FOR UPDATE OF s SKIP LOCKED
), failed AS (
    UPDATE dispatcher.delivery_state s
       SET status = 'failed', ready = false, finished_at = statement_timestamp(),
           error = 'channel: ' || s.channel || ' is served by no instance'
      FROM unserved u WHERE s.id = u.id
    RETURNING s.id
)
SELECT count(*) FROM failed;
