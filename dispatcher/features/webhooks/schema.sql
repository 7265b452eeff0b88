-- Webhooks of our own: what happens to deliveries, runs and campaigns is told to the endpoints of their workspace.
--
-- The map
--   webhook_endpoints  one row an endpoint: where it is, and what it wants to know
--   webhook_secrets    what its messages are signed with; two while it is rotated
--   webhook_actions    actor and reason of each creation, change, rotation, disabling and deletion
--   events         what has happened, once for each endpoint that wants to know it: notes for the announcer
--
-- How an event becomes a message
--   Whatever ends a delivery or a run, holds a delivery or records a receipt leaves a event in the same transaction, by
--   triggers. An announcer takes events out and writes a delivery on the channel `webhook` for each, both in one
--   transaction; from there on it is a delivery like all others. Its key is made of the endpoint, the event, what it is
--   about, and the event's number.
--
-- Campaigns
--   What becomes of a campaign's deliveries is told by the end of their job, with its counters, and by the end of the run: the
--   closer announces both in its transaction (features/campaigns). Their receipts are told one by one, like all others. Tests
--   announce nothing.
--
-- What it costs without an endpoint
--   An insert of deliveries looks up once a row, by an index, whether an endpoint wants its events, and writes
--   that on the state row (`announced`, null where none does, so that the row is no wider). The trigger on state rows has
--   that in its condition. So nothing is told of deliveries that were written before their workspace had an endpoint, and
--   nothing of deliveries on the channel `webhook` itself.
--
-- Secrets are kept as they are: what signs cannot be a hash.

CREATE FUNCTION dispatcher.of_deliveries(p_events text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM unnest(p_events) AS event WHERE event LIKE 'delivery.%')
$$;

CREATE TABLE dispatcher.webhook_endpoints (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    deleted_at    timestamptz,
    enabled       boolean NOT NULL DEFAULT true,
    of_deliveries boolean NOT NULL GENERATED ALWAYS AS (dispatcher.of_deliveries(events)) STORED,
    tenant_id     text NOT NULL,
    workspace_id  text NOT NULL,
    name          text NOT NULL,
    url           text NOT NULL,
    events        text[] NOT NULL,
    CONSTRAINT webhook_endpoints_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT webhook_endpoints_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    CONSTRAINT webhook_endpoints_url_form CHECK (url ~ '^https?://[!-~]+$' AND length(url) <= 2000),
    CONSTRAINT webhook_endpoints_events_some CHECK (cardinality(events) BETWEEN 1 AND 50),
    CONSTRAINT webhook_endpoints_deleted_is_over CHECK (deleted_at IS NULL OR NOT enabled)
);
COMMENT ON COLUMN dispatcher.webhook_endpoints.of_deliveries IS 'it wants to know something of deliveries';
CREATE UNIQUE INDEX webhook_endpoints_name ON dispatcher.webhook_endpoints (tenant_id, workspace_id, name)
    WHERE deleted_at IS NULL;
CREATE INDEX webhook_endpoints_listening ON dispatcher.webhook_endpoints (tenant_id, workspace_id, of_deliveries)
    WHERE enabled;
CALL dispatcher.isolate('dispatcher.webhook_endpoints');

CREATE TABLE dispatcher.webhook_secrets (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_id bigint NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    ends_at     timestamptz,
    secret      text NOT NULL CHECK (secret ~ '^whsec_[A-Za-z0-9+/]{32,86}={0,2}$')
);
COMMENT ON COLUMN dispatcher.webhook_secrets.ends_at IS 'of one that was rotated: it signs until then';
-- The one that holds, and one that it replaces.
CREATE UNIQUE INDEX webhook_secrets_new ON dispatcher.webhook_secrets (endpoint_id) WHERE ends_at IS NULL;
CREATE UNIQUE INDEX webhook_secrets_old ON dispatcher.webhook_secrets (endpoint_id) WHERE ends_at IS NOT NULL;
CALL dispatcher.isolate('dispatcher.webhook_secrets', 'endpoint_id', 'dispatcher.webhook_endpoints');

CREATE TABLE dispatcher.webhook_actions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_id bigint NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor       text NOT NULL CHECK (actor <> ''),
    action      text NOT NULL CHECK (action IN ('create', 'change', 'enable', 'disable', 'rotate', 'delete')),
    reason      text NOT NULL
);
CREATE INDEX webhook_actions_by_endpoint ON dispatcher.webhook_actions (endpoint_id, id);
CALL dispatcher.isolate('dispatcher.webhook_actions', 'endpoint_id', 'dispatcher.webhook_endpoints');

