-- Where a delivery stands, by its id or its key.
SELECT id, idempotency_key, channel, recipient, lane, life, status, attempt, max_attempts, run_at, finished_at,
       provider_message_id, error
  FROM dispatcher.delivery_status($1, $2, $3, $4);
