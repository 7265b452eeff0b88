-- name: count
-- How many are held, by channel.
SELECT channel, count(*) AS deliveries FROM dispatcher.delivery_state WHERE held GROUP BY channel;

-- name: settle
-- Settle one as sent, failed or requeue.
SELECT dispatcher.settle_held($1, $2, $3, $4, $5);

-- name: overdue
-- Held deliveries of a channel that have waited longer than $2 seconds.
SELECT id FROM dispatcher.delivery_state
 WHERE held AND channel = $1 AND held_at < statement_timestamp() - make_interval(secs => $2)
   AND (settle_after IS NULL OR settle_after <= statement_timestamp())
 ORDER BY held_at LIMIT $3;

-- name: quarantine
-- Hold everything that is due and was created before a time, and pause the runs that may have come further.
SELECT deliveries, runs, campaign_runs FROM dispatcher.quarantine($1, $2, $3);

-- name: to_quarantine
-- How many deliveries a quarantine would hold, and how many runs it would pause.
SELECT (SELECT count(*) FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
         WHERE s.status = 'queued' AND NOT s.held AND (s.run_at <= statement_timestamp() OR s.token IS NOT NULL)
           AND d.created_at < $1) AS deliveries,
       (SELECT count(*) FROM dispatcher.suspect_runs($1, statement_timestamp())) AS runs,
       (SELECT count(*) FROM dispatcher.suspect_campaign_runs($1, statement_timestamp())) AS campaign_runs;

-- name: expire
-- Skip what waits, in the queue or for a pause to end, and has expired, or hold it where an attempt is unknown; says how
-- many.
WITH queued AS MATERIALIZED (
    SELECT id FROM dispatcher.delivery_state
     WHERE ready AND expires_at <= statement_timestamp() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
), waiting AS MATERIALIZED (
    SELECT s.id FROM dispatcher.parked p JOIN dispatcher.delivery_state s ON s.id = p.delivery_id
     WHERE s.expires_at <= statement_timestamp() AND s.status = 'queued' AND NOT s.ready AND NOT s.held
       AND s.token IS NULL
     LIMIT $1 FOR UPDATE OF s SKIP LOCKED
), late AS (
    SELECT id FROM queued UNION ALL SELECT id FROM waiting
), gone AS (
    UPDATE dispatcher.delivery_state s
       SET status = 'skipped', ready = false, finished_at = statement_timestamp(), error = 'expired'
      FROM late WHERE s.id = late.id
    RETURNING s.id
), freed AS (
    DELETE FROM dispatcher.parked p USING gone WHERE p.delivery_id = gone.id
)
SELECT count(*) FROM gone;

-- name: settle_by_evidence
-- A late Accepted that found its delivery in another attempt's hands decides, once that attempt is held.
WITH proven AS (
    SELECT DISTINCT ON (s.id) s.id, s.channel, e.token, e.provider_message_id
      FROM dispatcher.delivery_state s JOIN dispatcher.delivery_evidence e ON e.delivery_id = s.id
     WHERE s.held AND e.verdict = 'accepted' ORDER BY s.id
), ended AS (
    UPDATE dispatcher.delivery_state s
       SET status = CASE s.channel WHEN 'voice' THEN 'called' WHEN 'social' THEN 'posted' ELSE 'sent' END,
           held = false, held_at = NULL, settle_after = NULL, finished_at = statement_timestamp(), error = NULL,
           provider_message_id = p.provider_message_id, provider = dispatcher.provider_of(s.id, p.token, s.provider)
      FROM proven p WHERE s.id = p.id AND s.held
    RETURNING s.id, p.token
), noted AS (
    UPDATE dispatcher.delivery_evidence e SET resolved = true FROM ended
     WHERE e.delivery_id = ended.id AND e.token = ended.token
)
SELECT count(*) FROM ended;
