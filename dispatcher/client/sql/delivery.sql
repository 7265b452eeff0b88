-- Where a delivery stands, by its id or its key. Of a time that Python cannot say, the nearest that it can.
SELECT id, idempotency_key, channel, recipient, lane, life, status, attempt, max_attempts,
       CASE WHEN run_at IS NOT NULL THEN least(greatest(run_at, '0001-01-01Z'), '9999-12-31 23:59:59.999999Z') END AS run_at,
       finished_at, provider_message_id, error, waits
  FROM dispatcher.delivery_status($1, $2, $3, $4);
