-- Contacts: the people of a workspace, and where they can be reached.
--
-- The map
--   contacts           one row a person, by the key that the application has chosen
--   contact_addresses  where they can be reached; within a workspace an address leads to one contact
--
-- An address is kept twice: in the form in which addresses are compared (that of suppressions), and as it is written to.
--
-- Indexes and their queries
--   contacts_key       one by its key; a workspace in the order of its keys, page by page
--   contacts_company, contacts_status  a filter over a workspace, for enrolments and campaigns, which read it in one
--                      statement. What is asked for leads: did the tenant, then a plan that was made while the table was
--                      empty would look for a key there, and read a whole workspace for each (measured)
--   contacts_tags      by tag. GIN, which has a tag once, however many have it (5 MB for 100,000 contacts with three tags
--                      each, where a table of tags takes 38); tenants share it, and are told apart by the rows
--   contact_addresses_pkey        the contact behind an address
--   contact_addresses_of_contact  the addresses of a contact in their order, for whoever resolves recipients
--
-- Lock order: contacts in the order of their keys, then addresses in the order of theirs.

CREATE TABLE dispatcher.contacts (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    version      integer NOT NULL DEFAULT 1,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    key          text COLLATE "C" NOT NULL,
    name         text,
    company      text,
    status       text NOT NULL,
    time_zone    text,
    locale       text,
    updated_by   text NOT NULL CHECK (updated_by <> ''),
    tags         text[] NOT NULL DEFAULT '{}',
    attributes   jsonb NOT NULL DEFAULT '{}',
    -- Twice what one may say at once: Postgres writes JSON with spaces.
    CONSTRAINT contacts_attributes_bounded
    CHECK        (jsonb_typeof(attributes) = 'object' AND octet_length(attributes::text) <= 32768),
    CONSTRAINT contacts_key UNIQUE (tenant_id, workspace_id, key),
    CONSTRAINT contacts_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT contacts_key_form CHECK (key ~ '^[A-Za-z0-9][A-Za-z0-9._@:+-]{0,199}$'),
    CONSTRAINT contacts_texts_length
        CHECK (length(name) BETWEEN 1 AND 200 AND length(company) BETWEEN 1 AND 200 AND length(status) BETWEEN 1 AND 100
               AND length(time_zone) BETWEEN 1 AND 100 AND length(locale) BETWEEN 1 AND 100),
    CONSTRAINT contacts_tags_bounded CHECK (cardinality(tags) <= 100)
) WITH (fillfactor = 80);
CREATE INDEX contacts_company ON dispatcher.contacts (company, tenant_id, workspace_id) WHERE company IS NOT NULL;
CREATE INDEX contacts_status ON dispatcher.contacts (status, tenant_id, workspace_id);
CREATE INDEX contacts_tags ON dispatcher.contacts USING gin (tags);
CREATE INDEX contacts_names ON dispatcher.contacts USING gin (to_tsvector('simple', name)) WHERE name IS NOT NULL;
CALL dispatcher.isolate('dispatcher.contacts');

CREATE TABLE dispatcher.contact_addresses (
    contact_id   bigint NOT NULL REFERENCES dispatcher.contacts ON DELETE CASCADE,
    position     smallint NOT NULL,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('email', 'phone', 'push', 'chat', 'social')),
    address      text COLLATE "C" NOT NULL CHECK (length(address) BETWEEN 1 AND 500),
    written      text NOT NULL,
    CONSTRAINT contact_addresses_pkey PRIMARY KEY (tenant_id, workspace_id, kind, address)
);
COMMENT ON COLUMN dispatcher.contact_addresses.address IS 'in the form in which addresses are compared';
COMMENT ON COLUMN dispatcher.contact_addresses.position IS 'the first of a kind is the one that is written to';
CREATE INDEX contact_addresses_of_contact ON dispatcher.contact_addresses (contact_id, kind, position);
CALL dispatcher.isolate('dispatcher.contact_addresses');

