-- Deploy a campaign, or find the run that its key has made. Refuses with everything that is missing.
SELECT run_id, $1::text AS campaign, status, intended, jobs, duplicate
  FROM dispatcher.deploy_campaign($1, $2, $3, $4, $5, $6);
