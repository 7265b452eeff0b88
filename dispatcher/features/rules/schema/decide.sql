-- Deciding: for each (channel, audience) of an event what its rule writes, or what takes its place, in one statement.
--
-- From the inside out: addresses as they were given, each in the form in which it is compared; of those the first of each;
-- a step with its time, its recipients and what is wrong; a rule with its steps; the decision, the deliveries, and the row
-- that says why. Lists are joined by LATERAL look-ups of one key, so that no plan looks at each of one for each of the other.

-- Decide events, and write their deliveries and decisions. p_ids has the id of each event at its place; null: it is no news.
-- Answers the faults of those pairs that can neither be scheduled nor fall back, for which nothing is to stay.
-- p_place and p_pair narrow it to one pair of one event; p_why says why its rule has failed already. p_explain lists all
-- recipients in the steps.
CREATE FUNCTION dispatcher.write_events(
    p_tenant_id text, p_workspace_id text, p_events jsonb, p_ids bigint[], p_path text, p_explain boolean,
    p_place integer DEFAULT NULL, p_pair text DEFAULT NULL, p_why text DEFAULT NULL,
    p_traceparent text DEFAULT NULL
) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    -- By so much the clocks of callers may differ from ours.
    late_max  CONSTANT interval := interval '1 minute';
    words_max CONSTANT integer := 2000;
    moment    CONSTANT timestamptz := statement_timestamp();
    rule      CONSTANT jsonb := (SELECT w.phone_rule FROM dispatcher.workspace_settings w
                                  WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id);
    faults    jsonb;
