-- Stored templates: what a delivery says, by name, in versions that never change.
--
-- The map
--   templates              one row a name, of a tenant and workspace: its channel, how many versions it has, and which of
--                          them is published; without a channel it is a partial, which other templates take in
--   template_versions      one row a version: for each locale its parts and the partials that it takes in
--   template_publications  actor and time of each published version
--
-- A version is whole: the partials that it uses stand in it as they were when it was saved, so that what it renders never
-- changes. Nothing of it is ever changed or deleted.
--
-- A delivery may name a template instead of bringing one. It is frozen as it is inserted: to the version that is published
-- then, and to the locale of it that comes nearest. Where none is, it has failed, and says why: raising it would undo the
-- transaction of an application, or the copy of a million others.
--
-- Lock order: templates by name, and nothing else beside them.

CREATE TABLE dispatcher.templates (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    published    bigint,
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    latest       integer NOT NULL DEFAULT 0,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    name         text NOT NULL,
    channel      text,
    CONSTRAINT templates_name UNIQUE (tenant_id, workspace_id, name),
    CONSTRAINT templates_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$'),
    CONSTRAINT templates_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT templates_channel_name CHECK (channel ~ '^[a-z][a-z0-9_]{0,31}$')
);
COMMENT ON COLUMN dispatcher.templates.published IS 'the version that deliveries are frozen to; null: none yet';
COMMENT ON COLUMN dispatcher.templates.latest IS 'the number of its newest version';
COMMENT ON COLUMN dispatcher.templates.channel IS 'null: a partial';
CALL dispatcher.isolate('dispatcher.templates');

CREATE TABLE dispatcher.template_versions (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    template_id    bigint NOT NULL REFERENCES dispatcher.templates,
    created_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    number         integer NOT NULL CHECK (number > 0),
    author         text NOT NULL CHECK (author <> ''),
    default_locale text NOT NULL,
    locales        text[] NOT NULL,
    rights         text[] NOT NULL,
    variables      text[] NOT NULL,
    sources        jsonb NOT NULL,
    CONSTRAINT template_versions_number UNIQUE (template_id, number),
    CONSTRAINT template_versions_has_its_default CHECK (default_locale = ANY (locales) AND sources ?& locales)
);
COMMENT ON COLUMN dispatcher.template_versions.variables IS 'what it reads, found by analysis when it was saved';
COMMENT ON COLUMN dispatcher.template_versions.sources IS 'by locale: {"parts": {part: Liquid}, "partials": {name: Liquid}}';
CREATE INDEX template_versions_by_time ON dispatcher.template_versions (created_at, id);
CALL dispatcher.isolate('dispatcher.template_versions', 'template_id', 'dispatcher.templates');

CREATE TABLE dispatcher.template_publications (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    template_id bigint NOT NULL,
    version_id  bigint NOT NULL REFERENCES dispatcher.template_versions,
    at          timestamptz NOT NULL DEFAULT statement_timestamp(),
    actor       text NOT NULL CHECK (actor <> '')
);
CREATE INDEX template_publications_by_template ON dispatcher.template_publications (template_id, id);
CREATE INDEX template_publications_by_time ON dispatcher.template_publications (at, id);
CALL dispatcher.isolate('dispatcher.template_publications', 'template_id', 'dispatcher.templates');

CREATE FUNCTION dispatcher.templates_never_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% is immutable: what was promised with a version is sent with it', TG_TABLE_NAME
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Save another version, and publish that.';
END $$;

CREATE TRIGGER template_versions_never_change BEFORE UPDATE OR DELETE OR TRUNCATE ON dispatcher.template_versions
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.templates_never_change();
-- What a template is called and what it is for are what its versions and deliveries rely on.
CREATE TRIGGER templates_stay_what_they_are BEFORE UPDATE OF id, tenant_id, workspace_id, name, channel ON dispatcher.templates
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.templates_never_change();

