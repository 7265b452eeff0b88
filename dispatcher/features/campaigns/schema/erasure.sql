-- Erasure: what campaigns know of a person beside the deliveries, which are erased as all others are.
--
-- Contact ids in the arrays of jobs stay: without the contact they say nothing. An address of a test that was not expanded
-- yet becomes its hash, and is skipped then. Texts that name the person (a reason, an error) become `erased`; the counters
-- beside them stay.

-- Wait until no expansion of a workspace is under way that may have read a contact that was deleted before. In a transaction
-- of its own: expansions of the workspace wait behind it.
CREATE FUNCTION dispatcher.await_expansions(p_tenant_id text, p_workspace_id text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('dispatcher.contacts ' || p_tenant_id || ' ' || p_workspace_id, 0))
$$;

-- Whether a text names the person: one of the terms, which is cheap to find, and then the pattern.
CREATE FUNCTION dispatcher.names_person(p_text text, p_terms text[], p_pattern text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(EXISTS (SELECT FROM unnest(p_terms) AS term WHERE strpos(lower(p_text), term) > 0)
                    AND lower(p_text) ~ p_pattern, false)
$$;

-- Take the person out of the campaigns of a workspace, their runs, jobs, reasons and events.
CREATE FUNCTION dispatcher.erase_from_campaigns(
    p_tenant_id text, p_workspace_id text, p_terms text[], p_pattern text
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    runs bigint[];
BEGIN
    -- What is not counted yet is counted under the reason that it gets here.
    UPDATE dispatcher.job_results j SET reason = 'erased'
      FROM dispatcher.job_queue q
     WHERE q.id = j.job_id AND q.tenant_id = p_tenant_id AND q.workspace_id = p_workspace_id
       AND dispatcher.names_person(j.reason, p_terms, p_pattern);
    -- Runs are locked before their jobs and reasons, as the closer does it.
    SELECT coalesce(array_agg(l.id), '{}') INTO runs
      FROM (SELECT r.id FROM dispatcher.campaign_runs r
             WHERE r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id
               AND (EXISTS (SELECT FROM dispatcher.campaign_run_reasons c
                             WHERE c.run_id = r.id AND dispatcher.names_person(c.reason, p_terms, p_pattern))
                    OR EXISTS (SELECT FROM dispatcher.job_queue q
                                WHERE q.run_id = r.id AND (q.error IS NOT NULL OR q.recipients IS NOT NULL)
                                  AND dispatcher.names_person(concat_ws(' ', q.error, array_to_string(q.recipients, ' ')),
                                                              p_terms, p_pattern)))
             ORDER BY r.id FOR NO KEY UPDATE) AS l;
    UPDATE dispatcher.job_queue q
       SET error = CASE WHEN dispatcher.names_person(q.error, p_terms, p_pattern) THEN 'erased' ELSE q.error END,
           recipients = CASE WHEN q.recipients IS NOT NULL THEN
               ARRAY(SELECT CASE WHEN dispatcher.names_person(a, p_terms, p_pattern) THEN dispatcher.erased(a) ELSE a END
                       FROM unnest(q.recipients) WITH ORDINALITY AS n (a, place) ORDER BY n.place) END
     WHERE q.run_id = ANY (runs) AND (q.error IS NOT NULL OR q.recipients IS NOT NULL);
    WITH gone AS (
        DELETE FROM dispatcher.campaign_run_reasons c
         WHERE c.run_id = ANY (runs) AND dispatcher.names_person(c.reason, p_terms, p_pattern)
        RETURNING c.run_id, c.class, c.count
    )
    INSERT INTO dispatcher.campaign_run_reasons AS c (run_id, class, reason, count)
    SELECT g.run_id, g.class, 'erased', sum(g.count) FROM gone g GROUP BY 1, 2
    ON CONFLICT (run_id, class, reason) DO UPDATE SET count = c.count + excluded.count;
    UPDATE dispatcher.campaign_events e SET reason = 'erased'
      FROM dispatcher.campaign_runs r
     WHERE r.id = e.run_id AND r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id
       AND dispatcher.names_person(e.reason, p_terms, p_pattern);
    -- A key of a contact may be an address.
    UPDATE dispatcher.campaigns c SET audience = c.audience || kept.lists
      FROM (SELECT o.id, jsonb_object_agg(l.name, coalesce(l.rest, '[]')) AS lists
              FROM dispatcher.campaigns o
             CROSS JOIN LATERAL (
                   SELECT n.name, jsonb_agg(x.value ORDER BY x.place)
                              FILTER (WHERE NOT dispatcher.names_person(x.value #>> '{}', p_terms, p_pattern)) AS rest
                     FROM unnest('{contacts,exclude}'::text[]) AS n (name)
                    CROSS JOIN LATERAL jsonb_array_elements(o.audience -> n.name) WITH ORDINALITY AS x (value, place)
                    GROUP BY 1) AS l
             WHERE o.tenant_id = p_tenant_id AND o.workspace_id = p_workspace_id
               AND dispatcher.names_person(concat_ws(' ', o.audience ->> 'contacts', o.audience ->> 'exclude'), p_terms, p_pattern)
             GROUP BY 1) AS kept
     WHERE c.id = kept.id;
END $$;

REVOKE ALL ON FUNCTION dispatcher.await_expansions, dispatcher.names_person, dispatcher.erase_from_campaigns FROM PUBLIC;
