-- name: settle
-- Let enrolments go on whose step was sent, as their last walk has said (`then`): up to $1 wakes. Answers how many, how many
-- of them are completed, and the youngest wake up to which all were looked at; null where there were more than $1. What is not as that walk took for granted (a step that was not sent, a pause of the sequence since then, one
-- that somebody has set going meanwhile) keeps its wakes: it is walked. A crash that forgets this forgets that the wakes are gone.
WITH unhurried AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)), looked AS MATERIALIZED (
    SELECT ctid AS wake, id, run_id FROM dispatcher.wakes ORDER BY lane DESC, run_id DESC, id DESC LIMIT $1
), woken AS MATERIALIZED (
    SELECT w.wake, r.id, r.workflow_id, r.state
      FROM unhurried, looked AS w,
           LATERAL (SELECT id, workflow_id, state FROM dispatcher.runs
                     WHERE id = w.run_id AND contact_id IS NOT NULL AND status = 'running' AND available_at IS NULL
                       AND parked_by IS NULL AND takes = 0 AND NOT slow AND state ? 'then'
                       FOR UPDATE SKIP LOCKED) AS r
), sent AS MATERIALIZED (
    SELECT k.wake, k.id, t.until, t.anchor,
           k.state - '{then,working_since}'::text[] || jsonb_build_object('cursor', coalesce(t.cursor, '{}')) AS state
      FROM woken k, jsonb_to_record(k.state -> 'then') AS t (node text, since float8, cursor jsonb, until float8, anchor float8)
     WHERE (SELECT bool_and(s.status IN ('sent', 'called', 'posted'))
              FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
             WHERE d.run_id = k.id AND d.node = t.node)
       AND NOT EXISTS (SELECT FROM dispatcher.pauses p
                        WHERE p.scope = 'sequence' AND p.name = k.workflow_id::text
                          AND (p.ended_at IS NULL OR p.ended_at > to_timestamp(t.since)))
), gone AS (
    DELETE FROM dispatcher.wakes WHERE ctid = ANY (ARRAY(SELECT wake FROM sent))
), settled AS (
    UPDATE dispatcher.runs r
       SET status = CASE WHEN s.until IS NULL THEN 'completed' ELSE 'waiting' END, available_at = to_timestamp(s.until),
           finished_at = CASE WHEN s.until IS NULL THEN statement_timestamp() END, state = s.state,
           anchor = coalesce(to_timestamp(s.anchor), r.anchor), error = NULL, error_node = NULL
      FROM sent s WHERE r.id = s.id
    RETURNING r.finished_at
)
SELECT count(*), count(finished_at), (SELECT CASE WHEN count(*) < $1 THEN coalesce(max(id), 0) END FROM looked) FROM settled;
