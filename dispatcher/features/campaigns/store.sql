-- name: put
-- Save a campaign.
SELECT answer, version, open_run FROM dispatcher.put_campaign($1, $2, $3, $4::jsonb, $5);

-- name: faults
-- What the database knows to be wrong with the fields of a campaign, as JSON.
SELECT dispatcher.campaign_faults($1, $2, $3::jsonb)::text;

-- name: delete
-- Delete a campaign.
SELECT answer, open_run FROM dispatcher.delete_campaign($1, $2, $3, $4);

-- name: lock_version
-- The version of a campaign, which is locked.
SELECT version FROM dispatcher.campaigns WHERE tenant_id = $1 AND workspace_id = $2 AND name = $3 FOR UPDATE;

-- name: list
-- Campaigns of one workspace by name, behind $3, up to $4; with $5 those of a channel.
SELECT name, channel, template_name AS template, lane, topic, rate, version, updated_at, updated_by
  FROM dispatcher.campaigns
 WHERE tenant_id = $1 AND workspace_id = $2 AND name > $3 AND ($5::text IS NULL OR channel = $5)
 ORDER BY name LIMIT $4;

-- name: show
-- One by its name, with its open run.
SELECT id, name, channel, template_name AS template, variables::text, audience::text, lane, topic, rate, send_window::text, version,
       created_at, updated_at, updated_by, dispatcher.open_run_of_campaign(id) AS open_run
  FROM dispatcher.campaigns WHERE tenant_id = $1 AND workspace_id = $2 AND name = $3;

-- name: plan
-- What a deployment would come to, by the first $6 contacts, with $7 of them as a sample, as JSON.
SELECT dispatcher.plan_campaign($1, $2, $3, $4::text[], $5::jsonb, $6, $7)::text;

-- name: deploy
-- Deploy a campaign; a key that was used answers its run.
SELECT run_id, status, intended, jobs, duplicate FROM dispatcher.deploy_campaign($1, $2, $3, $4, $5, $6);

-- name: test
-- Send a campaign to these addresses; answers the run.
SELECT dispatcher.test_campaign($1, $2::text[], $3, $4, $5);