-- Make the addresses of a contact these. Answers whether anything has changed; or the first one that another contact has, and
-- then nothing has. (A second transaction with the same address waits for the end of the first.)
CREATE FUNCTION dispatcher.put_addresses(
    p_contact dispatcher.contacts, p_addresses jsonb, OUT changed boolean, OUT taken text
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked record;
    owner bigint;
    fresh text[] := '{}';
BEGIN
    -- One by one: a plan for all of them, made while the table was empty, reads every address of the workspace.
    FOR asked IN
        SELECT a.value ->> 'kind' AS kind, a.value ->> 'address' AS address, a.value ->> 'written' AS written,
               a.ordinality AS position
          FROM jsonb_array_elements(p_addresses) WITH ORDINALITY AS a
         ORDER BY a.value ->> 'kind', (a.value ->> 'address') COLLATE "C"
    LOOP
        owner := NULL;
        -- Again, where the one that stood in the way has gone meanwhile.
        WHILE owner IS NULL LOOP
            INSERT INTO dispatcher.contact_addresses (contact_id, position, tenant_id, workspace_id, kind, address, written)
            VALUES (p_contact.id, asked.position, p_contact.tenant_id, p_contact.workspace_id, asked.kind, asked.address,
                    asked.written)
            ON CONFLICT ON CONSTRAINT contact_addresses_pkey DO NOTHING RETURNING contact_id INTO owner;
            IF FOUND THEN
                fresh := fresh || (asked.kind || ' ' || asked.address);
                EXIT;
            END IF;
            SELECT h.contact_id INTO owner FROM dispatcher.contact_addresses h
             WHERE h.tenant_id = p_contact.tenant_id AND h.workspace_id = p_contact.workspace_id AND h.kind = asked.kind
               AND h.address = asked.address;
        END LOOP;
        IF owner <> p_contact.id THEN
            taken := asked.kind || ' ' || asked.address;
            DELETE FROM dispatcher.contact_addresses h
             WHERE h.contact_id = p_contact.id AND h.kind || ' ' || h.address = ANY (fresh);
            changed := false;
            RETURN;
        END IF;
    END LOOP;
    DELETE FROM dispatcher.contact_addresses h
     WHERE h.contact_id = p_contact.id
       AND NOT EXISTS (SELECT FROM jsonb_array_elements(p_addresses) AS a
                        WHERE a.value ->> 'kind' = h.kind AND a.value ->> 'address' = h.address);
    changed := FOUND OR fresh <> '{}';
    UPDATE dispatcher.contact_addresses h SET position = a.ordinality, written = a.value ->> 'written'
      FROM jsonb_array_elements(p_addresses) WITH ORDINALITY AS a
     WHERE h.contact_id = p_contact.id AND h.kind = a.value ->> 'kind' AND h.address = a.value ->> 'address'
       AND (h.position, h.written) IS DISTINCT FROM (a.ordinality, a.value ->> 'written');
    changed := changed OR FOUND;
END $$;

-- Write a contact. What p_said does not name stays as it is; attributes are merged by their names, of which null takes one
-- away, but for 'put', which says everything. p_mode: create (there must be none), update (there must be one), upsert, put.
-- Answers created, changed, same; or why nothing was done: exists, unknown, stale (it is at another version than p_version),
-- taken (another contact has an address), large (its attributes are).
CREATE FUNCTION dispatcher.put_contact(
    p_tenant_id text, p_workspace_id text, p_key text, p_said jsonb, p_mode text, p_version integer, p_actor text,
    OUT answer text, OUT contact_id bigint, OUT version integer, OUT taken text
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was     dispatcher.contacts;
    said    dispatcher.contacts;
    becomes jsonb;
    moved   boolean := false;
BEGIN
    answer := 'same';
    LOOP
        SELECT c.* INTO was FROM dispatcher.contacts c
         WHERE c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id AND c.key = p_key FOR NO KEY UPDATE;
        IF NOT FOUND AND (p_mode = 'update' OR p_version IS NOT NULL) THEN answer := 'unknown'; RETURN; END IF;
        becomes := CASE WHEN NOT p_said ? 'attributes' THEN coalesce(was.attributes, '{}')
                        WHEN p_mode IN ('create', 'put') THEN p_said -> 'attributes'
                        ELSE (SELECT coalesce(jsonb_object_agg(e.name, e.value), '{}')
                                FROM jsonb_each(coalesce(was.attributes, '{}') || (p_said -> 'attributes')) AS e (name, value)
                               WHERE e.value <> 'null') END;
        IF octet_length(becomes::text) > 32768 THEN answer := 'large'; RETURN; END IF;
        said := jsonb_populate_record(was, p_said - 'attributes' - 'addresses');
        EXIT WHEN was.id IS NOT NULL;
        INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, name, company, status, time_zone, locale, tags, attributes,
                                         updated_by)
        VALUES (p_tenant_id, p_workspace_id, p_key, said.name, said.company, coalesce(said.status, 'active'), said.time_zone,
                said.locale, coalesce(said.tags, '{}'), becomes, p_actor)
        ON CONFLICT ON CONSTRAINT contacts_key DO NOTHING RETURNING * INTO was;
        IF FOUND THEN
            answer := 'created';
            EXIT;
        END IF;
    END LOOP;
    contact_id := was.id;
    version := was.version;
    IF answer <> 'created' AND p_mode = 'create' THEN answer := 'exists'; RETURN; END IF;
    IF p_version <> was.version THEN answer := 'stale'; RETURN; END IF;
    IF p_said ? 'addresses' THEN
        SELECT a.changed, a.taken INTO moved, taken FROM dispatcher.put_addresses(was, p_said -> 'addresses') AS a;
    END IF;
    IF taken IS NOT NULL THEN
        IF answer = 'created' THEN DELETE FROM dispatcher.contacts c WHERE c.id = was.id; END IF;
        answer := 'taken';
        RETURN;
    END IF;
    said.attributes := becomes;
    IF answer = 'created' OR (NOT moved AND said = was) THEN RETURN; END IF;
    UPDATE dispatcher.contacts c
       SET name = said.name, company = said.company, status = said.status, time_zone = said.time_zone, locale = said.locale,
           tags = said.tags, attributes = said.attributes, version = c.version + 1, updated_at = statement_timestamp(),
           updated_by = p_actor
     WHERE c.id = was.id RETURNING c.version INTO version;
    answer := 'changed';
END $$;

-- Contacts of a workspace in the order of their keys, behind one, p_most at most: those that have all words of a name (as beginnings),
-- a company, a status and a tag, where given. Found by an index where p_looked have its words, company or tag at most; else so many
-- are looked at in the order of keys, and where there may be more the last of them follows with `matches` false. As the owner: a
-- policy keeps the indexes of words and tags from being used.
CREATE FUNCTION dispatcher.find_contacts(
    p_tenant_id text, p_workspace_id text, p_after text, p_name text, p_company text, p_status text, p_tag text, p_most integer,
    p_looked integer
) RETURNS TABLE (id bigint, key text, matches boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words CONSTANT tsquery := (SELECT coalesce(string_agg(quote_literal(w.lexeme) || ':*', ' & '), '')::tsquery
                                 FROM unnest(to_tsvector('simple', p_name)) AS w);
    few   bigint[];
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    IF p_name IS NOT NULL THEN
        few := ARRAY(SELECT c.id FROM dispatcher.contacts c
                      WHERE to_tsvector('simple', c.name) @@ words AND c.name IS NOT NULL AND c.tenant_id = p_tenant_id
                        AND c.workspace_id = p_workspace_id LIMIT p_looked + 1);
    ELSIF p_company IS NOT NULL THEN
        few := ARRAY(SELECT c.id FROM dispatcher.contacts c
                      WHERE c.company = p_company AND c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id
                      LIMIT p_looked + 1);
    ELSIF p_tag IS NOT NULL THEN
        few := ARRAY(SELECT c.id FROM dispatcher.contacts c
                      WHERE c.tags @> ARRAY[p_tag] AND c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id
                      LIMIT p_looked + 1);
    END IF;
    RETURN QUERY
    WITH looked AS MATERIALIZED (
        SELECT c.* FROM unnest(few) AS f (id), LATERAL (SELECT o.* FROM dispatcher.contacts o WHERE o.id = f.id LIMIT 1) AS c
         WHERE cardinality(few) <= p_looked
        UNION ALL
        -- The order by all columns of the key leaves its index as the only one that fits.
        (SELECT c.* FROM dispatcher.contacts c
          WHERE c.tenant_id BETWEEN p_tenant_id AND p_tenant_id AND c.workspace_id BETWEEN p_workspace_id AND p_workspace_id
            AND c.key > p_after AND coalesce(cardinality(few) > p_looked, true)
          ORDER BY c.tenant_id, c.workspace_id, c.key LIMIT p_looked)
    ), found AS (
        SELECT l.id, l.key, true
          FROM looked l
         WHERE l.key > p_after AND (p_name IS NULL OR to_tsvector('simple', l.name) @@ words)
           AND (p_company IS NULL OR l.company = p_company) AND (p_status IS NULL OR l.status = p_status)
           AND (p_tag IS NULL OR l.tags @> ARRAY[p_tag])
         ORDER BY l.key LIMIT p_most
    )
    TABLE found
    UNION ALL
    SELECT NULL, max(l.key), false FROM looked l
    HAVING count(*) = p_looked AND coalesce(cardinality(few) > p_looked, true);
END $$;

REVOKE ALL ON FUNCTION dispatcher.find_contacts FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.find_contacts TO dispatcher_tenant;
REVOKE ALL ON FUNCTION dispatcher.put_addresses, dispatcher.put_contact FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.contacts, dispatcher.contact_addresses TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.put_addresses, dispatcher.put_contact TO dispatcher_tenant;