CREATE TABLE dispatcher.webhook_events (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_id  bigint NOT NULL,
    subject      bigint NOT NULL,
    at           timestamptz NOT NULL DEFAULT statement_timestamp(),
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    type         text NOT NULL,
    facts        jsonb NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
COMMENT ON COLUMN dispatcher.webhook_events.subject IS 'the delivery, the run, or the job or the run of a campaign';
COMMENT ON COLUMN dispatcher.webhook_events.facts IS 'what may be another by the time at which it is told';

-- Something has happened: a note for each endpoint of the workspace that wants to know it.
CREATE FUNCTION dispatcher.announce(
    p_tenant_id text, p_workspace_id text, p_type text, p_subject bigint, p_facts jsonb
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dispatcher.webhook_events (endpoint_id, tenant_id, workspace_id, type, subject, facts)
    SELECT e.id, e.tenant_id, e.workspace_id, p_type, p_subject, p_facts FROM dispatcher.webhook_endpoints e
     WHERE e.tenant_id = p_tenant_id AND e.workspace_id = p_workspace_id AND e.enabled
       AND e.events && ARRAY[p_type, split_part(p_type, '.', 1) || '.*'];
END $$;

-- Whatever ends or holds a delivery is told. It comes after all that may turn an end into a hold, by its name, and fires for
-- `ready` because of those. (BEFORE, since an AFTER trigger makes Postgres fetch every old row again.)
CREATE FUNCTION dispatcher.delivery_announced() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.announce(
        d.tenant_id, d.workspace_id,
        'delivery.' || CASE WHEN NEW.held THEN 'held'
                            WHEN NEW.status IN ('called', 'posted') THEN 'sent'
                            ELSE NEW.status END,
        NEW.id,
        jsonb_build_object('status', NEW.status, 'attempt', NEW.attempt, 'provider_message_id', NEW.provider_message_id,
                           'error', NEW.error, 'finished_at', NEW.finished_at))
       FROM dispatcher.deliveries d WHERE d.id = NEW.id;
    RETURN NEW;
END $$;

CREATE TRIGGER z_delivery_announced BEFORE UPDATE OF status, ready, held ON dispatcher.delivery_state
    FOR EACH ROW WHEN (NEW.announced AND (NEW.held AND NOT OLD.held OR NEW.status <> OLD.status AND NEW.status <> 'queued'))
    EXECUTE FUNCTION dispatcher.delivery_announced();

-- What a provider says about a delivery is told, the first of each kind.
CREATE FUNCTION dispatcher.receipt_announced() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.announce(
        d.tenant_id, d.workspace_id,
        'delivery.' || CASE WHEN NEW.kind IN ('bounced_soft', 'bounced_hard', 'failed') THEN 'bounced' ELSE NEW.kind END,
        s.id,
        jsonb_build_object('status', s.status, 'attempt', s.attempt,
                           'provider_message_id', coalesce(s.provider_message_id, NEW.provider_message_id),
                           'error', s.error, 'finished_at', s.finished_at,
                           'receipt', jsonb_build_object('kind', NEW.kind, 'at', NEW.said_at, 'provider', NEW.provider,
                                                         'reason', NEW.reason)))
       FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
      WHERE s.id = NEW.delivery_id AND (s.announced OR s.job_id IS NOT NULL);
    RETURN NULL;
END $$;

CREATE TRIGGER receipt_announced AFTER INSERT ON dispatcher.delivery_receipts
    FOR EACH ROW WHEN (NEW.kind <> 'sent') EXECUTE FUNCTION dispatcher.receipt_announced();

-- Announce the end of a run. Most workspaces have no endpoint: the rest is done where there is one.
CREATE FUNCTION dispatcher.run_announced() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM dispatcher.webhook_endpoints e
                    WHERE e.tenant_id = NEW.tenant_id AND e.workspace_id = NEW.workspace_id AND e.enabled) THEN
        RETURN NEW;
    END IF;
    PERFORM dispatcher.announce(
        NEW.tenant_id, NEW.workspace_id, 'run.' || NEW.status, NEW.id,
        jsonb_build_object('status', NEW.status, 'error', NEW.error, 'error_node', NEW.error_node, 'retries', NEW.retries,
                           'started_at', NEW.started_at, 'finished_at', NEW.finished_at));
    RETURN NEW;
END $$;

CREATE TRIGGER z_run_announced BEFORE UPDATE OF status ON dispatcher.runs
    FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL AND NEW.status <> OLD.status)
    EXECUTE FUNCTION dispatcher.run_announced();

-- Make an endpoint. Answers created, taken (its name is), or full (a workspace has so many already).
CREATE FUNCTION dispatcher.create_webhook(
    p_tenant_id text, p_workspace_id text, p_name text, p_url text, p_events text[], p_enabled boolean, p_secret text,
    p_most integer, p_actor text, p_reason text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_tenant_id || '/' || p_workspace_id, 12));
    IF (SELECT count(*) FROM dispatcher.webhook_endpoints e
         WHERE e.tenant_id = p_tenant_id AND e.workspace_id = p_workspace_id AND e.deleted_at IS NULL) >= p_most THEN
        RETURN 'full';
    END IF;
    INSERT INTO dispatcher.webhook_endpoints (tenant_id, workspace_id, name, url, events, enabled)
    VALUES (p_tenant_id, p_workspace_id, p_name, p_url, p_events, p_enabled)
    ON CONFLICT (tenant_id, workspace_id, name) WHERE deleted_at IS NULL DO NOTHING RETURNING id INTO made;
    IF made IS NULL THEN RETURN 'taken'; END IF;
    INSERT INTO dispatcher.webhook_secrets (endpoint_id, secret) VALUES (made, p_secret);
    INSERT INTO dispatcher.webhook_actions (endpoint_id, actor, action, reason) VALUES (made, p_actor, 'create', p_reason);
    RETURN 'created';