-- Save versions, all or none, and publish them where that is asked for. `p_drafts` is an array of objects: tenant_id,
-- workspace_id, name, channel, default_locale, rights, variables, sources. One that says what the newest version says makes
-- no other, so that saving again what was saved changes nothing. Answers each by its position.
CREATE FUNCTION dispatcher.put_templates(p_drafts jsonb, p_publish boolean, p_author text)
RETURNS TABLE (place integer, version_id bigint, number integer, created boolean, published boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    draft record;
    held  dispatcher.templates;
    last  dispatcher.template_versions;
BEGIN
    FOR draft IN
        SELECT d.ordinality::integer AS place, r.*
          FROM jsonb_array_elements(p_drafts) WITH ORDINALITY AS d,
               jsonb_to_record(d.value) AS r (tenant_id text, workspace_id text, name text, channel text,
                   default_locale text, rights text[], variables text[], sources jsonb)
         ORDER BY r.tenant_id, r.workspace_id, r.name
    LOOP
        INSERT INTO dispatcher.templates (tenant_id, workspace_id, name, channel)
        VALUES (draft.tenant_id, draft.workspace_id, draft.name, draft.channel)
        ON CONFLICT (tenant_id, workspace_id, name) DO NOTHING;
        SELECT t.* INTO STRICT held FROM dispatcher.templates t
         WHERE t.tenant_id = draft.tenant_id AND t.workspace_id = draft.workspace_id AND t.name = draft.name FOR UPDATE;
        IF held.channel IS DISTINCT FROM draft.channel THEN
            RAISE EXCEPTION 'template % is %, and stays that', quote_literal(draft.name),
                coalesce('for ' || held.channel, 'a partial')
                USING ERRCODE = 'check_violation', CONSTRAINT = 'templates_stay_what_they_are', COLUMN = 'channel';
        END IF;
        SELECT v.* INTO last FROM dispatcher.template_versions v WHERE v.template_id = held.id AND v.number = held.latest;
        created := NOT FOUND OR (last.default_locale, last.rights, last.sources)
                                IS DISTINCT FROM (draft.default_locale, draft.rights, draft.sources);
        IF created THEN
            INSERT INTO dispatcher.template_versions
                   (template_id, number, author, default_locale, locales, rights, variables, sources)
            VALUES (held.id, held.latest + 1, p_author, draft.default_locale,
                    ARRAY(SELECT jsonb_object_keys(draft.sources) ORDER BY 1), draft.rights, draft.variables,
                    draft.sources)
            RETURNING * INTO last;
            UPDATE dispatcher.templates SET latest = last.number WHERE id = held.id;
        END IF;
        place := draft.place;
        version_id := last.id;
        number := last.number;
        published := p_publish IS TRUE AND held.published IS DISTINCT FROM last.id;
        IF published THEN
            UPDATE dispatcher.templates SET published = last.id WHERE id = held.id;
            INSERT INTO dispatcher.template_publications (template_id, version_id, actor)
            VALUES (held.id, last.id, p_author);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Publish a version, the newest where no number is given. No row where there is no such template or version; before and
-- after are alike where it was published already.
CREATE FUNCTION dispatcher.publish_template(
    p_tenant_id text, p_workspace_id text, p_name text, p_number integer, p_actor text
) RETURNS TABLE (version_id bigint, number integer, number_before integer)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held dispatcher.templates;
BEGIN
    SELECT t.* INTO held FROM dispatcher.templates t
     WHERE t.tenant_id = p_tenant_id AND t.workspace_id = p_workspace_id AND t.name = p_name FOR UPDATE;
    SELECT v.id, v.number INTO version_id, number FROM dispatcher.template_versions v
     WHERE v.template_id = held.id AND v.number = coalesce(p_number, held.latest);
    IF NOT FOUND THEN RETURN; END IF;
    SELECT v.number INTO number_before FROM dispatcher.template_versions v WHERE v.id = held.published;
    IF held.published IS DISTINCT FROM version_id THEN
        UPDATE dispatcher.templates SET published = version_id WHERE id = held.id;
        INSERT INTO dispatcher.template_publications (template_id, version_id, actor)
        VALUES (held.id, version_id, p_actor);
    END IF;
    RETURN NEXT;
END $$;

-- Of the locales that a version has, the one that comes nearest to what was asked for: itself, else what is left of it
-- without its last pieces (zh-Hant-TW, zh-Hant, zh), else the default. Neither case nor _ for - makes a difference.
CREATE FUNCTION dispatcher.nearest_locale(p_asked text, p_locales text[], p_default text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rest text := lower(replace(left(p_asked, 100), '_', '-'));
    near text;
BEGIN
    WHILE rest <> '' LOOP
        SELECT l INTO near FROM unnest(p_locales) AS l WHERE lower(l) = rest;
        IF FOUND THEN RETURN near; END IF;
        rest := substring(rest FROM '^(.*)-');
    END LOOP;
    RETURN p_default;
END $$;

-- Why a delivery cannot have a template; null: it can.
CREATE FUNCTION dispatcher.template_fault(p_tenant_id text, p_workspace_id text, p_name text, p_channel text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.templates;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    SELECT t.* INTO held FROM dispatcher.templates t
     WHERE t.tenant_id = p_tenant_id AND t.workspace_id = p_workspace_id AND t.name = p_name;
    RETURN CASE WHEN NOT FOUND THEN format('there is no template %s', quote_literal(p_name))
                WHEN held.channel IS NULL THEN format('%s is a partial, which is not sent by itself', quote_literal(p_name))
                WHEN held.channel <> p_channel THEN
                    format('%s is for %s, not for %s', quote_literal(p_name), held.channel, p_channel)
                WHEN held.published IS NULL THEN format('%s has no published version', quote_literal(p_name)) END;
END $$;

-- A version that is given is kept, as long as it is one of this very template: whoever plans ahead has frozen it before.
-- (What comes out of a dump may come before its templates do. It is held anyhow, and the renderer looks again.)
CREATE FUNCTION dispatcher.deliveries_freeze() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    frozen record;
BEGIN
    IF NEW.template_version IS NOT NULL AND NEW.created_at < now() - interval '1 minute' THEN
        RETURN NEW;
    END IF;
    SELECT v.id, v.locales, v.default_locale INTO frozen
      FROM dispatcher.templates t
      JOIN dispatcher.template_versions v ON v.id = coalesce(NEW.template_version, t.published) AND v.template_id = t.id
     WHERE t.tenant_id = NEW.tenant_id AND t.workspace_id = NEW.workspace_id AND t.name = NEW.template_name
       AND t.channel = NEW.channel;
    IF FOUND THEN
        NEW.template_version := frozen.id;
        NEW.locale := dispatcher.nearest_locale(NEW.locale, frozen.locales, frozen.default_locale);
    ELSIF NEW.template_version IS NOT NULL THEN
        RAISE EXCEPTION 'template_version % is none of the template % for %', NEW.template_version,
            coalesce(quote_literal(NEW.template_name), 'null'), NEW.channel
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'deliveries_template_version', COLUMN = 'template_version';
    END IF;
    RETURN NEW;
END $$;

-- Items of jobs come frozen: it takes 7 microseconds a row.
CREATE TRIGGER deliveries_freeze BEFORE INSERT ON dispatcher.deliveries
    FOR EACH ROW WHEN (NEW.template IS NULL
                       AND (NEW.contact_id IS NULL OR NEW.job_id IS NULL OR NEW.template_version IS NULL OR NEW.locale IS NULL))
    EXECUTE FUNCTION dispatcher.deliveries_freeze();

-- Runs before the statement's own trigger, which leaves alone what has a state already.
CREATE FUNCTION dispatcher.deliveries_without_template() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    why text;
BEGIN
    -- Out of a dump: its own state follows.
    IF NEW.created_at < now() - interval '1 minute' THEN RETURN NULL; END IF;
    why := 'template_name: ' || coalesce(
        dispatcher.template_fault(NEW.tenant_id, NEW.workspace_id, NEW.template_name, NEW.channel), 'was published too late');
    INSERT INTO dispatcher.delivery_state (id, channel, lane, run_at, expires_at, ready, status, finished_at, error, wakes,
                                           announced)
    VALUES (NEW.id, NEW.channel, NEW.lane, NEW.scheduled_for, NEW.expires_at, false, 'failed', statement_timestamp(), why,
            CASE WHEN NEW.node IS NOT NULL THEN NEW.run_id END,
            CASE WHEN NEW.channel <> 'webhook' THEN (
                SELECT true FROM dispatcher.webhook_endpoints e
                 WHERE e.tenant_id = NEW.tenant_id AND e.workspace_id = NEW.workspace_id AND e.enabled AND e.of_deliveries
                 LIMIT 1) END);
    IF NEW.node IS NOT NULL THEN
        PERFORM dispatcher.wake_run(NEW.run_id);
    ELSE
        INSERT INTO dispatcher.dead_deliveries (delivery_id) VALUES (NEW.id);
    END IF;
    IF NEW.channel <> 'webhook' THEN
        PERFORM dispatcher.announce(NEW.tenant_id, NEW.workspace_id, 'delivery.failed', NEW.id, jsonb_build_object(
            'status', 'failed', 'attempt', 0, 'error', why, 'finished_at', statement_timestamp()));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER deliveries_without_template AFTER INSERT ON dispatcher.deliveries
    FOR EACH ROW WHEN (NEW.template IS NULL AND NEW.template_version IS NULL)
    EXECUTE FUNCTION dispatcher.deliveries_without_template();

REVOKE ALL ON FUNCTION dispatcher.template_fault, dispatcher.deliveries_freeze,
    dispatcher.deliveries_without_template FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON dispatcher.templates TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.template_versions, dispatcher.template_publications TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.template_fault TO dispatcher_tenant;
