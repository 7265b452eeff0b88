-- Send an event to a run. Refuses what is wrong with it.
SELECT dispatcher.signal_run($1, $2, $3::text::jsonb, $4, $5, $6);
