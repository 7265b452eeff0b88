-- Where a run stands.
SELECT execution_id, workflow_name, version, status, current_steps, total_steps, idempotency_key, triggered_by, retry_count,
       error, error_step, note, input::text, context::text, held, deliveries_total, available_at, created_at, started_at,
       finished_at
  FROM dispatcher.run_status($1, $2, $3);
