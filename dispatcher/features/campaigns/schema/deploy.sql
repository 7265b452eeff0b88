-- Deployment: a campaign becomes a run with its jobs, in the transaction of the caller.

-- A run of a campaign, everything frozen. No row where its key is taken.
CREATE FUNCTION dispatcher.open_campaign_run(
    p_campaign dispatcher.campaigns, p_scheduled_for timestamptz, p_key text, p_actor text, p_test boolean
) RETURNS dispatcher.campaign_runs
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run    dispatcher.campaign_runs;
    fault  text := dispatcher.template_fault(p_campaign.tenant_id, p_campaign.workspace_id, p_campaign.template_name, p_campaign.channel);
BEGIN
    IF fault IS NOT NULL THEN
        PERFORM dispatcher.refuse('the campaign cannot be deployed: template: ' || fault, dispatcher.fault('$.template', fault));
    END IF;
    INSERT INTO dispatcher.campaign_runs AS r
           (campaign_id, tenant_id, workspace_id, campaign, channel, lane, scheduled_for, idempotency_key, test, template_name,
            template_version, variables, reads, topic, rate, send_window, created_by, frozen_at)
    SELECT p_campaign.id, p_campaign.tenant_id, p_campaign.workspace_id, p_campaign.name, p_campaign.channel, p_campaign.lane,
           coalesce(p_scheduled_for, statement_timestamp()), p_key, p_test, p_campaign.template_name, t.published,
           p_campaign.variables, ARRAY(SELECT v FROM unnest(n.variables) AS v WHERE v = 'contact' OR v LIKE 'contact.%'),
           p_campaign.topic, p_campaign.rate, p_campaign.send_window, p_actor, pg_snapshot_xmin(pg_current_snapshot())
      FROM dispatcher.templates t JOIN dispatcher.template_versions n ON n.id = t.published
     WHERE t.tenant_id = p_campaign.tenant_id AND t.workspace_id = p_campaign.workspace_id AND t.name = p_campaign.template_name
    ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
    RETURNING r.* INTO run;
    IF FOUND THEN PERFORM dispatcher.note_campaign(run.id, NULL, p_actor, 'status', NULL, 'queued', ''); END IF;
    RETURN run;
END $$;

