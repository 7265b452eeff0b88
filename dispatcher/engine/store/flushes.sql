-- name: accepted
-- Write what providers took, and drop the claims ($5) that this batch completes. Answers by the number of rows: those that
-- were not ours are looked up only where it is too small. Runs and jobs that wait are served by the triggers of the state
-- row, one by one; a batch that has some is written by accepted_awaited.
-- What a row must be is compared with columns of `asked`, for the sake of the plan: see the mark.
WITH durable AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'on', true)
), spent AS (
    DELETE FROM dispatcher.claims WHERE token = ANY ($5::bigint[])
)
UPDATE dispatcher.delivery_state s
   SET status = a.status, finished_at = statement_timestamp(), error = NULL, provider_message_id = a.provider_message_id
  FROM durable, (SELECT id, token, status, provider_message_id, true AS marked, 'queued' AS was, false AS was_held
                   FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) AS r (id, token, status, provider_message_id)
                 OFFSET 0) AS a
 WHERE s.id >= a.id AND s.id <= a.id AND s.token = a.token AND s.marked = a.marked AND s.status = a.was AND s.held = a.was_held;

-- name: accepted_awaited
-- The same, and wake the runs and count for the jobs that wait, all at once. Answers the number of rows.
WITH asked AS MATERIALIZED (
    SELECT id, token, status, provider_message_id, true AS marked, 'queued' AS was, false AS was_held
      FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) AS r (id, token, status, provider_message_id),
           (SELECT set_config('synchronous_commit', 'on', true), set_config('dispatcher.flushing', 'on', true)) AS durable
), ended AS (
    UPDATE dispatcher.delivery_state s
       SET status = a.status, finished_at = statement_timestamp(), error = NULL,
           provider_message_id = a.provider_message_id
      FROM asked a WHERE s.id >= a.id AND s.id <= a.id AND s.token = a.token AND s.marked = a.marked AND s.status = a.was
        AND s.held = a.was_held
    RETURNING s.job_id, s.wakes, s.lane
), woken AS (
    INSERT INTO dispatcher.wakes (run_id, lane) SELECT wakes, lane FROM ended WHERE wakes IS NOT NULL
), counted AS (
    INSERT INTO dispatcher.job_results (job_id, class, count)
    SELECT job_id, 'sent', count(*) FROM ended WHERE job_id IS NOT NULL GROUP BY job_id
), spent AS (
    DELETE FROM dispatcher.claims WHERE token = ANY ($5::bigint[])
)
SELECT count(*) FROM ended;

-- name: unwritten
-- Of accepted ones that were asked for, those that do not stand as written under their token: they were not ours. A delivery
-- can stand here twice, by two claims, and be ours by the later one.
SELECT a.id, a.token FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS a (id, token, status)
 WHERE NOT EXISTS (SELECT FROM dispatcher.delivery_state s
                    WHERE s.id >= a.id AND s.id <= a.id AND s.token = a.token AND s.status = a.status OFFSET 0);

-- name: answers
-- Store the answers of functions before their deliveries end: a reader of the end finds the answer. It goes by the token, so
-- that one that was fenced is evidence and nothing else.
WITH durable AS MATERIALIZED (SELECT set_config('synchronous_commit', 'on', true))
INSERT INTO dispatcher.delivery_answers (delivery_id, token, data)
SELECT a.id, a.token, a.data::jsonb FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS a (id, token, data), durable
ON CONFLICT (delivery_id, token) DO NOTHING;

