-- Views in the words of the older interface.

-- The outbox in the older words. Skipped deliveries have no place in it.
CREATE VIEW dispatcher.rac_notification_outbox AS
SELECT d.id, d.tenant_id, d.workspace_id, d.idempotency_key, d.channel AS kind, d.recipient,
       d.channel || '_send' AS template, d.variables AS payload,
       CASE s.status WHEN 'queued' THEN CASE WHEN s.token IS NULL THEN 'pending' ELSE 'processing' END
                     WHEN 'failed' THEN 'failed'
                     ELSE 'succeeded' END AS status,
       s.attempt AS attempts, d.max_attempts, s.run_at, s.error AS last_error, d.created_at, s.finished_at
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
 WHERE s.status <> 'skipped';

CREATE VIEW dispatcher.rac_notification_logs AS
SELECT a.delivery_id AS outbox_id, a.ended_at AS logged_at, 'retry scheduled' AS event, a.attempt,
       a.next_at AS next_attempt_at, a.reason
  FROM dispatcher.delivery_attempts a WHERE a.next_at IS NOT NULL
UNION ALL
SELECT e.delivery_id, e.ended_at,
       CASE WHEN e.error LIKE 'exhausted:%' THEN 'exhausted'
            WHEN e.called OR e.error LIKE 'settled as failed:%' THEN 'failed'
            ELSE 'schedule failed' END,
       e.attempt, NULL, e.error
  FROM (SELECT id AS delivery_id, finished_at AS ended_at, attempt, marked AS called, status, error
          FROM dispatcher.delivery_state
        UNION ALL
        SELECT delivery_id, ended_at, attempt, called, status, error FROM dispatcher.reopened_ends) AS e
 WHERE e.status = 'failed' OR e.status = 'skipped' AND e.error = 'expired'
UNION ALL
-- A rule that could not be scheduled has no delivery.
SELECT NULL, e.created_at, 'schedule failed', 0::smallint, NULL, concat_ws('/', e.event_trigger, d.channel, d.audience) || ': ' || d.reason
  FROM dispatcher.event_decisions d JOIN dispatcher.events e ON e.id = d.event_id WHERE d.failed;
COMMENT ON VIEW dispatcher.rac_notification_logs IS
    'retry scheduled; exhausted; failed (its provider refused it, or an operator said so); schedule failed (it could not be '
    'given to its provider at all: what it says is faulty, nobody serves its channel, it kills its worker, it expired; or a rule '
    'failed, which has no delivery)';
