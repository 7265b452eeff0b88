-- Restores: a run that came out of a backup may have come further since, so that it is paused until somebody resumes it.

-- Open runs that may have been expanded in another life of this database. One whose time comes after p_due has come nowhere.
CREATE FUNCTION dispatcher.suspect_campaign_runs(p_before timestamptz, p_due timestamptz) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.id FROM dispatcher.campaign_runs r
     WHERE r.finished_at IS NULL AND r.paused_at IS NULL AND r.cancelled_at IS NULL AND r.created_at < p_before
       AND NOT (r.status = 'queued' AND r.scheduled_for > p_due)
$$;

-- Pause them: nothing is expanded, and nothing that waits for its time is sent, until somebody resumes them.
CREATE FUNCTION dispatcher.quarantine_campaign_runs(
    p_before timestamptz, p_actor text, p_reason text, p_due timestamptz DEFAULT statement_timestamp()
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    why    CONSTANT text := 'quarantined: ' || p_reason;
    rested bigint := 0;
    run    dispatcher.campaign_runs;
BEGIN
    FOR run IN
        SELECT r.* FROM dispatcher.campaign_runs r
         WHERE r.finished_at IS NULL AND r.paused_at IS NULL AND r.cancelled_at IS NULL
           AND r.id IN (SELECT dispatcher.suspect_campaign_runs(p_before, p_due))
         ORDER BY r.id FOR NO KEY UPDATE
    LOOP
        UPDATE dispatcher.campaign_runs r SET paused_at = statement_timestamp(), note = why WHERE r.id = run.id;
        PERFORM dispatcher.pause('campaign_run', run.id::text, run.tenant_id, run.workspace_id, p_actor, why);
        PERFORM dispatcher.note_campaign(run.id, NULL, p_actor, 'pause', NULL, NULL, why);
        rested := rested + 1;
    END LOOP;
    RETURN rested;
END $$;

-- A run that was not created by the transaction that inserts it comes out of a dump. (Its deliveries are held one by one, and
-- `pauses` comes out of the same dump, with ids of its own: so nothing is written there.)
CREATE FUNCTION dispatcher.copied_campaign_runs_rest() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.paused_at := statement_timestamp();
    NEW.note := 'quarantined: created_at was given, as in a copy of one that may have come further';
    RETURN NEW;
END $$;

CREATE TRIGGER copied_campaign_runs_rest BEFORE INSERT ON dispatcher.campaign_runs
    FOR EACH ROW WHEN (NEW.created_at <> now() AND NEW.finished_at IS NULL AND NEW.paused_at IS NULL AND NEW.cancelled_at IS NULL)
    EXECUTE FUNCTION dispatcher.copied_campaign_runs_rest();

REVOKE ALL ON FUNCTION dispatcher.suspect_campaign_runs, dispatcher.quarantine_campaign_runs,
    dispatcher.copied_campaign_runs_rest FROM PUBLIC;
