-- Actions: who saved or deleted which campaign. What was done to a run is in campaign_events.

CREATE TABLE dispatcher.campaign_actions (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    version      integer NOT NULL,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    campaign     text NOT NULL,
    actor        text NOT NULL CHECK (actor <> ''),
    action       text NOT NULL CHECK (action IN ('create', 'change', 'delete'))
);
COMMENT ON COLUMN dispatcher.campaign_actions.campaign IS 'its name: a campaign may be deleted';
CREATE INDEX campaign_actions_of_workspace ON dispatcher.campaign_actions (tenant_id, workspace_id, at, id);
CALL dispatcher.isolate('dispatcher.campaign_actions', p_records => true);

-- A row does not say who deletes it: the setting dispatcher.actor does, for its transaction.
CREATE FUNCTION dispatcher.campaign_actions_are_kept() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    said  CONSTANT dispatcher.campaigns := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    actor CONSTANT text := CASE WHEN TG_OP = 'DELETE' THEN coalesce(nullif(current_setting('dispatcher.actor', true), ''), session_user)
                                ELSE said.updated_by END;
BEGIN
    INSERT INTO dispatcher.campaign_actions (version, tenant_id, workspace_id, campaign, actor, action)
    VALUES (said.version, said.tenant_id, said.workspace_id, said.name, actor,
            CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'change' ELSE 'delete' END);
    RETURN NULL;
END $$;

-- A row that was not created by its transaction comes out of a dump, as its actions do.
CREATE TRIGGER campaign_created AFTER INSERT ON dispatcher.campaigns
    FOR EACH ROW WHEN (NEW.created_at = now()) EXECUTE FUNCTION dispatcher.campaign_actions_are_kept();
CREATE TRIGGER campaign_deleted AFTER DELETE ON dispatcher.campaigns
    FOR EACH ROW EXECUTE FUNCTION dispatcher.campaign_actions_are_kept();
CREATE TRIGGER campaign_changed AFTER UPDATE ON dispatcher.campaigns
    FOR EACH ROW WHEN (NEW.version <> OLD.version) EXECUTE FUNCTION dispatcher.campaign_actions_are_kept();

REVOKE ALL ON FUNCTION dispatcher.campaign_actions_are_kept FROM PUBLIC;
GRANT SELECT ON dispatcher.campaign_actions TO dispatcher_tenant;