END $$;

-- The endpoint of a name, locked.
CREATE FUNCTION dispatcher.lock_webhook(p_tenant_id text, p_workspace_id text, p_name text)
RETURNS dispatcher.webhook_endpoints
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT e.* FROM dispatcher.webhook_endpoints e
     WHERE e.tenant_id = p_tenant_id AND e.workspace_id = p_workspace_id AND e.name = p_name AND e.deleted_at IS NULL
       FOR UPDATE
$$;

-- Let an endpoint be elsewhere, want to know something else, or nothing for a while. Answers changed, same or unknown.
CREATE FUNCTION dispatcher.change_webhook(
    p_tenant_id text, p_workspace_id text, p_name text, p_url text, p_events text[], p_enabled boolean, p_actor text,
    p_reason text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.webhook_endpoints := dispatcher.lock_webhook(p_tenant_id, p_workspace_id, p_name);
BEGIN
    IF held.id IS NULL THEN RETURN 'unknown'; END IF;
    IF (held.url, held.events, held.enabled) = (p_url, p_events, p_enabled) THEN RETURN 'same'; END IF;
    UPDATE dispatcher.webhook_endpoints SET url = p_url, events = p_events, enabled = p_enabled WHERE id = held.id;
    INSERT INTO dispatcher.webhook_actions (endpoint_id, actor, action, reason)
    VALUES (held.id, p_actor, CASE WHEN p_enabled = held.enabled THEN 'change' WHEN p_enabled THEN 'enable' ELSE 'disable' END,
            p_reason);
    RETURN 'changed';
END $$;

-- Give an endpoint another secret. The one that it had signs beside it for so much longer, one before that not any more.
-- Answers rotated or unknown.
CREATE FUNCTION dispatcher.rotate_webhook(
    p_tenant_id text, p_workspace_id text, p_name text, p_overlap interval, p_secret text, p_actor text, p_reason text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.webhook_endpoints := dispatcher.lock_webhook(p_tenant_id, p_workspace_id, p_name);
BEGIN
    IF held.id IS NULL THEN RETURN 'unknown'; END IF;
    DELETE FROM dispatcher.webhook_secrets WHERE endpoint_id = held.id AND ends_at IS NOT NULL;
    UPDATE dispatcher.webhook_secrets SET ends_at = statement_timestamp() + p_overlap WHERE endpoint_id = held.id;
    INSERT INTO dispatcher.webhook_secrets (endpoint_id, secret) VALUES (held.id, p_secret);
    INSERT INTO dispatcher.webhook_actions (endpoint_id, actor, action, reason) VALUES (held.id, p_actor, 'rotate', p_reason);
    RETURN 'rotated';
END $$;

-- Delete an endpoint, and its secrets. What is queued for it is skipped when its time comes. Answers deleted or unknown.
CREATE FUNCTION dispatcher.delete_webhook(
    p_tenant_id text, p_workspace_id text, p_name text, p_actor text, p_reason text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.webhook_endpoints := dispatcher.lock_webhook(p_tenant_id, p_workspace_id, p_name);
BEGIN
    IF held.id IS NULL THEN RETURN 'unknown'; END IF;
    UPDATE dispatcher.webhook_endpoints SET deleted_at = statement_timestamp(), enabled = false WHERE id = held.id;
    DELETE FROM dispatcher.webhook_secrets WHERE endpoint_id = held.id;
    INSERT INTO dispatcher.webhook_actions (endpoint_id, actor, action, reason) VALUES (held.id, p_actor, 'delete', p_reason);
    RETURN 'deleted';
END $$;

-- An endpoint has answered that it wants nothing any more. False where it was disabled already, or is elsewhere by now.
CREATE FUNCTION dispatcher.webhook_gone(p_id bigint, p_url text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE dispatcher.webhook_endpoints SET enabled = false WHERE id = p_id AND url = p_url AND enabled;
    IF NOT FOUND THEN RETURN false; END IF;
    INSERT INTO dispatcher.webhook_actions (endpoint_id, actor, action, reason)
    VALUES (p_id, 'dispatcher', 'disable', 'it answered with 410');
    RETURN true;
END $$;

REVOKE ALL ON FUNCTION dispatcher.announce, dispatcher.delivery_announced, dispatcher.receipt_announced,
    dispatcher.run_announced, dispatcher.create_webhook, dispatcher.lock_webhook, dispatcher.change_webhook,
    dispatcher.rotate_webhook, dispatcher.delete_webhook, dispatcher.webhook_gone FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON dispatcher.webhook_endpoints TO dispatcher_tenant;
GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.webhook_secrets TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.webhook_actions TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.create_webhook, dispatcher.lock_webhook, dispatcher.change_webhook,
    dispatcher.rotate_webhook, dispatcher.delete_webhook TO dispatcher_tenant;
