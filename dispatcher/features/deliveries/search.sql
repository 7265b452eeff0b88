-- name: newest
-- The ids of the newest deliveries below $1, $2 at most, of a tenant and workspace where given.
SELECT id FROM dispatcher.deliveries
 WHERE id < $1 AND ($3::text IS NULL OR tenant_id = $3) AND ($4::text IS NULL OR workspace_id = $4)
 ORDER BY id DESC LIMIT $2;

-- name: newest_to
-- The same of those whose recipient looks like $5.
SELECT id FROM dispatcher.sent_to($3, $4, ARRAY[$5::text]) AS sent (id) WHERE id < $1 ORDER BY id DESC LIMIT $2;

-- name: newest_of_run
-- The same of those of run $5.
SELECT id FROM dispatcher.deliveries
 WHERE run_id = $5 AND id < $1 AND ($3::text IS NULL OR tenant_id = $3) AND ($4::text IS NULL OR workspace_id = $4)
 ORDER BY id DESC LIMIT $2;

-- name: matching
-- The ids of those of the deliveries $1 that match, the newest first, $2 at most: by life, channel, template, campaign, words of the
-- error, and time. Each is looked up by its id: Postgres 15 went through the whole primary key instead.
SELECT l.id
  FROM unnest($1::bigint[]) AS asked (id),
       LATERAL (SELECT * FROM dispatcher.visible_delivery_life WHERE id = asked.id LIMIT 1) AS l,
       LATERAL (SELECT template_name, job_id, run_id, created_at FROM dispatcher.deliveries WHERE id = asked.id LIMIT 1) AS d
 WHERE ($3::text IS NULL OR l.life = $3 OR l.status = $3)
   AND ($4::text IS NULL OR l.channel = $4) AND ($5::text IS NULL OR d.template_name = $5)
   AND ($6::text IS NULL OR d.job_id IS NOT NULL
        AND d.run_id IN (SELECT k.id FROM dispatcher.campaign_runs k WHERE k.campaign = $6))
   AND ($7::text IS NULL OR position(lower($7) IN lower(l.error)) > 0)
   AND ($8::timestamptz IS NULL OR d.created_at >= $8) AND ($9::timestamptz IS NULL OR d.created_at < $9)
 ORDER BY l.id DESC LIMIT $2;

-- name: rows
-- These deliveries as a list shows them, the newest first.
SELECT l.*,
       CASE WHEN d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
            THEN (SELECT k.campaign FROM dispatcher.campaign_runs k WHERE k.id = d.run_id) END AS campaign,
       CASE WHEN l.status = 'queued' THEN dispatcher.waits_for(l.id) END AS waits
  FROM unnest($1::bigint[]) AS asked (id),
       LATERAL (SELECT * FROM dispatcher.visible_delivery_life WHERE id = asked.id LIMIT 1) AS l,
       LATERAL (SELECT job_id, run_id, contact_id FROM dispatcher.deliveries WHERE id = asked.id LIMIT 1) AS d
 ORDER BY l.id DESC;

-- name: at
-- The first delivery that was written at $1 or later, found by halving; past all where there is none. Ids are given out in about
-- the order of time.
SELECT dispatcher.delivery_at($1);
