-- name: close
-- Count what has become of deliveries of up to $1 jobs, and close what is done; answers how many jobs.
SELECT dispatcher.close_jobs($1);

-- name: lock
-- Lock a job of a run that has room; answers its id.
SELECT dispatcher.lock_job($1, $2);

-- name: expand
-- Write the deliveries of a job; answers how many, null where it is not ours.
SELECT dispatcher.expand_job($1, $2);

-- name: fail
-- The expansion of a job has failed on its data; answers queued, dead or lost.
SELECT dispatcher.fail_job($1, $2, $3, $4);

-- name: take_back
-- Take back up to $3 jobs whose owner is dead.
SELECT queued, dead FROM dispatcher.take_back_jobs($1, $2, $3);

-- name: release
-- Free the jobs that an instance has locked.
SELECT dispatcher.release_jobs($1);

-- name: space
-- Give what is written of runs whose rate was changed its new times.
SELECT dispatcher.space_campaigns();

-- name: skip_cancelled
-- Skip up to $1 deliveries of cancelled runs.
SELECT dispatcher.skip_cancelled($1);

-- name: count_deferred
-- Look up how much of runs without room waits for a later time.
SELECT dispatcher.count_deferred($1);

-- name: check_counters
-- Compare the counters of a finished run with its deliveries; answers how many jobs were wrong, null without such a run.
SELECT dispatcher.check_campaign_counters();

-- name: wanted
-- Whether a run is open or unchecked, a result uncounted, or a job locked.
SELECT EXISTS (SELECT FROM dispatcher.campaign_runs WHERE finished_at IS NULL)
       OR EXISTS (SELECT FROM dispatcher.campaign_runs WHERE checked_at IS NULL AND finished_at IS NOT NULL)
       OR EXISTS (SELECT FROM dispatcher.job_results)
       OR EXISTS (SELECT FROM dispatcher.job_queue WHERE status = 'locked' AND expanded_at IS NULL);

-- name: open
-- Whether any run is open.
SELECT EXISTS (SELECT FROM dispatcher.campaign_runs WHERE finished_at IS NULL);

-- name: progress
-- The runs that have not ended (a thousand at most) by status, their deliveries by state, and the jobs that are to be expanded,
-- counted to $1 at most.
SELECT (SELECT count(*) FROM (SELECT FROM dispatcher.job_queue WHERE status = 'queued' LIMIT $1) AS few) AS jobs_waiting,
       count(*) FILTER (WHERE r.status = 'queued') AS queued, count(*) FILTER (WHERE r.status = 'running') AS running,
       coalesce(sum(r.intended), 0)::bigint AS intended, coalesce(sum(r.expanded), 0)::bigint AS expanded,
       coalesce(sum(r.sent), 0)::bigint AS sent, coalesce(sum(r.failed), 0)::bigint AS failed,
       coalesce(sum(r.skipped), 0)::bigint AS skipped, coalesce(sum(r.held), 0)::bigint AS held
  FROM (SELECT * FROM dispatcher.campaign_runs WHERE finished_at IS NULL ORDER BY id LIMIT 1000) AS r;
