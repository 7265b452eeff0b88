-- Notify: an event becomes messages, in the transaction of its caller.
--
-- Every door calls notify_events, which takes many events as one: the inbox by one INSERT, then everything else by one
-- statement (write_events). Only where that fails on data it is done again, each (channel, audience) for itself under a
-- savepoint, so that one that fails leaves nothing behind and the others go on. A lock time-out, a serialization failure or a
-- shortage of resources is raised: tried again it may succeed, and a fallback would have been sent in vain.
--
-- Lists of rules are found by their trigger, whatever the planner thinks of the size of a table: its settings leave it no
-- other way. A plan that was made for ten rules is used for ten thousand. It is made once in a session: making it takes seven
-- milliseconds, and for each call anew it would be seven times the call.

-- What is wrong with events, all of it. Paths are below p_path, in which %s is the place of an event.
CREATE FUNCTION dispatcher.event_faults(p_tenant_id text, p_workspace_id text, p_events jsonb, p_path text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    bytes_max CONSTANT integer := 262144;
    faults    jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(jsonb_build_object('path', format(p_path, e.ordinality - 1) || '.' || f.name, 'words', f.words)
                              ORDER BY e.ordinality, f.place), '[]')
      INTO faults
      FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e,
           LATERAL (VALUES
        (1, 'trigger', 'there is no trigger ' || coalesce(quote_literal(left(e.value ->> 'trigger', 101)), 'null'), NOT EXISTS (
            SELECT FROM dispatcher.builtin_triggers b WHERE b.name = e.value ->> 'trigger') AND NOT EXISTS (
            SELECT FROM dispatcher.event_triggers o
             WHERE o.tenant_id = p_tenant_id AND o.workspace_id = p_workspace_id AND o.name = e.value ->> 'trigger')),
        (2, 'source', 'expected 1 to 100 characters', length(e.value ->> 'source') NOT BETWEEN 1 AND 100),
        (3, 'message_id', 'expected 1 to 255 characters', length(e.value ->> 'message_id') NOT BETWEEN 1 AND 255),
        (4, 'event_at', 'expected a time', e.value ->> 'event_at' IN ('infinity', '-infinity')),
        (5, 'lead', 'expected an object of texts', dispatcher.is_no_person(e.value -> 'lead')),
        (6, 'partner', 'expected an object of texts', dispatcher.is_no_person(e.value -> 'partner')),
        (7, 'agent', 'expected an object of texts', dispatcher.is_no_person(e.value -> 'agent'))
           ) AS f (place, name, words, is_wrong)
     WHERE f.is_wrong;
    SELECT faults || coalesce(jsonb_agg(f.value ORDER BY e.ordinality), '[]') INTO faults
      FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e,
           jsonb_array_elements(dispatcher.object_faults(
               format(p_path, e.ordinality - 1) || '.variables',
               coalesce(nullif(e.value -> 'variables', 'null'), '{}'), bytes_max)) AS f;
    RETURN faults;
END $$;

