-- Runs in the older interface's words, and what a trigger lacks in the order in which one reads it.
--
-- Steps are counted from 0: `step_N_result` and `step_N_error` of a step that comes before are nobody's to bring, and no other
-- name is exempt.

-- What an input lacks for a version: [{"path", "words", "name", "kind": "field" | "variable" | "template"}]. Fields come in the
-- order of the definition, variables in order of appearance: those of the workflow, then those of its stored templates.
CREATE OR REPLACE FUNCTION dispatcher.input_faults_v1(
    p_tenant_id text, p_workspace_id text, p_version dispatcher.plan_versions, p_input jsonb
) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    faults jsonb;
    used   record;
    called text;
    fault  text;
BEGIN
    SELECT coalesce(jsonb_agg(jsonb_build_object('path', '$.' || f, 'kind', 'field', 'name', f, 'words', 'is required')
                              ORDER BY o), '[]')
      INTO faults FROM unnest(p_version.required_fields) WITH ORDINALITY AS r (f, o)
     WHERE NOT dispatcher.has_path_v1(p_input, dispatcher.path_steps_v1(f));
    SELECT faults || coalesce(jsonb_agg(jsonb_build_object('path', '$.' || (r.value ->> 'path'), 'kind', 'variable',
               'name', r.value ->> 'path', 'words', 'is read by the workflow') ORDER BY r.ordinality), '[]')
      INTO faults FROM jsonb_array_elements(p_version.reads) WITH ORDINALITY AS r
     WHERE NOT dispatcher.has_path_v1(p_input, ARRAY(SELECT jsonb_array_elements_text(r.value -> 'at')));
    FOR used IN
        SELECT s.value ->> 'name' AS name, s.value -> 'variable' ->> 'path' AS variable, s.value ->> 'channel' AS channel,
               coalesce((s.value ->> 'steps')::integer, 0) AS steps,
               ARRAY(SELECT jsonb_array_elements_text(s.value -> 'variable' -> 'at')) AS at,
               coalesce(s.value -> 'provides', '[]') AS provides
          FROM jsonb_array_elements(p_version.templates) WITH ORDINALITY AS s ORDER BY s.ordinality
    LOOP
        called := used.name;
        IF used.variable IS NOT NULL THEN
            CONTINUE WHEN NOT dispatcher.has_path_v1(p_input, used.at);
            called := p_input #>> used.at;
        END IF;
        -- No name is longer, and what is said of it is not either.
        called := left(called, 101);
        fault := dispatcher.template_fault_v1(p_tenant_id, p_workspace_id, coalesce(called, ''), used.channel);
        IF fault IS NOT NULL THEN
            faults := faults || jsonb_build_object('kind', 'template', 'path', coalesce('$.' || used.variable, '$'),
                                                   'name', coalesce(called, 'null'), 'words', fault);
            CONTINUE;
        END IF;
        SELECT faults || coalesce(jsonb_agg(jsonb_build_object('path', '$.' || read, 'kind', 'variable', 'name', read,
                   'words', format('is read by the template %s', quote_literal(called))) ORDER BY place), '[]')
          INTO faults
          FROM dispatcher.templates t
          JOIN dispatcher.template_versions v ON v.id = t.published, unnest(v.variables) WITH ORDINALITY AS r (read, place),
               LATERAL (SELECT dispatcher.path_steps_v1(read) AS at) AS steps
         WHERE t.tenant_id = p_tenant_id AND t.workspace_id = p_workspace_id AND t.name = called
           -- (The link by which one unsubscribes comes with each message.)
           AND NOT coalesce(substring(at[1] FROM '^step_(0|[1-9][0-9]{0,5})_(?:result|error)$')::integer < used.steps, false)
           AND at[1] <> 'unsubscribe_url' AND at[1] <> ALL (p_version.node_ids) AND NOT used.provides ? at[1]
           AND NOT dispatcher.has_path_v1(p_input, at);
    END LOOP;
    RETURN faults;
END $$;

-- The faults of an input in words: everything that is missing, each name once. What is required is not named again as read.
CREATE OR REPLACE FUNCTION dispatcher.input_words_v1(p_faults jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH said AS (
        SELECT f.value ->> 'kind' AS kind, f.value ->> CASE f.value ->> 'kind' WHEN 'template' THEN 'words' ELSE 'name' END AS what,
               min(f.ordinality) AS place
          FROM jsonb_array_elements(p_faults) WITH ORDINALITY AS f GROUP BY 1, 2
    )
    SELECT concat_ws('; ',
        (SELECT 'Missing required fields: ' || string_agg(what, ', ' ORDER BY place) FROM said WHERE kind = 'field'),
        (SELECT 'Missing template variables: ' || string_agg(what, ', ' ORDER BY place) FROM said
          WHERE kind = 'variable' AND what NOT IN (SELECT what FROM said WHERE kind = 'field')),
        (SELECT string_agg(what, '; ' ORDER BY place) FROM said WHERE kind = 'template'))
$$;

-- A step is counted from 0: the one that has failed, else the first one that the run is at, else the last one where it is
-- completed. What is retried is counted by attempt, whoever retries.
DROP VIEW dispatcher.workflow_executions;
CREATE VIEW dispatcher.workflow_executions WITH (security_invoker = true) AS
SELECT r.id, r.workflow AS workflow_name, v.number AS workflow_version,
       CASE WHEN r.status IN ('waiting', 'paused') THEN 'running' ELSE r.status END AS status,
       CASE WHEN r.error_node IS NOT NULL THEN array_position(v.node_ids, r.error_node) - 1
            WHEN r.status = 'completed' THEN v.total_steps - 1
            ELSE coalesce((SELECT min(array_position(v.node_ids, node)) - 1
                             FROM jsonb_object_keys(r.state -> 'cursor') AS node), 0) END AS current_step,
       v.total_steps, r.input AS input_payload, r.input || coalesce(r.state -> 'vars', '{}') AS context,
       r.error AS error_message, r.error_node AS error_step,
       r.retries + (SELECT count(*) FROM dispatcher.deliveries d JOIN dispatcher.delivery_attempts a ON a.delivery_id = d.id
                     WHERE d.run_id = r.id AND d.node IS NOT NULL AND a.next_at IS NOT NULL)::integer AS retry_count,
       r.created_at, r.started_at, r.finished_at AS completed_at, r.idempotency_key AS correlation_id, r.triggered_by,
       r.tenant_id, r.workspace_id
  FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id;
COMMENT ON VIEW dispatcher.workflow_executions IS
    'runs in the words of the older interface: waiting and paused ones are running';
GRANT SELECT ON dispatcher.workflow_executions TO dispatcher_tenant;
