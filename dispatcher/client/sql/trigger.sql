-- Start a run, or find the one that its key has started. Refuses with everything that is missing.
SELECT execution_id, workflow_name, version, total_steps, duplicate
  FROM dispatcher.trigger_workflow($1, $2::text::jsonb, $3, $4, $5, $6, traceparent => $7);
