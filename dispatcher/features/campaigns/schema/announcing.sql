-- Announcing: the end of a job or a run of a campaign is told to the webhook endpoints of its workspace, with its counters.

-- What an event says of a job or a run: how it has ended, and its counters then.
CREATE FUNCTION dispatcher.campaign_facts(p_row jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_object_agg(f.name, p_row -> f.name)
      FROM unnest('{status,intended,sent,failed,skipped,cancelled,expired,held,finished_at}'::text[]) AS f (name)
$$;

CREATE FUNCTION dispatcher.campaign_job_announced() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM dispatcher.webhook_endpoints e
                WHERE e.tenant_id = NEW.tenant_id AND e.workspace_id = NEW.workspace_id AND e.enabled)
       AND EXISTS (SELECT FROM dispatcher.campaign_runs r WHERE r.id = NEW.run_id AND NOT r.test) THEN
        PERFORM dispatcher.announce(NEW.tenant_id, NEW.workspace_id, 'campaign_job.' || NEW.status, NEW.id,
                                    dispatcher.campaign_facts(to_jsonb(NEW) - '{contact_ids,recipients}'::text[]));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER campaign_job_announced AFTER UPDATE OF status ON dispatcher.job_queue
    FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL AND NEW.status <> OLD.status)
    EXECUTE FUNCTION dispatcher.campaign_job_announced();

CREATE FUNCTION dispatcher.campaign_run_announced() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.announce(NEW.tenant_id, NEW.workspace_id, 'campaign_run.' || NEW.status, NEW.id,
                                dispatcher.campaign_facts(to_jsonb(NEW)));
    RETURN NULL;
END $$;

CREATE TRIGGER campaign_run_announced AFTER UPDATE OF status ON dispatcher.campaign_runs
    FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL AND NEW.status <> OLD.status AND NOT NEW.test)
    EXECUTE FUNCTION dispatcher.campaign_run_announced();

REVOKE ALL ON FUNCTION dispatcher.campaign_facts, dispatcher.campaign_job_announced, dispatcher.campaign_run_announced FROM PUBLIC;