-- Whether something cannot be a person of an event: email, phone and locale are texts.
CREATE FUNCTION dispatcher.is_no_person(p_person jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_person <> 'null' AND (
        jsonb_typeof(p_person) <> 'object' OR octet_length(p_person::text) > 16384
        OR coalesce(jsonb_typeof(p_person -> 'email') NOT IN ('string', 'null'), false)
        OR coalesce(jsonb_typeof(p_person -> 'phone') NOT IN ('string', 'null'), false)
        OR coalesce(jsonb_typeof(p_person -> 'locale') NOT IN ('string', 'null'), false))
$$;

-- Decide events, and write their deliveries and decisions. p_ids has the id of each event at its place; null: it is no news.
-- Answers the faults of those pairs that can neither be scheduled nor fall back, for which nothing is to stay.
-- p_place and p_pair narrow it to one pair of one event; p_why says why its rule has failed already. p_explain lists all
-- recipients in the steps.
CREATE FUNCTION dispatcher.write_events(
    p_tenant_id text, p_workspace_id text, p_events jsonb, p_ids bigint[], p_path text, p_explain boolean,
    p_place integer DEFAULT NULL, p_pair text DEFAULT NULL, p_why text DEFAULT NULL
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
                                           template_version, variables, options, scheduled_for, expires_at, locale)
        SELECT w.id, p_tenant_id, p_workspace_id, w.key, w.channel, w.recipient, w.template, w.template_name, w.version, w.variables,
               w.options, w.at, w.expires, w.locale
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

-- Take events, each once, and answer for each (channel, audience) what was decided. One that was taken before answers what was
-- answered then, as a duplicate. Raises what is wrong with them, all of it, and then nothing is written.
CREATE FUNCTION dispatcher.notify_events(
    p_tenant_id text, p_workspace_id text, p_events jsonb, p_path text DEFAULT '$.events[%s]', p_explain boolean DEFAULT false
) RETURNS TABLE (
    place integer, event_id bigint, channel text, audience text, decision text, reason text, fallback text, first_decision text,
    outcome text, steps jsonb, delivery_ids bigint[]
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    events_max CONSTANT integer := 1000;
    fresh      bigint[];
    known      bigint[];
    names      text[];
    taken      bigint[];
    faults     jsonb;
    pair       record;
    why        text;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    IF jsonb_typeof(p_events) IS DISTINCT FROM 'array' OR jsonb_array_length(p_events) NOT BETWEEN 1 AND events_max THEN
        PERFORM dispatcher.refuse(format('events: expected a list of 1 to %s', events_max),
            dispatcher.fault('$.events', format('expected a list of 1 to %s', events_max)));
    END IF;
    faults := dispatcher.event_faults(p_tenant_id, p_workspace_id, p_events, p_path);
    IF faults <> '[]' THEN PERFORM dispatcher.refuse('the event is refused: ' || dispatcher.faults_in_words(faults), faults); END IF;
    SELECT array_agg(coalesce(e.value ->> 'message_id', gen_random_uuid()::text) ORDER BY e.ordinality),
           array_agg(NULL::bigint), array_agg(NULL::bigint)
      INTO names, fresh, known
      FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e;
    -- Again, where the one that stood in the way has gone meanwhile.
    WHILE array_position(known, NULL) IS NOT NULL LOOP
        WITH asked AS MATERIALIZED (
            SELECT e.ordinality AS place, coalesce(e.value ->> 'source', 'default') AS source, names[e.ordinality] AS name,
                   CASE WHEN known[e.ordinality] IS NULL THEN nextval('dispatcher.event_ids') END AS id,
                   (e.value ->> 'event_at')::timestamptz AS at, e.value ->> 'trigger' AS called
              FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e
        ), inserted AS (
            -- In one order: who takes the same events at the same time waits for us, and we not for them.
            INSERT INTO dispatcher.events (id, event_at, tenant_id, workspace_id, source, message_id, event_trigger)
            SELECT a.id, a.at, p_tenant_id, p_workspace_id, a.source, a.name, a.called FROM asked a WHERE a.id IS NOT NULL
             ORDER BY a.source COLLATE "C", a.name COLLATE "C"
            ON CONFLICT ON CONSTRAINT events_message DO NOTHING RETURNING id
        ), done AS MATERIALIZED (
            -- An object, since a join of two unknown lists may look at each of one for each of the other.
            SELECT coalesce(jsonb_object_agg(i.id, 1), '{}') AS ids FROM inserted i
        )
        SELECT array_agg(CASE WHEN d.ids ? a.id::text THEN a.id ELSE fresh[a.place] END ORDER BY a.place) INTO taken
          FROM asked a, done d;
        fresh := taken;
        -- A message id that was erased is its hash from then on. That is looked for behind the insert, which waits for whoever
        -- erases just now: then ours goes again, and that one is known.
        -- (One key at a time: of a join, a plan that was made while the inbox was empty reads all of it.)
        SELECT array_agg(coalesce(l.erased, fresh[l.place], l.there) ORDER BY l.place), array_agg(l.erased ORDER BY l.place)
          INTO known, taken
          FROM (
            SELECT e.ordinality AS place,
                   CASE WHEN fresh[e.ordinality] IS NULL THEN (
                       SELECT v.id FROM dispatcher.events v
                        WHERE v.tenant_id = p_tenant_id AND v.workspace_id = p_workspace_id
                          AND v.source = coalesce(e.value ->> 'source', 'default') AND v.message_id = names[e.ordinality]) END AS there,
                   CASE WHEN fresh[e.ordinality] IS NOT NULL THEN (
                       SELECT v.id FROM dispatcher.events v
                        WHERE v.tenant_id = p_tenant_id AND v.workspace_id = p_workspace_id
                          AND v.source = coalesce(e.value ->> 'source', 'default')
                          AND v.message_id = 'sha256:' || encode(sha256(convert_to(names[e.ordinality], 'UTF8')), 'hex')) END AS erased
              FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e OFFSET 0
          ) AS l;
        IF cardinality(array_remove(taken, NULL)) > 0 THEN
            DELETE FROM dispatcher.events v USING unnest(fresh, taken) AS u (ours, theirs) WHERE v.id = u.ours AND u.theirs IS NOT NULL;
            fresh := ARRAY(SELECT CASE WHEN u.theirs IS NULL THEN u.ours END
                             FROM unnest(fresh, taken) WITH ORDINALITY AS u (ours, theirs, place) ORDER BY u.place);
        END IF;
    END LOOP;
    IF cardinality(array_remove(fresh, NULL)) > 0 THEN
        BEGIN
            faults := dispatcher.write_events(p_tenant_id, p_workspace_id, p_events, fresh, p_path, p_explain);
        EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
            -- Each pair by itself: what fails is left out, with its reason.
            faults := '[]';
            FOR pair IN
                SELECT e.ordinality::integer AS place, p.name
                  FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e,
                       LATERAL dispatcher.pairs_of(p_tenant_id, p_workspace_id, e.value ->> 'trigger') AS p (name)
                 WHERE fresh[e.ordinality] IS NOT NULL
            LOOP
                BEGIN
                    faults := faults || dispatcher.write_events(p_tenant_id, p_workspace_id, p_events, fresh, p_path, p_explain,
                                                                pair.place, pair.name);
                EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
                    why := SQLERRM;
                    faults := faults || dispatcher.write_events(p_tenant_id, p_workspace_id, p_events, fresh, p_path, p_explain,
                                                                pair.place, pair.name, why);
                END;
            END LOOP;
        END;
        IF faults <> '[]' THEN
            PERFORM dispatcher.refuse('the event is refused: ' || dispatcher.faults_in_words(faults), faults);
        END IF;
    END IF;
    RETURN QUERY
    SELECT k.place::integer, d.event_id, d.channel, d.audience, CASE WHEN fresh[k.place] IS NULL THEN 'duplicate' ELSE d.decision END,
           d.reason, d.fallback, d.decision, d.outcome, d.steps, d.delivery_ids
      FROM unnest(known) WITH ORDINALITY AS k (id, place), LATERAL (
           SELECT * FROM dispatcher.event_decisions v WHERE v.event_id = k.id OFFSET 0) AS d
     ORDER BY k.place, d.channel, d.audience;
END $$;

-- The pairs (channel/audience) of a trigger: those with a rule, and those of the catalogue.
CREATE FUNCTION dispatcher.pairs_of(p_tenant_id text, p_workspace_id text, p_trigger text) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.channel || '/' || r.audience FROM dispatcher.rules r
     WHERE r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id AND r.event_trigger = p_trigger
     UNION
    SELECT jsonb_object_keys(coalesce(
        (SELECT o.pairs FROM dispatcher.event_triggers o
          WHERE o.tenant_id = p_tenant_id AND o.workspace_id = p_workspace_id AND o.name = p_trigger),
        (SELECT b.pairs FROM dispatcher.builtin_triggers b WHERE b.name = p_trigger), '{}'))
     ORDER BY 1
$$;

-- Tell an event to whom the rules say, in the caller's transaction. A repeated message id (of one source) answers the first
-- answer, as a duplicate. Raises what is wrong, all of it.
CREATE FUNCTION dispatcher.notify(
    trigger text, variables jsonb DEFAULT '{}', lead jsonb DEFAULT NULL, partner jsonb DEFAULT NULL, agent jsonb DEFAULT NULL,
    event_at timestamptz DEFAULT NULL, message_id text DEFAULT NULL, source text DEFAULT NULL,
    tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default'
) RETURNS TABLE (
    event_id bigint, channel text, audience text, decision text, reason text, fallback text, first_decision text, outcome text,
    steps jsonb, delivery_ids bigint[]
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT n.event_id, n.channel, n.audience, n.decision, n.reason, n.fallback, n.first_decision, n.outcome, n.steps, n.delivery_ids
      FROM dispatcher.notify_events(
        coalesce(notify.tenant_id, 'default'), coalesce(notify.workspace_id, 'default'), jsonb_build_array(jsonb_build_object(
            'trigger', notify.trigger, 'variables', coalesce(notify.variables, '{}'), 'lead', notify.lead, 'partner', notify.partner,
            'agent', notify.agent, 'event_at', notify.event_at, 'message_id', notify.message_id, 'source', notify.source)), '$') AS n;
END $$;

-- Write down what became of a caller's own code. Answers noted, before (it was told already), or unknown (there was none to run).
CREATE FUNCTION dispatcher.note_fallback(
    event_id bigint, channel text, audience text, outcome text, error text DEFAULT NULL,
    tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default'
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    tenant    CONSTANT text := coalesce(note_fallback.tenant_id, 'default');
    workspace CONSTANT text := coalesce(note_fallback.workspace_id, 'default');
    before    text;
BEGIN
    PERFORM dispatcher.stay_within(tenant, workspace);
    IF coalesce(note_fallback.outcome, '') NOT IN ('done', 'failed') THEN
        PERFORM dispatcher.refuse('outcome: expected done or failed', dispatcher.fault('$.outcome', 'expected done or failed'));
    END IF;
    SELECT coalesce(d.outcome, '') INTO before
      FROM dispatcher.event_decisions d JOIN dispatcher.events e ON e.id = d.event_id
     WHERE d.event_id = note_fallback.event_id AND d.channel = note_fallback.channel AND d.audience = note_fallback.audience
       AND d.fallback = 'caller' AND e.tenant_id = tenant AND e.workspace_id = workspace
       FOR UPDATE OF d;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF before <> '' THEN RETURN 'before'; END IF;
    UPDATE dispatcher.event_decisions d
       SET outcome = note_fallback.outcome, error = left(note_fallback.error, 1000), noted_at = statement_timestamp()
     WHERE d.event_id = note_fallback.event_id AND d.channel = note_fallback.channel AND d.audience = note_fallback.audience;
    RETURN 'noted';
END $$;

REVOKE ALL ON FUNCTION dispatcher.event_faults, dispatcher.is_no_person, dispatcher.write_events, dispatcher.texts_of, dispatcher.reasons_of,
    dispatcher.filled_in, dispatcher.notify_events, dispatcher.pairs_of, dispatcher.notify, dispatcher.note_fallback FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.notify, dispatcher.notify_events, dispatcher.note_fallback TO dispatcher_tenant;
