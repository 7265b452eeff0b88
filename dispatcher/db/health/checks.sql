-- name: every_delivery_has_a_state
-- A delivery without a state row would never be sent.
SELECT d.id FROM dispatcher.deliveries d LEFT JOIN dispatcher.delivery_state s USING (id) WHERE s.id IS NULL;

-- name: every_state_has_a_delivery
-- A state row without a delivery has nothing to send.
SELECT s.id FROM dispatcher.delivery_state s LEFT JOIN dispatcher.deliveries d USING (id) WHERE d.id IS NULL;

-- name: terminal_ones_have_an_outcome
-- A message that went out has its provider's id, or late evidence, or an operator's word; one that did not has its reason.
SELECT s.id FROM dispatcher.delivery_state s
 WHERE (s.status IN ('sent', 'called', 'posted') AND s.provider_message_id IS NULL
        AND NOT EXISTS (SELECT FROM dispatcher.operator_actions o WHERE o.delivery_id = s.id AND o.action = 'settle_sent'))
    OR (s.status IN ('failed', 'skipped') AND coalesce(s.error, '') = '')
    OR (s.status <> 'queued' AND s.finished_at IS NULL);

-- name: claimed_ones_are_named_by_a_claim
-- Whatever has an owner can be recovered from it: a claim names it under its token.
SELECT s.id FROM dispatcher.delivery_state s
 WHERE s.status = 'queued' AND s.token IS NOT NULL AND NOT s.held
   AND NOT EXISTS (SELECT FROM dispatcher.claims c WHERE c.token = s.token AND s.id = ANY (c.ids));

-- name: nothing_is_stuck
-- A queued delivery is ready, owned, held, or parked by a pause.
SELECT s.id FROM dispatcher.delivery_state s
 WHERE s.status = 'queued' AND NOT s.ready AND s.token IS NULL
   AND NOT EXISTS (SELECT FROM dispatcher.parked p WHERE p.delivery_id = s.id);

-- name: attempts_are_bounded
-- No delivery has more attempts than it may have.
SELECT s.id FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
 WHERE s.attempt - s.attempt_base > d.max_attempts OR s.attempt < s.attempt_base;

-- name: attempts_are_gapless
-- Every attempt but the one that stands on the state row is kept, and numbered 1, 2, 3.
SELECT s.id FROM dispatcher.delivery_state s
  LEFT JOIN (SELECT delivery_id, count(*) AS kept, max(attempt) AS newest FROM dispatcher.delivery_attempts
              GROUP BY delivery_id) a ON a.delivery_id = s.id
 WHERE coalesce(a.kept, 0) <> s.attempt - s.marked::int OR coalesce(a.newest, 0) <> coalesce(a.kept, 0);

-- name: unknown_attempts_were_sent_again_by_leave
-- After an unknown attempt only a provider's key, the channel's at_least_once or an operator allows another.
SELECT delivery_id AS id FROM dispatcher.delivery_attempts WHERE outcome = 'unknown' AND resent_by IS NULL;

-- name: unknown_attempts_stay_with_their_provider
-- What may have gone out by one provider is not sent by another, unless an operator has sent it again.
SELECT u.delivery_id AS id
  FROM dispatcher.delivery_attempts u JOIN dispatcher.delivery_state s ON s.id = u.delivery_id
  LEFT JOIN dispatcher.delivery_attempts n ON n.delivery_id = u.delivery_id AND n.attempt = u.attempt + 1
 WHERE u.outcome = 'unknown' AND u.resent_by IN ('key', 'at_least_once')
   AND (n.attempt IS NOT NULL OR s.marked AND s.attempt = u.attempt + 1)
   AND u.provider IS DISTINCT FROM CASE WHEN n.attempt IS NOT NULL THEN n.provider ELSE s.provider END
   AND NOT EXISTS (SELECT FROM dispatcher.operator_actions o
                    WHERE o.delivery_id = u.delivery_id AND o.at >= u.ended_at
                      AND o.action IN ('reopen', 'settle_requeue'));

-- name: what_may_have_gone_out_has_not_failed
-- After an unknown attempt only its provider or an operator can say that nothing was sent.
SELECT s.id FROM dispatcher.delivery_state s
 WHERE (s.status = 'skipped' OR s.status = 'failed' AND (NOT s.marked OR s.error LIKE 'exhausted:%'))
   AND EXISTS (SELECT FROM dispatcher.delivery_attempts a
                WHERE a.delivery_id = s.id AND a.outcome = 'unknown'
                  AND NOT EXISTS (SELECT FROM dispatcher.operator_actions o
                                   WHERE o.delivery_id = s.id AND o.at >= a.ended_at
                                     AND o.action IN ('reopen', 'settle_failed', 'settle_requeue')));

