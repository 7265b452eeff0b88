-- Definitions of campaigns: saving and deleting them, their faults, and what a deployment would come to.

-- The open run of a campaign that is locked; null: none. (A test has everything that it needs, and is in nobody's way.)
CREATE FUNCTION dispatcher.open_run_of_campaign(p_campaign_id text) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(r.id) FROM dispatcher.campaign_runs r
     WHERE r.campaign_id = p_campaign_id AND r.finished_at IS NULL AND NOT r.test
$$;

-- Save a campaign whose fields were checked. Answers created, changed or same; or open, and which run it is.
CREATE FUNCTION dispatcher.put_campaign(
    p_tenant_id text, p_workspace_id text, p_name text, p_said jsonb, p_actor text,
    OUT answer text, OUT version integer, OUT open_run bigint
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    was  dispatcher.campaigns;
    said dispatcher.campaigns;
BEGIN
    LOOP
        SELECT c.* INTO was FROM dispatcher.campaigns c
         WHERE c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id AND c.name = p_name FOR UPDATE;
        EXIT WHEN FOUND;
        said := jsonb_populate_record(was, p_said);
        INSERT INTO dispatcher.campaigns AS c (tenant_id, workspace_id, name, channel, template_name, variables, audience, lane, topic, rate,
                                               send_window, updated_by)
        VALUES (p_tenant_id, p_workspace_id, p_name, said.channel, said.template_name, said.variables, said.audience, said.lane, said.topic,
                said.rate, said.send_window, p_actor)
        ON CONFLICT ON CONSTRAINT campaigns_name DO NOTHING RETURNING c.version INTO version;
        IF FOUND THEN
            answer := 'created';
            RETURN;
        END IF;
    END LOOP;
    said := jsonb_populate_record(was, p_said);
    version := was.version;
    answer := 'same';
    IF said = was THEN RETURN; END IF;
    open_run := dispatcher.open_run_of_campaign(was.id);
    answer := 'open';
    IF open_run IS NOT NULL THEN RETURN; END IF;
    UPDATE dispatcher.campaigns c
       SET channel = said.channel, template_name = said.template_name, variables = said.variables, audience = said.audience,
           lane = said.lane, topic = said.topic, rate = said.rate, send_window = said.send_window, version = c.version + 1,
           updated_at = statement_timestamp(), updated_by = p_actor
     WHERE c.id = was.id RETURNING c.version INTO version;
    answer := 'changed';
END $$;

-- Delete a campaign; its runs stay. Answers deleted or unknown; or open, and which run it is.
CREATE FUNCTION dispatcher.delete_campaign(
    p_tenant_id text, p_workspace_id text, p_name text, p_actor text, OUT answer text, OUT open_run bigint
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was dispatcher.campaigns;
BEGIN
    SELECT c.* INTO was FROM dispatcher.campaigns c
     WHERE c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id AND c.name = p_name FOR UPDATE;
    answer := 'unknown';
    IF NOT FOUND THEN RETURN; END IF;
    open_run := dispatcher.open_run_of_campaign(was.id);
    answer := 'open';
    IF open_run IS NOT NULL THEN RETURN; END IF;
    PERFORM set_config('dispatcher.actor', p_actor, true);
    DELETE FROM dispatcher.campaigns c WHERE c.id = was.id;
    answer := 'deleted';
END $$;

-- What is wrong with the fields of a campaign that only the database knows: its template, audience and variables.
CREATE FUNCTION dispatcher.campaign_faults(p_tenant_id text, p_workspace_id text, p_said jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    variables_bytes_max CONSTANT integer := 262144;
    unsendable text;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    unsendable := dispatcher.template_fault(p_tenant_id, p_workspace_id, p_said ->> 'template_name', p_said ->> 'channel');
    RETURN CASE WHEN unsendable IS NULL THEN '[]' ELSE dispatcher.fault('$.template', unsendable) END
        || dispatcher.audience_faults(p_tenant_id, p_workspace_id, '$.audience', p_said -> 'audience')
        || dispatcher.object_faults('$.variables', p_said -> 'variables', variables_bytes_max);
END $$;

-- Names of paths that a contact `c` lacks, as an expression; paths begin with a field of the contact.
CREATE FUNCTION dispatcher.lacking_expression(p_names text[], p_paths jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(string_agg(CASE
               WHEN p.value ->> 0 = 'attributes' AND jsonb_array_length(p.value) > 1 THEN format(
                   'CASE WHEN c.attributes #> %L::text[] IS NULL THEN %L END', ARRAY(SELECT jsonb_array_elements_text(p.value - 0)), n.name)
               WHEN p.value ->> 0 IN ('key', 'name', 'company', 'status', 'locale', 'time_zone', 'tags')
                   THEN format('CASE WHEN c.%I IS NULL THEN %L END', p.value ->> 0, n.name)
               WHEN p.value = '[]' OR p.value ->> 0 = 'attributes' THEN 'NULL'
               ELSE quote_literal(n.name) END, ', ' ORDER BY n.place), 'NULL')
      FROM unnest(p_names) WITH ORDINALITY AS n (name, place)
      JOIN jsonb_array_elements(p_paths) WITH ORDINALITY AS p (value, place) USING (place)
$$;

-- What a deployment of a campaign would come to: how many contacts there are; of the first p_most how many would be skipped and why,
-- which of the paths that its template reads are lacking and where; and p_shown recipients with their variables. Suppressions count as in engine/rules/suppression.py: a test compares the two. Null: there is no such campaign. (Suppressions are hashed, and contacts looked up by their ids, whatever
-- the planner thinks of tables that were just filled: else 200,000 contacts take over 15 seconds in place of 2.)
CREATE FUNCTION dispatcher.plan_campaign(
    p_tenant_id text, p_workspace_id text, p_name text, p_names text[], p_paths jsonb, p_most bigint, p_shown integer
) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = on SET enable_hashjoin = on SET enable_nestloop = off AS $$
DECLARE
    examples_max CONSTANT integer := 3;
    said    dispatcher.campaigns;
    kind    text;
    planned jsonb;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    SELECT c.* INTO said FROM dispatcher.campaigns c
     WHERE c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id AND c.name = p_name;
    IF NOT FOUND THEN RETURN NULL; END IF;
    kind := dispatcher.address_kind(said.channel);
    EXECUTE format($plan$
        WITH chosen AS MATERIALIZED (
            SELECT a.id FROM (%s) AS a (id)
        ), known AS (
            SELECT s.address, min(s.source) FILTER (WHERE s.source <> 'unsubscribe') AS source,
                   bool_or(s.source = 'unsubscribe') AS left_all
              FROM dispatcher.suppressions s
             WHERE s.tenant_id = $1 AND s.kind = $5 AND s.channel IN ('', $6)
               AND (s.expires_at IS NULL OR s.expires_at > statement_timestamp())
             GROUP BY 1
        ), left_topic AS (
            SELECT p.address FROM dispatcher.topic_preferences p
             WHERE p.tenant_id = $1 AND p.kind = $5 AND p.topic = $7 AND NOT p.subscribed
        ), hashed AS (
            SELECT e.hash, min(e.source) FILTER (WHERE e.topic = '' AND e.source <> 'unsubscribe') AS source,
                   bool_or(e.topic = '' AND e.source = 'unsubscribe') AS left_all, bool_or(e.topic = $7) AS left_topic
              FROM dispatcher.erased_suppressions e
             WHERE e.tenant_id = $1 AND e.kind = $5 AND (e.topic <> '' OR e.channel IN ('', $6))
               AND (e.expires_at IS NULL OR e.expires_at > statement_timestamp())
             GROUP BY 1
        ), who AS MATERIALIZED (
            SELECT c.id, c.key, a.written, array_remove(ARRAY[%s]::text[], NULL) AS lacks,
                   CASE WHEN a.written IS NULL THEN 'no address'
                        WHEN coalesce(k.source, h.source) IS NOT NULL THEN 'suppressed: ' || least(k.source, h.source)
                        WHEN $8 AND (k.left_all OR h.left_all) THEN 'unsubscribed: from everything'
                        WHEN t.address IS NOT NULL OR h.left_topic THEN 'unsubscribed: from ' || $7 END AS reason
              FROM (SELECT o.id FROM chosen o LIMIT $3) AS n
             CROSS JOIN LATERAL (SELECT o.* FROM dispatcher.contacts o WHERE o.id = n.id LIMIT 1) AS c
              LEFT JOIN LATERAL (SELECT o.written, o.address FROM dispatcher.contact_addresses o
                                  WHERE o.contact_id = c.id AND o.kind = $4 ORDER BY o.position LIMIT 1) AS a ON true
              LEFT JOIN known k ON k.address = a.address
              LEFT JOIN left_topic t ON t.address = a.address
              LEFT JOIN hashed h ON h.hash = sha256(convert_to(a.address, 'UTF8'))
        )
        SELECT jsonb_build_object(
            'contacts', (SELECT count(*) FROM chosen), 'looked_at', (SELECT count(*) FROM who),
            'skipped', (SELECT coalesce(jsonb_agg(jsonb_build_object('reason', s.reason, 'count', s.count) ORDER BY s.count DESC, s.reason), '[]')
                          FROM (SELECT w.reason, count(*) AS count FROM who w WHERE w.reason IS NOT NULL GROUP BY 1) AS s),
            'lacking', (SELECT coalesce(jsonb_agg(jsonb_build_object('variable', l.name, 'count', l.count, 'examples', l.examples)
                                                  ORDER BY l.count DESC, l.name), '[]')
                          FROM (SELECT m.name, count(*) AS count, to_jsonb((array_agg(w.key ORDER BY w.id))[1:$10]) AS examples
                                  FROM who w, unnest(w.lacks) AS m (name) WHERE w.reason IS NULL GROUP BY 1) AS l),
            'sample', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                                  'key', c.key, 'recipient', f.written, 'locale', c.locale,
                                  'variables', $11::jsonb || jsonb_build_object('contact', %s)) ORDER BY f.id), '[]')
                         FROM (SELECT w.id, w.written FROM who w WHERE w.reason IS NULL ORDER BY w.id LIMIT $9) AS f
                        CROSS JOIN LATERAL (SELECT o.* FROM dispatcher.contacts o WHERE o.id = f.id LIMIT 1) AS c))
        $plan$, dispatcher.audience_select(said.audience), dispatcher.lacking_expression(p_names, p_paths),
        dispatcher.contact_expression(p_names))
       INTO planned
      USING p_tenant_id, p_workspace_id, p_most, kind, CASE WHEN kind IN ('email', 'phone') THEN kind ELSE 'other' END, said.channel,
            said.topic, said.lane <> 0 OR said.topic IS NOT NULL, p_shown, examples_max, said.variables;
    RETURN planned;
END $$;

REVOKE ALL ON FUNCTION dispatcher.open_run_of_campaign, dispatcher.put_campaign, dispatcher.delete_campaign, dispatcher.campaign_faults,
    dispatcher.lacking_expression, dispatcher.plan_campaign FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.open_run_of_campaign, dispatcher.put_campaign, dispatcher.delete_campaign,
    dispatcher.campaign_faults, dispatcher.plan_campaign TO dispatcher_tenant;