-- Write down how many jobs a run has got, and wake an expander.
CREATE FUNCTION dispatcher.count_campaign_jobs(p_run_id bigint, p_actor text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    items bigint;
BEGIN
    INSERT INTO dispatcher.campaign_events (run_id, job_id, actor, event, status)
    SELECT p_run_id, j.id, p_actor, 'status', 'queued' FROM dispatcher.job_queue j WHERE j.run_id = p_run_id ORDER BY j.id;
    UPDATE dispatcher.campaign_runs r SET jobs = j.count, intended = j.intended
      FROM (SELECT count(*) AS count, coalesce(sum(q.intended), 0) AS intended FROM dispatcher.job_queue q WHERE q.run_id = p_run_id) AS j
     WHERE r.id = p_run_id RETURNING r.intended INTO items;
    PERFORM pg_notify('dispatcher_campaigns', '');
    RETURN items;
END $$;

-- The campaign of a name, which stays as it is until the transaction has ended.
CREATE FUNCTION dispatcher.lock_campaign(p_tenant_id text, p_workspace_id text, p_name text) RETURNS dispatcher.campaigns
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.campaigns;
BEGIN
    SELECT c.* INTO held FROM dispatcher.campaigns c
     WHERE c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id AND c.name = p_name FOR SHARE;
    IF NOT FOUND THEN
        PERFORM dispatcher.refuse(format('there is no campaign %s', coalesce(quote_literal(left(p_name, 101)), 'null')),
            dispatcher.fault('$.campaign', 'there is no such campaign'), 'P0002');
    END IF;
    RETURN held;
END $$;

-- Deploy a campaign: its run (queued) and jobs of at most 1,000 contacts, or nothing. A key that was used answers the run
-- that has it.
CREATE FUNCTION dispatcher.deploy_campaign(
    campaign text, scheduled_for timestamptz DEFAULT NULL, idempotency_key text DEFAULT NULL,
    tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default', actor text DEFAULT session_user,
    OUT run_id bigint, OUT status text, OUT intended bigint, OUT jobs integer, OUT duplicate boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    job_max   CONSTANT integer := 1000;
    tenant    CONSTANT text := coalesce(deploy_campaign.tenant_id, 'default');
    workspace CONSTANT text := coalesce(deploy_campaign.workspace_id, 'default');
    actor     CONSTANT text := coalesce(nullif(deploy_campaign.actor, ''), session_user);
    key       CONSTANT text := deploy_campaign.idempotency_key;
    said      dispatcher.campaigns;
    run       dispatcher.campaign_runs;
    faults    jsonb;
BEGIN
    PERFORM dispatcher.stay_within(tenant, workspace);
    IF length(key) NOT BETWEEN 1 AND 255 THEN
        PERFORM dispatcher.refuse('idempotency_key: expected 1 to 255 characters',
            dispatcher.fault('$.idempotency_key', 'expected 1 to 255 characters'));
    END IF;
    IF NOT isfinite(deploy_campaign.scheduled_for) THEN
        PERFORM dispatcher.refuse('scheduled_for: expected a time that comes', dispatcher.fault('$.scheduled_for', 'expected a time that comes'));
    END IF;
    duplicate := false;
    SELECT r.* INTO run FROM dispatcher.campaign_runs r
     WHERE r.tenant_id = tenant AND r.workspace_id = workspace AND r.idempotency_key = key;
    IF NOT FOUND THEN
        said := dispatcher.lock_campaign(tenant, workspace, deploy_campaign.campaign);
        faults := dispatcher.audience_faults(tenant, workspace, '$.audience', said.audience);
        IF faults <> '[]' THEN
            PERFORM dispatcher.refuse('the campaign cannot be deployed: ' || dispatcher.faults_in_words(faults), faults);
        END IF;
        run := dispatcher.open_campaign_run(said, deploy_campaign.scheduled_for, key, actor, false);
        IF run.id IS NOT NULL THEN
            EXECUTE format(
                $jobs$WITH chosen AS MATERIALIZED (SELECT ARRAY(SELECT a.id FROM (%s) AS a (id) ORDER BY a.id) AS ids)
                      INSERT INTO dispatcher.job_queue (run_id, tenant_id, workspace_id, job_type, intended, contact_ids)
                      SELECT $3, $1, $2, $4, cardinality(j.ids), j.ids
                        FROM (SELECT c.ids[n + 1 : n + $5] AS ids
                                FROM chosen c, generate_series(0, cardinality(c.ids) - 1, $5) AS n ORDER BY n) AS j$jobs$,
                dispatcher.audience_select(said.audience))
              USING tenant, workspace, run.id, dispatcher.job_type(run.channel), job_max;
            run.intended := dispatcher.count_campaign_jobs(run.id, actor);
            IF run.intended = 0 THEN
                PERFORM dispatcher.refuse('the campaign cannot be deployed: audience: nobody is in it',
                    dispatcher.fault('$.audience', 'nobody is in it'));
            END IF;
            run.jobs := (run.intended + job_max - 1) / job_max;
        ELSE
            SELECT r.* INTO STRICT run FROM dispatcher.campaign_runs r
             WHERE r.tenant_id = tenant AND r.workspace_id = workspace AND r.idempotency_key = key;
            duplicate := true;
        END IF;
    ELSE
        duplicate := true;
    END IF;
    IF run.campaign IS DISTINCT FROM deploy_campaign.campaign OR run.test THEN
        PERFORM dispatcher.refuse(format('the key %s was used for run %s of %s', quote_literal(key), run.id, run.campaign),
            dispatcher.fault('$.idempotency_key', format('was used for run %s of %s', run.id, run.campaign)), '23505');
    END IF;
    run_id := run.id;
    status := run.status;
    intended := run.intended;
    jobs := run.jobs;
END $$;

-- Send a campaign to given addresses first: a run of its own, in no total. What the template reads of a contact is taken from
-- a contact of the audience.
CREATE FUNCTION dispatcher.test_campaign(
    campaign text, recipients text[], tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default',
    actor text DEFAULT session_user, OUT run_id bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    recipients_max CONSTANT integer := 100;
    tenant    CONSTANT text := coalesce(test_campaign.tenant_id, 'default');
    workspace CONSTANT text := coalesce(test_campaign.workspace_id, 'default');
    actor     CONSTANT text := coalesce(nullif(test_campaign.actor, ''), session_user);
    asked     CONSTANT text[] := ARRAY(SELECT DISTINCT r FROM unnest(test_campaign.recipients) AS r WHERE r <> '');
    said      dispatcher.campaigns;
    run       dispatcher.campaign_runs;
BEGIN
    PERFORM dispatcher.stay_within(tenant, workspace);
    said := dispatcher.lock_campaign(tenant, workspace, test_campaign.campaign);
    IF cardinality(asked) NOT BETWEEN 1 AND recipients_max THEN
        PERFORM dispatcher.refuse(format('recipients: expected 1 to %s addresses', recipients_max),
            dispatcher.fault('$.recipients', format('expected 1 to %s addresses', recipients_max)));
    END IF;
    run := dispatcher.open_campaign_run(said, NULL, NULL, actor, true);
    INSERT INTO dispatcher.job_queue (run_id, tenant_id, workspace_id, job_type, intended, contact_ids, recipients)
    VALUES (run.id, tenant, workspace, dispatcher.job_type(run.channel), cardinality(asked),
            ARRAY(SELECT dispatcher.audience(tenant, workspace, said.audience, 1)), asked);
    PERFORM dispatcher.count_campaign_jobs(run.id, actor);
    run_id := run.id;
END $$;

REVOKE ALL ON FUNCTION dispatcher.open_campaign_run, dispatcher.count_campaign_jobs, dispatcher.lock_campaign,
    dispatcher.deploy_campaign, dispatcher.test_campaign FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.deploy_campaign, dispatcher.test_campaign TO dispatcher_tenant;