-- name: backoff_is_respected
-- No attempt ended before it was due, unless an operator moved or reopened its delivery.
SELECT later.delivery_id AS id
  FROM dispatcher.delivery_attempts earlier
  JOIN dispatcher.delivery_attempts later
    ON later.delivery_id = earlier.delivery_id AND later.attempt = earlier.attempt + 1
 WHERE earlier.outcome = 'retry' AND later.ended_at < earlier.next_at
   AND NOT EXISTS (SELECT FROM dispatcher.operator_actions o
                    WHERE o.delivery_id = earlier.delivery_id AND o.action IN ('move', 'reopen')
                      AND o.at BETWEEN earlier.ended_at AND later.ended_at);

-- name: held_ones_are_explained
-- A held delivery says since when and why.
SELECT s.id FROM dispatcher.delivery_state s
 WHERE s.held AND (s.held_at IS NULL OR coalesce(s.error, '') = '' OR s.token IS NULL OR (NOT s.marked AND s.token <> 0));

-- name: one_token_has_one_owner
-- A token carries its owner's epoch.
SELECT c.token AS id FROM dispatcher.claims c WHERE c.token >> 24 <> c.epoch;

-- name: one_delivery_has_one_owner
-- No delivery stands in two claims under the token that it carries.
SELECT c.id FROM (SELECT token, unnest(ids) AS id FROM dispatcher.claims) c
  JOIN dispatcher.delivery_state s ON s.id = c.id AND s.token = c.token
 GROUP BY c.id HAVING count(*) > 1;

-- name: no_evidence_is_thrown_away
-- A provider's word that it has the message settles a held delivery.
SELECT e.delivery_id AS id FROM dispatcher.delivery_evidence e JOIN dispatcher.delivery_state s ON s.id = e.delivery_id
 WHERE e.verdict = 'accepted' AND s.held;

-- name: open_runs_are_looked_at
-- An open run has a time to be looked at, or is woken by what it waits for: a delivery of a node that it is at, an event,
-- an operator.
SELECT r.id FROM dispatcher.runs r
 WHERE r.finished_at IS NULL AND r.available_at IS NULL AND r.status <> 'paused' AND r.parked_by IS NULL
   AND NOT jsonb_path_exists(r.state, '$.cursor.* ? (@.standing == "waiting")')
   AND NOT EXISTS (SELECT FROM dispatcher.wakes w WHERE w.run_id = r.id)
   AND NOT EXISTS (SELECT FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
                    WHERE d.run_id = r.id AND r.state -> 'cursor' ? d.node AND s.status = 'queued');

-- name: ended_runs_send_nothing
-- Queued deliveries of a run end with it, unless an operator has reopened them since.
SELECT s.id FROM dispatcher.runs r
  JOIN dispatcher.deliveries d ON d.run_id = r.id AND d.node IS NOT NULL
  JOIN dispatcher.delivery_state s ON s.id = d.id
 WHERE r.finished_at IS NOT NULL AND s.status = 'queued' AND NOT s.marked AND NOT s.held
   AND NOT EXISTS (SELECT FROM dispatcher.operator_actions o
                    WHERE o.delivery_id = s.id AND o.action = 'reopen' AND o.at > r.finished_at);

-- name: logs_of_runs_are_gapless
-- The entries of a run are numbered 0, 1, 2, and it knows how many they are.
SELECT r.id FROM dispatcher.runs r
  LEFT JOIN (SELECT run_id, count(*) AS kept, min(number) AS first, max(number) AS last FROM dispatcher.run_entries
              GROUP BY run_id) e ON e.run_id = r.id
 WHERE coalesce(e.kept, 0) <> coalesce((r.state ->> 'entries')::integer, 0)
    OR e.first <> 0 OR e.last <> e.kept - 1;

-- name: failed_runs_are_explained
-- A failed run has its reason, and is a dead letter until it is discarded.
SELECT r.id FROM dispatcher.runs r
 WHERE (r.status = 'failed' AND (coalesce(r.error, '') = '' OR r.dead <> (r.discarded_at IS NULL)))
    OR (r.status <> 'failed' AND r.dead);

-- name: deliveries_of_nodes_have_runs
-- A delivery that a node has ordered belongs to a run, which its end wakes.
SELECT d.id FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
 WHERE (d.node IS NOT NULL AND NOT EXISTS (SELECT FROM dispatcher.runs r WHERE r.id = d.run_id))
    OR s.wakes IS DISTINCT FROM CASE WHEN d.node IS NOT NULL THEN d.run_id END;

-- name: walks_are_of_runs
-- Whoever finds that a walker has died over its runs finds the runs.
SELECT w.id FROM dispatcher.walks w
 WHERE NOT EXISTS (SELECT FROM dispatcher.runs r WHERE r.id = ANY (w.run_ids));

