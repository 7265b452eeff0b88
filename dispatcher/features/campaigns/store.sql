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
-- Campaigns of one workspace by name with their last runs, behind $3, up to $4; with $5 those of a channel.
SELECT c.name, c.channel, c.template_name AS template, c.lane, c.topic, c.rate, c.version, c.updated_at, c.updated_by,
       (SELECT jsonb_build_object(
                   'id', r.id, 'status', r.status, 'paused', r.paused_at IS NOT NULL, 'cancelled', r.cancelled_at IS NOT NULL,
                   'scheduled_for', r.scheduled_for, 'created_at', r.created_at, 'intended', r.intended, 'sent', r.sent,
                   'failed', r.failed, 'skipped', r.skipped, 'cancelled_count', r.cancelled, 'expired', r.expired, 'held', r.held,
                   'waiting', r.intended - r.sent - r.failed - r.skipped - r.cancelled - r.expired - r.held)
          FROM dispatcher.campaign_runs r
         WHERE r.campaign_id = c.id AND NOT r.test ORDER BY r.created_at DESC, r.id DESC LIMIT 1)::text AS last_run
  FROM dispatcher.campaigns c
 WHERE c.tenant_id = $1 AND c.workspace_id = $2 AND c.name > $3 AND ($5::text IS NULL OR c.channel = $5)
 ORDER BY c.name LIMIT $4;

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
