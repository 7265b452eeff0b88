-- Audiences: a choice of contacts as one JSON value, for campaigns and sequences alike.
--
--   {"all": true}                                              everybody in the workspace
--   {"company": "Acme", "status": "active", "tags": ["vip", "de"], "attributes": {"plan": "pro"}}
--                                                              all of these hold; of tags each one
--   "contacts": [17, "ann"]                                    these as well, by id or key
--   "exclude": [18, "bob"]                                     but never these
--
-- It is compiled to one SELECT of contact ids. What it names stands in its text, so that the planner can estimate each
-- condition by the statistics of its column.

-- Contacts named by id or key, as a condition.
CREATE FUNCTION dispatcher.contacts_named(p_names jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN n.ids = '{}' THEN format('c.key = ANY (%L::text[])', n.keys)
                WHEN n.keys = '{}' THEN format('c.id = ANY (%L::bigint[])', n.ids)
                ELSE format('(c.id = ANY (%L::bigint[]) OR c.key = ANY (%L::text[]))', n.ids, n.keys) END
      FROM (SELECT ARRAY(SELECT e.value::bigint FROM jsonb_array_elements(p_names) AS e
                          WHERE jsonb_typeof(e.value) = 'number') AS ids,
                   ARRAY(SELECT e.value #>> '{}' FROM jsonb_array_elements(p_names) AS e
                          WHERE jsonb_typeof(e.value) = 'string') AS keys) AS n
$$;

-- An audience as a SELECT of contact ids, each once. Its parameters are the tenant and the workspace.
CREATE FUNCTION dispatcher.audience_select(p_audience jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here    CONSTANT text := 'SELECT c.id FROM dispatcher.contacts c WHERE c.tenant_id = $1 AND c.workspace_id = $2';
    but     text := '';
    selects text[] := '{}';
BEGIN
    IF jsonb_array_length(p_audience -> 'exclude') > 0 THEN
        but := ' AND NOT ' || dispatcher.contacts_named(p_audience -> 'exclude');
    END IF;
    IF p_audience ?| '{all,company,status,tags,attributes}' THEN
        selects := selects || concat(here,
            CASE WHEN p_audience ? 'company' THEN format(' AND c.company = %L', p_audience ->> 'company') END,
            CASE WHEN p_audience ? 'status' THEN format(' AND c.status = %L', p_audience ->> 'status') END,
            CASE WHEN p_audience ? 'tags' THEN
                format(' AND c.tags @> %L::text[]', ARRAY(SELECT jsonb_array_elements_text(p_audience -> 'tags'))) END,
            CASE WHEN p_audience ? 'attributes' THEN format(' AND c.attributes @> %L::jsonb', p_audience -> 'attributes') END,
            but);
    END IF;
    IF jsonb_array_length(p_audience -> 'contacts') > 0 THEN
        selects := selects || concat(here, ' AND ', dispatcher.contacts_named(p_audience -> 'contacts'), but);
    END IF;
    RETURN coalesce(array_to_string(selects, ' UNION '), '');
END $$;

-- What is wrong with the form of an audience, as faults with their paths.
CREATE FUNCTION dispatcher.audience_form_faults(p_path text, p_audience jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    contacts_max CONSTANT integer := 100000;
    faults jsonb := '[]';
    one    record;
BEGIN
    IF p_audience IS NULL OR jsonb_typeof(p_audience) <> 'object' THEN
        RETURN dispatcher.fault(p_path, 'expected a JSON object');
    END IF;
    FOR one IN SELECT e.key, e.value, jsonb_typeof(e.value) AS type FROM jsonb_each(p_audience) AS e ORDER BY 1 LOOP
        faults := faults || coalesce(CASE
            WHEN one.key = 'all' THEN
                CASE WHEN one.value <> 'true' THEN dispatcher.fault(p_path || '.all', 'expected true')
                     WHEN p_audience ?| '{company,status,tags,attributes}' THEN
                         dispatcher.fault(p_path || '.all', 'everybody, and a filter beside it: leave out one of them') END
            WHEN one.key IN ('company', 'status') THEN
                CASE WHEN one.type <> 'string' THEN dispatcher.fault(p_path || '.' || one.key, 'expected a text') END
            WHEN one.key = 'tags' THEN
                CASE WHEN one.type <> 'array' OR one.value = '[]' OR jsonb_path_exists(one.value, '$[*] ? (@.type() != "string")')
                     THEN dispatcher.fault(p_path || '.tags', 'expected an array of texts, one at least') END
            WHEN one.key = 'attributes' THEN
                CASE WHEN one.type <> 'object' OR one.value = '{}'
                     THEN dispatcher.fault(p_path || '.attributes', 'expected an object with one attribute at least') END
            WHEN one.key IN ('contacts', 'exclude') THEN
                CASE WHEN one.type <> 'array' OR jsonb_path_exists(one.value, '$[*] ? (@.type() != "string" && @.type() != "number")')
                          OR jsonb_path_exists(one.value, '$[*] ? (@.type() == "number" && (@.floor() != @ || @ < 1 || @ > 9223372036854775807))')
                     THEN dispatcher.fault(p_path || '.' || one.key, 'expected an array of ids (whole numbers) and keys (texts)')
                     WHEN jsonb_array_length(one.value) > contacts_max
                     THEN dispatcher.fault(p_path || '.' || one.key, format(
                         'names %s contacts, and %s are the most: give them a tag and filter by it',
                         jsonb_array_length(one.value), contacts_max)) END
            ELSE dispatcher.fault(p_path || '.' || one.key,
                     'unknown field; known are all, company, status, tags, attributes, contacts, exclude') END, '[]');
    END LOOP;
    IF faults = '[]' AND dispatcher.audience_select(p_audience) = '' THEN
        faults := dispatcher.fault(p_path, 'chooses nobody: give a filter, contacts, or {"all": true}');
    END IF;
    RETURN faults;
END $$;

-- What is wrong with an audience: its form, or the contacts that it names and the workspace does not have.
CREATE FUNCTION dispatcher.audience_faults(p_tenant_id text, p_workspace_id text, p_path text, p_audience jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named_max CONSTANT integer := 10;
    faults    jsonb := dispatcher.audience_form_faults(p_path, p_audience);
    missing   record;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    IF faults <> '[]' THEN RETURN faults; END IF;
    SELECT count(*) AS count, string_agg(m.name, ', ' ORDER BY m.place) FILTER (WHERE m.nth <= named_max) AS names INTO missing
      FROM (SELECT e.value #>> '{}' AS name, e.ordinality AS place, row_number() OVER (ORDER BY e.ordinality) AS nth
              FROM jsonb_array_elements(coalesce(p_audience -> 'contacts', '[]')) WITH ORDINALITY AS e
             WHERE CASE jsonb_typeof(e.value)
                       WHEN 'number' THEN NOT EXISTS (
                           SELECT FROM dispatcher.contacts c
                            WHERE c.id = e.value::bigint AND c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id)
                       ELSE NOT EXISTS (
                           SELECT FROM dispatcher.contacts c
                            WHERE c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id AND c.key = e.value #>> '{}') END) AS m;
    IF missing.count > 0 THEN
        RETURN dispatcher.fault(p_path || '.contacts', format('unknown contacts: %s%s', missing.names,
            CASE WHEN missing.count > named_max THEN format(' and %s more', missing.count - named_max) ELSE '' END));
    END IF;
    RETURN '[]';
END $$;

-- The ids of an audience.
CREATE FUNCTION dispatcher.audience(p_tenant_id text, p_workspace_id text, p_audience jsonb, p_most bigint DEFAULT NULL)
RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    RETURN QUERY EXECUTE dispatcher.audience_select(p_audience) || ' LIMIT $3' USING p_tenant_id, p_workspace_id, p_most;
END $$;

-- How many contacts an audience has, counted to p_most.
CREATE FUNCTION dispatcher.audience_count(p_tenant_id text, p_workspace_id text, p_audience jsonb, p_most bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    counted bigint;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    EXECUTE format('SELECT count(*) FROM (%s LIMIT $3) AS chosen', dispatcher.audience_select(p_audience))
       INTO counted USING p_tenant_id, p_workspace_id, p_most;
    RETURN counted;
END $$;

REVOKE ALL ON FUNCTION dispatcher.contacts_named, dispatcher.audience_select, dispatcher.audience_form_faults,
    dispatcher.audience_faults, dispatcher.audience, dispatcher.audience_count FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.audience_faults, dispatcher.audience, dispatcher.audience_count TO dispatcher_tenant;