-- name: digests_are_led
-- No item is left with a run that will not collect it.
SELECT g.id FROM dispatcher.digests g
 WHERE g.is_open AND NOT EXISTS (SELECT FROM dispatcher.runs r WHERE r.id = g.run_id AND r.finished_at IS NULL);

-- name: dead_deliveries_are_listed
-- A delivery of no run, and of no job of a campaign, is a dead letter if it has failed, and only then.
SELECT s.id FROM dispatcher.delivery_state s
  LEFT JOIN dispatcher.dead_deliveries l ON l.delivery_id = s.id
 WHERE s.wakes IS NULL AND (s.status = 'failed' AND s.job_id IS NULL) <> (l.delivery_id IS NOT NULL);

-- name: channels_have_one_provider
-- All instances that may claim from a channel have the same provider for it.
SELECT DISTINCT i.epoch AS id
  FROM dispatcher.instances i, unnest(i.channels, i.providers) AS mine (channel, provider),
       dispatcher.instances o, unnest(o.channels, o.providers) AS its (channel, provider)
 WHERE its.channel = mine.channel AND its.provider <> mine.provider
   AND mine.channel <> ALL (i.yielded) AND its.channel <> ALL (o.yielded)
   AND (o.started_at, o.epoch) < (i.started_at, i.epoch);

-- name: counters_of_campaigns_equal_their_deliveries
-- What an ended run of a campaign has counted is what its deliveries say, unless they were deleted since.
SELECT q.id FROM dispatcher.campaign_runs r
  JOIN dispatcher.job_queue q ON q.run_id = r.id
 CROSS JOIN LATERAL (
       SELECT count(*) AS rows, count(*) FILTER (WHERE s.status IN ('sent', 'called', 'posted')) AS sent,
              count(*) FILTER (WHERE s.status = 'failed') AS failed, count(*) FILTER (WHERE s.status = 'skipped') AS skipped,
              count(*) FILTER (WHERE s.held) AS held
         FROM dispatcher.delivery_state s WHERE s.id BETWEEN q.first_id AND q.last_id AND s.job_id = q.id) AS c
 WHERE r.finished_at IS NOT NULL AND c.rows = q.intended
   AND (q.sent, q.failed, q.skipped + q.cancelled + q.expired, q.held) IS DISTINCT FROM (c.sent, c.failed, c.skipped, c.held)
   AND NOT EXISTS (SELECT FROM dispatcher.job_results j WHERE j.job_id = q.id);

-- name: runs_of_campaigns_equal_their_jobs
-- The jobs of a run of a campaign cover all that it intended, and its counters are the sums of theirs.
SELECT r.id FROM dispatcher.campaign_runs r
  LEFT JOIN (SELECT q.run_id, count(*) AS jobs, sum(q.intended) AS intended,
                    coalesce(sum(q.intended) FILTER (WHERE q.expanded_at IS NOT NULL), 0) AS expanded,
                    count(*) FILTER (WHERE q.status = 'completed') AS completed, count(*) FILTER (WHERE q.status = 'partial') AS partial,
                    count(*) FILTER (WHERE q.status = 'failed') AS failed, count(*) FILTER (WHERE q.status = 'dead') AS dead,
                    ARRAY[sum(q.sent), sum(q.failed), sum(q.skipped), sum(q.cancelled), sum(q.expired), sum(q.held)] AS counters
               FROM dispatcher.job_queue q GROUP BY 1) AS j ON j.run_id = r.id
 WHERE (r.jobs, r.intended, r.expanded, r.jobs_completed, r.jobs_partial, r.jobs_failed, r.jobs_dead)
           IS DISTINCT FROM (j.jobs, j.intended, j.expanded, j.completed, j.partial, j.failed, j.dead)
    OR ARRAY[r.sent, r.failed, r.skipped, r.cancelled, r.expired, r.held] IS DISTINCT FROM j.counters;

-- name: locked_jobs_have_owners
-- A job that a worker has locked and not expanded is taken back when the worker has died.
SELECT q.id FROM dispatcher.job_queue q
 WHERE q.status = 'locked' AND q.expanded_at IS NULL AND q.locked_at < statement_timestamp() - make_interval(secs => 2 * $1::float8)
   AND NOT EXISTS (SELECT FROM dispatcher.instances i WHERE i.epoch = q.locked_by)
   -- As long as anybody runs who could have done so.
   AND EXISTS (SELECT FROM dispatcher.instances i WHERE i.started_at < statement_timestamp() - make_interval(secs => 2 * $1::float8));

-- name: expanded_jobs_have_all_deliveries
-- An expansion writes a delivery for each contact of its job, or none.
SELECT q.id FROM dispatcher.job_queue q
 WHERE q.expanded_at IS NOT NULL AND q.finished_at IS NULL
   AND q.intended <> (SELECT count(*) FROM dispatcher.deliveries d WHERE d.id BETWEEN q.first_id AND q.last_id AND d.job_id = q.id);