BEGIN
    WITH event AS MATERIALIZED (
        SELECT a.ordinality::integer AS place, p_ids[a.ordinality] AS id, a.value ->> 'trigger' AS name, t.at, t.given_at,
               w.lead, w.partner, w.agent, k.pairs,
               jsonb_build_object('event', jsonb_build_object('trigger', a.value -> 'trigger', 'at', t.at))
               || coalesce(nullif(a.value -> 'variables', 'null'), '{}')
               || CASE WHEN w.lead IS NULL THEN '{}' ELSE jsonb_build_object('lead', w.lead) END
               || CASE WHEN w.partner IS NULL THEN '{}' ELSE jsonb_build_object('partner', w.partner) END
               || CASE WHEN w.agent IS NULL THEN '{}' ELSE jsonb_build_object('agent', w.agent) END AS input
          FROM jsonb_array_elements(p_events) WITH ORDINALITY AS a
         CROSS JOIN LATERAL (SELECT (a.value ->> 'event_at')::timestamptz AS given_at,
                                    coalesce((a.value ->> 'event_at')::timestamptz, moment) AS at) AS t
         CROSS JOIN LATERAL (SELECT nullif(a.value -> 'lead', 'null') AS lead, nullif(a.value -> 'partner', 'null') AS partner,
                                    nullif(a.value -> 'agent', 'null') AS agent) AS w
         CROSS JOIN LATERAL (
            SELECT coalesce((SELECT o.pairs FROM dispatcher.event_triggers o
                              WHERE o.tenant_id = p_tenant_id AND o.workspace_id = p_workspace_id AND o.name = a.value ->> 'trigger'),
                            (SELECT b.pairs FROM dispatcher.builtin_triggers b WHERE b.name = a.value ->> 'trigger'), '{}') AS pairs) AS k
         WHERE p_ids[a.ordinality] IS NOT NULL AND (p_place IS NULL OR a.ordinality = p_place)
    ), judged AS MATERIALIZED (
        SELECT e.place, e.id, e.name, e.input, p.channel, p.audience, p.rule_id, p.enabled, p.fallback, s.count AS steps,
               s.faults, s.answers, s.messages, m.template, m.blank, m.options, m.fault, m.recipient, m.delivery_id, m.locale,
               -- The rule is there, and may not stand.
               p.enabled AND (p_why IS NOT NULL OR s.faults <> '[]') IS TRUE AS failed
          FROM event e
         CROSS JOIN LATERAL (
            SELECT r.channel, r.audience, r.id AS rule_id, r.enabled,
                   coalesce(e.pairs ->> (r.channel || '/' || r.audience), 'none') AS fallback
              FROM dispatcher.rules r
             WHERE r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id AND r.event_trigger = e.name
            UNION ALL
            SELECT split_part(k.key, '/', 1), split_part(k.key, '/', 2), NULL, false, k.value
              FROM jsonb_each_text(e.pairs) AS k
             WHERE NOT EXISTS (
                    SELECT FROM dispatcher.rules r
                     WHERE r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id AND r.event_trigger = e.name
                       AND r.channel = split_part(k.key, '/', 1) AND r.audience = split_part(k.key, '/', 2))
         ) AS p
          LEFT JOIN LATERAL (
            SELECT count(*) AS count, coalesce(jsonb_agg(o.fault) FILTER (WHERE o.fault IS NOT NULL), '[]') AS faults,
                   jsonb_agg(o.answer ORDER BY o.number) AS answers,
                   jsonb_agg(o.message ORDER BY o.number) FILTER (WHERE o.message IS NOT NULL) AS messages
              FROM (
                SELECT n.number,
                       jsonb_strip_nulls(jsonb_build_object(
                           'step', n.number, 'template', n.template_name, 'at', n.due,
                           'decision', CASE WHEN n.passed OR n.people IS NULL THEN 'skipped' ELSE 'scheduled' END,
                           'reason', CASE WHEN n.passed THEN 'its time has passed' WHEN n.people IS NULL THEN 'no recipient' END,
                           'recipients', CASE WHEN n.passed THEN NULL ELSE coalesce(jsonb_array_length(n.people), 0) END,
                           'found', CASE WHEN p_explain THEN coalesce(n.found, '[]') END,
                           'to', CASE WHEN p_explain THEN coalesce(n.people, '[]') END)) AS answer,
                       CASE WHEN NOT n.passed AND n.people IS NOT NULL THEN jsonb_build_object(
                           'step', n.id, 'at', n.due, 'expires', CASE WHEN n.offset_seconds < 0 THEN e.given_at END,
                           'template', n.template_name, 'version', n.published, 'to', n.people) END AS message,
                       CASE WHEN NOT n.passed AND (n.wrong IS NOT NULL OR n.people IS NOT NULL) THEN
                           'steps[' || n.number - 1 || ']: ' || nullif(concat_ws('; ', n.wrong, n.unfit), '') END AS fault
                  FROM (
                    SELECT s.id, s.offset_seconds, s.template_name, w.due, t.published, f.people, f.found, f.wrong,
                           row_number() OVER (ORDER BY s.step_order, s.created_at, s.id) AS number,
                           (w.due < moment - late_max OR s.offset_seconds < 0 AND e.at <= moment) AS passed,
                           concat_ws('; ',
                               CASE WHEN t.published IS NULL OR t.channel IS DISTINCT FROM p.channel THEN
                                   dispatcher.template_fault(p_tenant_id, p_workspace_id, s.template_name, p.channel) END,
                               'the template ' || quote_literal(s.template_name) || ' reads what is missing: ' || nullif(
                                   (SELECT string_agg(u.path, ', ' ORDER BY u.place)
                                      FROM unnest(t.variables) WITH ORDINALITY AS u (path, place)
                                     WHERE u.path <> 'unsubscribe_url'
                                       AND (strpos(u.path, '[') > 0 OR (e.input #> string_to_array(u.path, '.')) IS NULL)
                                       AND NOT dispatcher.has_path(e.input, dispatcher.path_steps(u.path))), '')) AS unfit
                      FROM dispatcher.rule_steps s
                     CROSS JOIN LATERAL (SELECT e.at + make_interval(secs => s.offset_seconds) AS due) AS w
                      LEFT JOIN LATERAL (
                        SELECT h.channel, h.published, v.variables
                          FROM dispatcher.templates h LEFT JOIN dispatcher.template_versions v ON v.id = h.published
                         WHERE h.tenant_id = p_tenant_id AND h.workspace_id = p_workspace_id AND h.name = s.template_name) AS t ON true
                     CROSS JOIN LATERAL (
                        SELECT jsonb_agg(jsonb_build_object('id', nextval('dispatcher.deliveries_id_seq'), 'to', x.recipient,
                                                            'locale', x.locale) ORDER BY x.place)
                                   FILTER (WHERE x.is_first AND x.fault IS NULL) AS people,
                               string_agg(x.path || ' ' || x.fault, '; ' ORDER BY x.place) AS wrong,
                               CASE WHEN p_explain THEN jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                                   'path', x.path, 'address', x.written, 'fault', x.fault, 'taken', x.is_first)) ORDER BY x.place) END AS found
                          FROM (
                            SELECT y.*, row_number() OVER (PARTITION BY lower(y.form COLLATE "C") ORDER BY y.place) = 1 AS is_first
                              FROM (
                                SELECT z.place, z.path, z.written, z.locale,
                                       CASE WHEN p.channel = 'email' THEN btrim(z.written) ELSE z.read ->> 'number' END AS recipient,
                                       CASE WHEN p.channel = 'email' THEN z.bare ELSE coalesce(z.read ->> 'number', z.written) END AS form,
                                       CASE WHEN p.channel <> 'email' THEN z.read ->> 'fault'
                                            WHEN z.bare !~ '^[^\s<>@]+@[^\s<>@]+$' OR length(z.written) > 500 THEN
                                                'is not an e-mail address: expected name@domain' END AS fault
                                  FROM (
                                    SELECT g.*,
                                           CASE WHEN p.channel = 'email' THEN btrim(regexp_replace(regexp_replace(
                                               btrim(g.written), '^.*<([^<>]*)>$', '\1'), '\.$', '')) END AS bare,
                                           CASE WHEN p.channel = 'email' THEN NULL
                                                WHEN g.written ~ '^\+[2-9][0-9]{6,14}$' THEN jsonb_build_object('number', g.written)
                                                ELSE to_jsonb(dispatcher.phone_number(g.written, rule)) END AS read
                                      FROM (
                                        SELECT i.place, i.who || '.' || i.field AS path, i.person ->> i.field AS written,
                                               nullif(left(i.person ->> 'locale', 100), '') AS locale
                                          FROM (VALUES (1, 'lead', s.include_lead, e.lead), (2, 'partner', s.include_partner, e.partner),
                                                       (3, 'agent', s.include_agent, e.agent)) AS v (place, who, is_included, person),
                                               LATERAL (SELECT v.place, v.who, v.person,
                                                               CASE WHEN p.channel = 'email' THEN 'email' ELSE 'phone' END AS field
                                                       OFFSET 0) AS i
                                         WHERE v.is_included
                                        UNION ALL
                                        SELECT 3 + c.place,
                                               CASE WHEN p.channel = 'email' THEN 'customEmails[' ELSE 'customPhones[' END
                                                   || c.place - 1 || ']', c.address, NULL
                                          FROM unnest(s.custom) WITH ORDINALITY AS c (address, place)
                                      ) AS g
                                     WHERE btrim(g.written) <> ''
                                    OFFSET 0
                                  ) AS z
                              ) AS y
                          ) AS x
                     ) AS f
                     WHERE s.rule_id = p.rule_id AND s.enabled
                  ) AS n
              ) AS o
         ) AS s ON p.enabled
          -- The built-in message goes to the one whom its audience names.
          LEFT JOIN LATERAL (
            SELECT b.template, b.blank, b.options, nextval('dispatcher.deliveries_id_seq') AS delivery_id,
                   btrim(h.person ->> 'email') AS recipient, nullif(left(h.person ->> 'locale', 100), '') AS locale,
                   CASE WHEN coalesce(btrim(h.person ->> 'email'), '') = '' THEN 'no recipient'
                        WHEN btrim(regexp_replace(btrim(h.person ->> 'email'), '^.*<([^<>]*)>$', '\1')) !~ '^[^\s<>@]+@[^\s<>@]+$'
                             OR length(h.person ->> 'email') > 500
                             THEN p.audience || '.email is not an e-mail address: expected name@domain' END AS fault
              FROM dispatcher.builtin_messages b,
                   LATERAL (SELECT CASE p.audience WHEN 'lead' THEN e.lead WHEN 'partner' THEN e.partner WHEN 'agent' THEN e.agent END
                                AS person) AS h
             WHERE b.event_trigger = e.name AND b.channel = p.channel AND b.audience = p.audience
         ) AS m ON p.fallback = 'message'
         WHERE p_pair IS NULL OR p.channel || '/' || p.audience = p_pair
    ), decided AS MATERIALIZED (
        SELECT j.*, left(CASE
                   WHEN j.rule_id IS NULL THEN 'there is no rule'
                   WHEN NOT j.enabled THEN 'the rule is disabled'
                   WHEN j.failed THEN 'the rule failed: ' || coalesce(p_why, dispatcher.texts_of(j.faults))
                   WHEN j.steps = 0 THEN 'no step of the rule is enabled'
                   WHEN j.messages IS NULL THEN dispatcher.reasons_of(j.answers)
                   ELSE 'the rule is enabled' END, words_max) AS why,
               CASE
                   WHEN j.rule_id IS NOT NULL AND NOT j.enabled THEN 'suppressed'
                   WHEN j.rule_id IS NOT NULL AND NOT j.failed THEN
                       CASE WHEN j.messages IS NULL THEN 'skipped' ELSE 'scheduled' END
                   WHEN j.fallback = 'message' AND j.fault = 'no recipient' THEN 'skipped'
                   WHEN j.fallback = 'message' AND j.fault IS NULL AND j.template IS NOT NULL OR j.fallback = 'caller' THEN 'fallback'
                   WHEN j.failed OR j.fault IS NOT NULL THEN 'error'
                   ELSE 'none' END AS decision
          FROM judged j
    ), message AS MATERIALIZED (
        SELECT d.place, d.channel, d.audience, (r.value ->> 'id')::bigint AS id, d.id AS event_id, d.input AS variables,
               'event:' || d.id || ':' || (m.value ->> 'step') || ':' || r.ordinality AS key, r.value ->> 'to' AS recipient,
               (m.value ->> 'at')::timestamptz AS at, (m.value ->> 'expires')::timestamptz AS expires, NULL::jsonb AS template,
               m.value ->> 'template' AS template_name, (m.value ->> 'version')::bigint AS version, r.value ->> 'locale' AS locale,
               '{}'::jsonb AS options
          FROM decided d, jsonb_array_elements(d.messages) AS m, jsonb_array_elements(m.value -> 'to') WITH ORDINALITY AS r
         WHERE d.decision = 'scheduled'
        UNION ALL
        SELECT d.place, d.channel, d.audience, d.delivery_id, d.id, d.blank || d.input || dispatcher.filled_in(d.blank, d.input),
               'event:' || d.id || ':fallback:' || d.channel || '/' || d.audience, d.recipient, moment, NULL, d.template, NULL, NULL,
               d.locale,
               -- A stored object takes the place of the page that is made.
               CASE WHEN d.options ? 'attachments' AND jsonb_typeof(d.input #> '{quote,document}') = 'string' THEN
                   jsonb_build_object('attachments', jsonb_build_array(jsonb_build_object(
                       'object', d.input #> '{quote,document}', 'name', 'quote.pdf'))) ELSE d.options END
          FROM decided d WHERE d.decision = 'fallback' AND d.fallback = 'message'
    ), written AS (
        INSERT INTO dispatcher.deliveries (id, tenant_id, workspace_id, idempotency_key, channel, recipient, template, template_name,
                                           template_version, variables, options, scheduled_for, expires_at, locale, traceparent)
        SELECT w.id, p_tenant_id, p_workspace_id, w.key, w.channel, w.recipient, w.template, w.template_name, w.version, w.variables,
               w.options, w.at, w.expires, w.locale, p_traceparent
          FROM message w ORDER BY w.id
    ), noted AS (
        INSERT INTO dispatcher.event_decisions (event_id, failed, channel, audience, decision, reason, fallback, steps, delivery_ids)
        SELECT d.id, d.failed, d.channel, d.audience, d.decision,
               CASE WHEN d.decision = 'skipped' AND (d.rule_id IS NULL OR d.failed) THEN d.why || '; the fallback has no recipient'
                    WHEN d.decision = 'none' THEN d.why || ', and no fallback' ELSE d.why END,
               CASE WHEN d.decision = 'fallback' THEN d.fallback END,
               CASE WHEN d.decision IN ('scheduled', 'skipped') OR p_explain THEN coalesce(d.answers, '[]') ELSE '[]' END,
               CASE d.decision
                   WHEN 'scheduled' THEN ARRAY(SELECT (i #>> '{}')::bigint FROM jsonb_path_query(d.messages, '$[*].to[*].id') AS i)
                   WHEN 'fallback' THEN array_remove(ARRAY[CASE WHEN d.fallback = 'message' THEN d.delivery_id END], NULL)
                   ELSE '{}' END
          FROM decided d WHERE d.decision <> 'error'
    )
    SELECT coalesce(jsonb_agg(jsonb_build_object(
               'path', format(p_path, d.place - 1) || format('.rules[''%s/%s/%s'']', d.name, d.channel, d.audience),
               'words', concat_ws('; ', d.why, d.fault)) ORDER BY d.place, d.channel, d.audience), '[]')
      INTO faults FROM decided d WHERE d.decision = 'error';
    RETURN faults;
END $$;

-- Texts of a list, as one.
CREATE FUNCTION dispatcher.texts_of(p_list jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(t.value, '; ' ORDER BY t.ordinality) FROM jsonb_array_elements_text(p_list) WITH ORDINALITY AS t
$$;

-- Why steps were skipped, each reason once.
CREATE FUNCTION dispatcher.reasons_of(p_steps jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(DISTINCT s.value ->> 'reason', '; ') FROM jsonb_array_elements(p_steps) AS s
$$;

-- What a built-in message reads: each object of p_blank, with what an input has of it.
CREATE FUNCTION dispatcher.filled_in(p_blank jsonb, p_input jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_object_agg(b.key, b.value || CASE jsonb_typeof(p_input -> b.key) WHEN 'object' THEN p_input -> b.key ELSE '{}' END)
      FROM jsonb_each(p_blank) AS b
$$;

REVOKE ALL ON FUNCTION dispatcher.write_events, dispatcher.texts_of, dispatcher.reasons_of, dispatcher.filled_in FROM PUBLIC;