-- name: others
-- Write every other ending: failed and skipped for good, held, parked, or ready again after a delay. `give_back` gives
-- the attempt back, where it had been counted; `conclusive` says that no earlier attempt has gone out either, and without
-- it one that is unknown makes the end a hold; `passed` that the channel's next provider is to take it, and that the
-- attempt does not count. An address that a provider knows to be dead ($15 to $19) is suppressed in
-- the same transaction, whoever has the claim now: that is evidence. Answers those that were not ours.
WITH asked AS MATERIALIZED (
    SELECT r.*, 'queued' AS was, false AS was_held
      FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::text[], $6::float8[], $7::boolean[],
                  $8::boolean[], $9::bigint[], $10::text[], $11::float8[], $12::boolean[], $13::boolean[])
           AS r (id, token, status, held, reason, delay_seconds, give_back, throttled, pause_id, resent_by, key_seconds,
                 conclusive, passed),
           (SELECT set_config('synchronous_commit', 'on', true), set_config('dispatcher.flushing', 'on', true)) AS durable
), moved AS (
    UPDATE dispatcher.delivery_state s
       SET status = a.status, held = a.held,
           ready = a.status = 'queued' AND NOT a.held AND a.pause_id IS NULL,
           token = CASE WHEN a.status = 'queued' AND NOT a.held THEN NULL ELSE s.token END,
           marked = s.marked AND (a.status <> 'queued' OR a.held),
           attempt = s.attempt - (a.give_back AND s.marked)::int::smallint,
           attempt_base = s.attempt_base + (a.passed AND NOT a.give_back)::int::smallint,
           passed = CASE WHEN s.marked THEN a.passed ELSE s.passed END,
           run_at = CASE WHEN a.status = 'queued' AND NOT a.held
                         THEN greatest(s.run_at, statement_timestamp() + make_interval(secs => a.delay_seconds))
                         ELSE s.run_at END,
           error = CASE WHEN a.give_back THEN s.error ELSE a.reason END,
           held_at = CASE WHEN a.held THEN statement_timestamp() END,
           throttled_since = CASE WHEN a.throttled THEN coalesce(s.throttled_since, statement_timestamp())
                                  WHEN a.give_back THEN s.throttled_since END,
           resend_until = CASE WHEN a.conclusive THEN NULL
                               WHEN a.resent_by IS NULL THEN s.resend_until
                               ELSE least(s.resend_until, coalesce(
                                   s.key_used_at + make_interval(secs => a.key_seconds), 'infinity')) END,
           finished_at = CASE WHEN a.status <> 'queued' THEN statement_timestamp() END
      FROM asked a WHERE s.id >= a.id AND s.id <= a.id AND s.token = a.token AND s.status = a.was AND s.held = a.was_held
    RETURNING s.id, s.attempt, s.run_at, s.ready, s.status, s.held, s.error, s.job_id, a.token, a.reason, a.give_back,
              a.pause_id, a.resent_by, s.wakes, s.lane, s.provider
), woken AS (
    INSERT INTO dispatcher.wakes (run_id, lane) SELECT wakes, lane FROM moved WHERE wakes IS NOT NULL AND status <> 'queued'
), counted AS (
    INSERT INTO dispatcher.job_results (job_id, class, reason, count)
    SELECT m.job_id, m.class, CASE WHEN m.class IN ('sent', 'held') THEN '' ELSE dispatcher.result_reason(m.error) END, count(*)
      FROM (SELECT job_id, error, dispatcher.result_class(status, held, error) AS class FROM moved WHERE job_id IS NOT NULL) AS m
     WHERE m.class IS NOT NULL GROUP BY 1, 2, 3
), kept AS (
    INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, next_at, reason, resent_by, provider)
    SELECT id, token, attempt, CASE WHEN resent_by IS NULL THEN 'retry' ELSE 'unknown' END, run_at, reason, resent_by, provider
      FROM moved WHERE ready AND NOT give_back
), parked AS (
    INSERT INTO dispatcher.parked (delivery_id, pause_id) SELECT id, pause_id FROM moved WHERE pause_id IS NOT NULL
    ON CONFLICT (delivery_id) DO UPDATE SET pause_id = excluded.pause_id
), spent AS (
    DELETE FROM dispatcher.claims WHERE token = ANY ($14::bigint[])
), suppressed AS (
    INSERT INTO dispatcher.suppressions (tenant_id, kind, address, channel, source, actor, reason)
    SELECT DISTINCT ON (tenant_id, kind, address, channel) tenant_id, kind, address, channel, 'bounce', 'dispatcher', reason
      FROM unnest($15::text[], $16::text[], $17::text[], $18::text[], $19::text[])
        AS dead (tenant_id, kind, address, channel, reason)
     ORDER BY tenant_id, kind, address, channel
    ON CONFLICT ON CONSTRAINT suppressions_pkey DO UPDATE
       SET added_at = statement_timestamp(), expires_at = NULL, actor = excluded.actor, reason = excluded.reason
     WHERE suppressions.expires_at IS NOT NULL
)
SELECT id, token FROM asked WHERE (id, token) NOT IN (SELECT id, token FROM moved);

-- name: late
-- A result whose claim was no longer its owner's: what it knows is kept, and settles what it can.
SELECT dispatcher.late_result($1, $2, $3, $4, $5, $6);
