-- name: accepted
-- Write what providers took, and drop the claims ($5) that this batch completes. Answers the ids that were not ours.
-- What a row must be is compared with columns of `asked`, for the sake of the plan: see the mark.
WITH asked AS MATERIALIZED (
    SELECT id, token, status, provider_message_id, true AS marked, 'queued' AS was
      FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) AS r (id, token, status, provider_message_id),
           (SELECT set_config('synchronous_commit', 'on', true)) AS durable
), ended AS (
    UPDATE dispatcher.delivery_state s
       SET status = a.status, held = false, finished_at = statement_timestamp(), error = NULL,
           provider_message_id = a.provider_message_id
      FROM asked a WHERE s.id = a.id AND s.token = a.token AND s.marked = a.marked AND s.status = a.was
    RETURNING s.id
), spent AS (
    DELETE FROM dispatcher.claims WHERE token = ANY ($5::bigint[])
)
SELECT id FROM asked WHERE id NOT IN (SELECT id FROM ended);

-- name: others
-- Write every other ending: failed and skipped for good, held, or ready again after $6 seconds. $7 gives the attempt
-- back, where it had been counted. Answers the ids that were not ours.
WITH asked AS MATERIALIZED (
    SELECT id, token, status, held, reason, delay_seconds, give_back, 'queued' AS was, false AS was_held
      FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::text[], $6::float8[], $7::boolean[])
           AS r (id, token, status, held, reason, delay_seconds, give_back),
           (SELECT set_config('synchronous_commit', 'on', true)) AS durable
), moved AS (
    UPDATE dispatcher.delivery_state s
       SET status = a.status, held = a.held,
           ready = a.status = 'queued' AND NOT a.held,
           token = CASE WHEN a.status = 'queued' AND NOT a.held THEN NULL ELSE s.token END,
           marked = s.marked AND (a.status <> 'queued' OR a.held),
           attempt = s.attempt - (a.give_back AND s.marked)::int::smallint,
           run_at = CASE WHEN a.status = 'queued' AND NOT a.held
                         THEN greatest(s.run_at, statement_timestamp() + make_interval(secs => a.delay_seconds))
                         ELSE s.run_at END,
           error = CASE WHEN a.give_back THEN s.error ELSE a.reason END,
           finished_at = CASE WHEN a.status <> 'queued' THEN statement_timestamp() END
      FROM asked a WHERE s.id = a.id AND s.token = a.token AND s.status = a.was AND s.held = a.was_held
    RETURNING s.id, s.attempt, s.run_at, s.ready, a.token, a.reason, a.give_back
), kept AS (
    INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, next_at, reason)
    SELECT id, token, attempt, 'retry', run_at, reason FROM moved WHERE ready AND NOT give_back
), spent AS (
    DELETE FROM dispatcher.claims WHERE token = ANY ($8::bigint[])
)
SELECT id FROM asked WHERE id NOT IN (SELECT id FROM moved);

-- name: late
-- A result whose claim was no longer its owner's: what it knows is kept, and settles what it can.
SELECT dispatcher.late_result_v1($1, $2, $3, $4, $5, $6);
