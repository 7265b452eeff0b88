-- Stored objects: files that messages carry, by the name that deliveries have for them.
--
-- A name means one content, for ever: a retry of a message sends the bytes that its first attempt sent, or fails because
-- they are gone, and never others. So a content is written once; erasing it keeps its name and its checksum, and what is
-- put under the name again has to be the same. Another content takes another name.

CREATE TABLE dispatcher.objects (
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    erased_at    timestamptz,
    size         integer NOT NULL,
    tenant_id    text NOT NULL DEFAULT 'default',
    workspace_id text NOT NULL DEFAULT 'default',
    name         text NOT NULL,
    content_type text NOT NULL DEFAULT 'application/octet-stream',
    sha256       text NOT NULL,
    content      bytea,
    PRIMARY KEY (tenant_id, workspace_id, name),
    CONSTRAINT objects_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT objects_name_plain CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,199}$'),
    CONSTRAINT objects_type_known
        CHECK (length(content_type) <= 100 AND content_type ~ '^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+$'),
    CONSTRAINT objects_size_bounded CHECK (size BETWEEN 0 AND 16777216),
    CONSTRAINT objects_content_or_erased CHECK ((content IS NULL) = (erased_at IS NOT NULL))
);
COMMENT ON TABLE dispatcher.objects IS 'files that deliveries name in their options: a name means one content, for ever';
-- Pictures and documents are compressed already.
ALTER TABLE dispatcher.objects ALTER COLUMN content SET STORAGE EXTERNAL;
CALL dispatcher.isolate('dispatcher.objects');

-- Size and checksum are what the content has, whoever writes it and whatever they say. An erased one, out of a dump, has
-- nothing to count.
CREATE FUNCTION dispatcher.object_measured() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.content IS NOT NULL THEN
        NEW.size := octet_length(NEW.content);
        NEW.sha256 := encode(sha256(NEW.content), 'hex');
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER object_measured BEFORE INSERT ON dispatcher.objects
    FOR EACH ROW EXECUTE FUNCTION dispatcher.object_measured();

-- All that can happen to an object: its content is erased, or comes back as it was.
CREATE FUNCTION dispatcher.object_stays() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND
       (NEW.tenant_id, NEW.workspace_id, NEW.name, NEW.content_type, NEW.sha256, NEW.size, NEW.created_at)
       IS NOT DISTINCT FROM
       (OLD.tenant_id, OLD.workspace_id, OLD.name, OLD.content_type, OLD.sha256, OLD.size, OLD.created_at)
       AND (NEW.content IS NULL OR encode(sha256(NEW.content), 'hex') = OLD.sha256) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the object % is immutable', quote_literal(OLD.name)
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'Put another content under another name; erase this one with dispatcher.erase_object.';
END $$;

CREATE TRIGGER object_stays BEFORE UPDATE OR DELETE ON dispatcher.objects
    FOR EACH ROW EXECUTE FUNCTION dispatcher.object_stays();

-- Put a content under a name. Answers stored, same (it is there already), restored (it had been erased), or taken (the
-- name means another content).
CREATE FUNCTION dispatcher.put_object(
    p_name text, p_content bytea, p_content_type text DEFAULT 'application/octet-stream',
    p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default'
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was dispatcher.objects;
BEGIN
    INSERT INTO dispatcher.objects (tenant_id, workspace_id, name, content_type, content, size, sha256)
    VALUES (p_tenant_id, p_workspace_id, p_name, p_content_type, p_content, 0, '')
    ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN 'stored'; END IF;
    SELECT * INTO was FROM dispatcher.objects
     WHERE tenant_id = p_tenant_id AND workspace_id = p_workspace_id AND name = p_name FOR UPDATE;
    IF was.sha256 <> encode(sha256(p_content), 'hex') OR was.content_type <> p_content_type THEN RETURN 'taken'; END IF;
    IF was.erased_at IS NULL THEN RETURN 'same'; END IF;
    UPDATE dispatcher.objects SET content = p_content, erased_at = NULL
     WHERE tenant_id = p_tenant_id AND workspace_id = p_workspace_id AND name = p_name;
    RETURN 'restored';
END $$;

-- Erase a content; its name stays taken. Answers erased, erased before, or unknown.
CREATE FUNCTION dispatcher.erase_object(
    p_name text, p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default'
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE dispatcher.objects SET content = NULL, erased_at = statement_timestamp()
     WHERE tenant_id = p_tenant_id AND workspace_id = p_workspace_id AND name = p_name AND erased_at IS NULL;
    IF FOUND THEN RETURN 'erased'; END IF;
    PERFORM FROM dispatcher.objects
      WHERE tenant_id = p_tenant_id AND workspace_id = p_workspace_id AND name = p_name;
    RETURN CASE WHEN FOUND THEN 'erased before' ELSE 'unknown' END;
END $$;

GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.objects TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.put_object, dispatcher.erase_object TO dispatcher_tenant;
