-- Cancel a run.
SELECT dispatcher.cancel_run($1, $2, $3, $4, $5);
