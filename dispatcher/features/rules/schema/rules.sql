-- Saving rules and triggers: everything is checked together, and all of it is saved or nothing.

-- A rule as it is written: {"trigger", "channel", "audience", "enabled", "steps": [{"template", "offset_seconds", "recipients",
-- "enabled", "order"}]}, its steps in their order.
CREATE FUNCTION dispatcher.rule_document(p_rule_id bigint) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('trigger', r.event_trigger, 'channel', r.channel, 'audience', r.audience, 'enabled', r.enabled, 'steps', coalesce(
        (SELECT jsonb_agg(jsonb_build_object('template', s.template_name, 'offset_seconds', s.offset_seconds, 'enabled', s.enabled,
                    'order', s.step_order, 'recipients', jsonb_strip_nulls(jsonb_build_object(
                        'includeLeadContact', nullif(s.include_lead, false), 'includePartner', nullif(s.include_partner, false),
                        'includeAgent', nullif(s.include_agent, false),
                        CASE WHEN r.channel = 'email' THEN 'customEmails' ELSE 'customPhones' END, nullif(to_jsonb(s.custom), '[]'))))
                 ORDER BY s.step_order, s.created_at, s.id)
           FROM dispatcher.rule_steps s WHERE s.rule_id = r.id), '[]'))
      FROM dispatcher.rules r WHERE r.id = p_rule_id
$$;

-- What a template reads that a trigger does not promise. A path is promised with all that is below it, and a whole by its parts.
CREATE FUNCTION dispatcher.not_promised(p_reads text[], p_promised text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(r.path, ', ' ORDER BY r.place)
      FROM unnest(p_reads) WITH ORDINALITY AS r (path, place), LATERAL (SELECT dispatcher.path_steps(r.path) AS steps) AS a
     WHERE a.steps[1] NOT IN ('unsubscribe_url', 'event')
       AND NOT EXISTS (SELECT FROM unnest(p_promised) AS p (path), LATERAL (SELECT dispatcher.path_steps(p.path) AS steps) AS b
                        WHERE a.steps[1:least(cardinality(a.steps), cardinality(b.steps))]
                              = b.steps[1:least(cardinality(a.steps), cardinality(b.steps))])
$$;

-- What is wrong with a step of a rule.
CREATE FUNCTION dispatcher.rule_step_faults(
    p_tenant_id text, p_workspace_id text, p_path text, p_channel text, p_promised text[], p_step jsonb
) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    custom_max CONSTANT integer := 1000;
    own        CONSTANT text := CASE WHEN p_channel = 'email' THEN 'customEmails' ELSE 'customPhones' END;
    rule       CONSTANT jsonb := (SELECT w.phone_rule FROM dispatcher.workspace_settings w
                                   WHERE w.tenant_id = p_tenant_id AND w.workspace_id = p_workspace_id);
    called     CONSTANT text := p_step ->> 'template';
    recipients CONSTANT jsonb := coalesce(p_step -> 'recipients', '{}');
    faults     jsonb := '[]';
    words      text;
    asked      record;
BEGIN
    words := CASE WHEN coalesce(length(called), 0) NOT BETWEEN 1 AND 100 THEN 'expected the name of a stored template'
                  ELSE dispatcher.template_fault(p_tenant_id, p_workspace_id, called, p_channel) END;
    IF words IS NULL THEN
        SELECT format('%s reads what the trigger does not promise: %s', quote_literal(called), n.paths) INTO words
          FROM dispatcher.templates t JOIN dispatcher.template_versions v ON v.id = t.published,
               LATERAL (SELECT dispatcher.not_promised(v.variables, p_promised) AS paths) AS n
         WHERE t.tenant_id = p_tenant_id AND t.workspace_id = p_workspace_id AND t.name = called AND n.paths IS NOT NULL;
    END IF;
    IF words IS NOT NULL THEN faults := faults || dispatcher.fault(p_path || '.template', words); END IF;
    IF abs(coalesce((p_step ->> 'offset_seconds')::numeric, 0)) > 315360000 THEN
        faults := faults || dispatcher.fault(p_path || '.offset', 'is more than ten years');
    END IF;
    IF jsonb_typeof(recipients) <> 'object' THEN
        RETURN faults || dispatcher.fault(p_path || '.recipients', 'expected an object');
    END IF;
    FOR asked IN SELECT e.key, e.value FROM jsonb_each(recipients) AS e LOOP
        words := CASE
            WHEN asked.key IN ('includeLeadContact', 'includePartner', 'includeAgent') THEN
                CASE WHEN jsonb_typeof(asked.value) <> 'boolean' THEN 'expected true or false' END
            WHEN asked.key IN ('customEmails', 'customPhones') AND asked.key <> own THEN format('goes not with %s: use %s', p_channel, own)
            WHEN asked.key <> own THEN
                'unknown field; there are includeLeadContact, includePartner, includeAgent, customEmails and customPhones'
            WHEN jsonb_typeof(asked.value) <> 'array' THEN 'expected a list of texts'
            WHEN jsonb_array_length(asked.value) > custom_max THEN
                format('has %s items, over %s', jsonb_array_length(asked.value), custom_max) END;
        IF words IS NOT NULL THEN
            faults := faults || dispatcher.fault(format('%s.recipients.%s', p_path, asked.key), words);
        ELSIF asked.key = own THEN
            SELECT faults || coalesce(jsonb_agg(jsonb_build_object('path', format('%s.recipients.%s[%s]', p_path, own, a.place - 1),
                                                                   'words', a.fault) ORDER BY a.place), '[]') INTO faults
              FROM (SELECT e.ordinality AS place,
                           CASE WHEN jsonb_typeof(e.value) <> 'string' THEN 'expected a text'
                                WHEN p_channel <> 'email' THEN (dispatcher.phone_number(e.value #>> '{}', rule)).fault
                                WHEN btrim(regexp_replace(btrim(e.value #>> '{}'), '^.*<([^<>]*)>$', '\1')) !~ '^[^\s<>@]+@[^\s<>@]+$'
                                     OR length(e.value #>> '{}') > 500 THEN 'is not an e-mail address: expected name@domain' END AS fault
                      FROM jsonb_array_elements(asked.value) WITH ORDINALITY AS e) AS a
             WHERE a.fault IS NOT NULL;
        END IF;
    END LOOP;
    RETURN faults;
END $$;

-- What is wrong with rules, all of it.
CREATE FUNCTION dispatcher.rule_faults(p_tenant_id text, p_workspace_id text, p_rules jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    channels CONSTANT text[] := '{email,sms,voice,whatsapp}';
    steps_max CONSTANT integer := 100;
    faults   jsonb := '[]';
    asked    record;
    promised text[];
BEGIN
    FOR asked IN
        SELECT '$.rules[' || e.ordinality - 1 || ']' AS path, e.value ->> 'trigger' AS called, e.value ->> 'channel' AS channel,
               e.value ->> 'audience' AS audience, coalesce(e.value -> 'steps', '[]') AS steps,
               count(*) OVER (PARTITION BY e.value ->> 'trigger', e.value ->> 'channel', e.value ->> 'audience') AS alike
          FROM jsonb_array_elements(p_rules) WITH ORDINALITY AS e ORDER BY e.ordinality
    LOOP
        SELECT k.variables INTO promised FROM dispatcher.known_triggers k
         WHERE k.name = asked.called AND (k.tenant_id IS NULL OR (k.tenant_id, k.workspace_id) = (p_tenant_id, p_workspace_id))
         ORDER BY k.tenant_id NULLS LAST LIMIT 1;
        IF NOT FOUND THEN
            faults := faults || dispatcher.fault(asked.path || '.trigger',
                'there is no trigger ' || coalesce(quote_literal(left(asked.called, 101)), 'null'));
        END IF;
        IF asked.alike > 1 THEN faults := faults || dispatcher.fault(asked.path, 'is there twice: one rule has one (trigger, channel, audience)'); END IF;
        IF coalesce(asked.audience, '') !~ '^[a-z][a-z0-9_]{0,24}$' THEN
            faults := faults || dispatcher.fault(asked.path || '.audience', 'expected a name such as lead, partner or agent');
        END IF;
        IF coalesce(asked.channel, '') <> ALL (channels) THEN
            faults := faults || dispatcher.fault(asked.path || '.channel',
                format('%s is not a channel of rules: expected one of %s', coalesce(quote_literal(left(asked.channel, 32)), 'null'),
                       array_to_string(channels, ', ')));
        ELSIF promised IS NOT NULL THEN
            IF jsonb_array_length(asked.steps) > steps_max THEN
                faults := faults || dispatcher.fault(asked.path || '.steps', format('has over %s items', steps_max));
            ELSE
                SELECT faults || coalesce(jsonb_agg(f.value ORDER BY s.ordinality, f.ordinality), '[]') INTO faults
                  FROM jsonb_array_elements(asked.steps) WITH ORDINALITY AS s,
                       jsonb_array_elements(dispatcher.rule_step_faults(p_tenant_id, p_workspace_id,
                           asked.path || '.steps[' || s.ordinality - 1 || ']', asked.channel, promised, s.value)) WITH ORDINALITY AS f;
            END IF;
        END IF;
        promised := NULL;
    END LOOP;
    RETURN faults;
END $$;

-- Save rules, all or none. Answers each with what was done: created, changed, same. With p_check nothing is saved.
CREATE FUNCTION dispatcher.put_rules(
    p_tenant_id text, p_workspace_id text, p_rules jsonb, p_actor text, p_check boolean DEFAULT false
) RETURNS TABLE (place integer, name text, answer text, version integer)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    faults CONSTANT jsonb := dispatcher.rule_faults(p_tenant_id, p_workspace_id, p_rules);
    asked  record;
    held   dispatcher.rules;
    said   jsonb;
BEGIN
    IF faults <> '[]' THEN PERFORM dispatcher.refuse('the rules cannot be saved: ' || dispatcher.faults_in_words(faults), faults); END IF;
    FOR asked IN
        SELECT e.ordinality::integer AS place, e.value ->> 'trigger' AS called, e.value ->> 'channel' AS channel,
               e.value ->> 'audience' AS audience, coalesce((e.value ->> 'enabled')::boolean, true) AS enabled,
               coalesce(e.value -> 'steps', '[]') AS steps
          FROM jsonb_array_elements(p_rules) WITH ORDINALITY AS e
         ORDER BY (e.value ->> 'trigger') COLLATE "C", (e.value ->> 'channel') COLLATE "C", (e.value ->> 'audience') COLLATE "C"
    LOOP
        answer := 'same';
        IF p_check THEN
            SELECT r.* INTO held FROM dispatcher.rules r
             WHERE r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id AND r.event_trigger = asked.called
               AND r.channel = asked.channel AND r.audience = asked.audience;
            IF NOT FOUND THEN answer := 'created'; END IF;
        ELSE
            INSERT INTO dispatcher.rules AS r (enabled, tenant_id, workspace_id, event_trigger, channel, audience, updated_by)
            VALUES (asked.enabled, p_tenant_id, p_workspace_id, asked.called, asked.channel, asked.audience, p_actor)
            ON CONFLICT ON CONSTRAINT rules_name DO NOTHING RETURNING r.* INTO held;
            IF FOUND THEN
                answer := 'created';
            ELSE
                SELECT r.* INTO STRICT held FROM dispatcher.rules r
                 WHERE r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id AND r.event_trigger = asked.called
                   AND r.channel = asked.channel AND r.audience = asked.audience FOR UPDATE;
            END IF;
        END IF;
        SELECT coalesce(jsonb_agg(jsonb_build_object('template', s.value -> 'template',
                   'offset_seconds', coalesce((s.value ->> 'offset_seconds')::bigint, 0),
                   'enabled', coalesce((s.value ->> 'enabled')::boolean, true),
                   'order', coalesce((s.value ->> 'order')::integer, s.ordinality),
                   'recipients', coalesce((SELECT jsonb_object_agg(e.key, e.value) FROM jsonb_each(s.value -> 'recipients') AS e
                                            WHERE e.value NOT IN ('false', '[]')), '{}'))
                   ORDER BY coalesce((s.value ->> 'order')::integer, s.ordinality), s.ordinality), '[]')
          INTO said FROM jsonb_array_elements(asked.steps) WITH ORDINALITY AS s;
        IF answer = 'same' AND (held.enabled <> asked.enabled OR dispatcher.rule_document(held.id) -> 'steps' <> said) THEN
            answer := 'changed';
        END IF;
        IF answer <> 'same' AND NOT p_check THEN
            DELETE FROM dispatcher.rule_steps s WHERE s.rule_id = held.id;
            INSERT INTO dispatcher.rule_steps (rule_id, offset_seconds, step_order, enabled, include_lead, include_partner,
                                               include_agent, template_name, custom)
            SELECT held.id, (s.value ->> 'offset_seconds')::bigint, (s.value ->> 'order')::integer, (s.value ->> 'enabled')::boolean,
                   s.value -> 'recipients' ? 'includeLeadContact', s.value -> 'recipients' ? 'includePartner',
                   s.value -> 'recipients' ? 'includeAgent', s.value ->> 'template',
                   ARRAY(SELECT jsonb_array_elements_text(coalesce(s.value -> 'recipients' -> 'customEmails',
                                                                   s.value -> 'recipients' -> 'customPhones', '[]')))
              FROM jsonb_array_elements(said) WITH ORDINALITY AS s ORDER BY s.ordinality;
            IF answer = 'changed' THEN
                UPDATE dispatcher.rules r SET enabled = asked.enabled, version = r.version + 1, updated_at = statement_timestamp(),
                       updated_by = p_actor WHERE r.id = held.id RETURNING r.* INTO held;
            END IF;
            INSERT INTO dispatcher.rule_actions (tenant_id, workspace_id, subject, action, actor, version)
            VALUES (p_tenant_id, p_workspace_id, concat_ws('/', asked.called, asked.channel, asked.audience), 'put', p_actor, held.version);
        END IF;
        place := asked.place;
        name := concat_ws('/', asked.called, asked.channel, asked.audience);
        version := held.version;
        RETURN NEXT;
    END LOOP;
END $$;

-- Enable, disable or delete a rule. Answers done, same or unknown.
CREATE FUNCTION dispatcher.switch_rule(p_tenant_id text, p_workspace_id text, p_name text, p_action text, p_actor text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.rules;
BEGIN
    SELECT r.* INTO held FROM dispatcher.rules r
     WHERE r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id AND r.event_trigger = split_part(p_name, '/', 1)
       AND r.channel = split_part(p_name, '/', 2) AND r.audience = split_part(p_name, '/', 3) AND split_part(p_name, '/', 4) = ''
       FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF p_action = 'delete' THEN
        DELETE FROM dispatcher.rules r WHERE r.id = held.id;
    ELSIF held.enabled = (p_action = 'enable') THEN
        RETURN 'same';
    ELSE
        UPDATE dispatcher.rules r SET enabled = (p_action = 'enable'), version = r.version + 1, updated_at = statement_timestamp(),
               updated_by = p_actor WHERE r.id = held.id RETURNING r.* INTO held;
    END IF;
    INSERT INTO dispatcher.rule_actions (tenant_id, workspace_id, subject, action, actor, version)
    VALUES (p_tenant_id, p_workspace_id, p_name, p_action, p_actor, held.version);
    RETURN 'done';
END $$;

-- What is wrong with an entry of the catalogue.
CREATE FUNCTION dispatcher.event_trigger_faults(p_name text, p_said jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bytes_max CONSTANT integer := 65536;
    faults    jsonb := '[]';
    asked     record;
BEGIN
    IF coalesce(p_name, '') !~ '^[a-z][a-z0-9_]{0,63}$' THEN
        faults := faults || dispatcher.fault('$.name', 'expected 1 to 64 small letters, digits and _, a letter first');
    END IF;
    IF EXISTS (SELECT FROM jsonb_array_elements_text(coalesce(p_said -> 'variables', '[]')) AS v WHERE length(v) NOT BETWEEN 1 AND 200) THEN
        faults := faults || dispatcher.fault('$.variables', 'expected paths such as order.total, of up to 200 characters');
    END IF;
    FOR asked IN SELECT e.key, e.value FROM jsonb_each_text(coalesce(p_said -> 'pairs', '{}')) AS e LOOP
        IF asked.key !~ '^(email|sms|voice|whatsapp)/[a-z][a-z0-9_]{0,24}$' THEN
            faults := faults || dispatcher.fault(format('$.pairs[''%s'']', left(asked.key, 80)), 'expected channel/audience, such as email/lead');
        ELSIF asked.value NOT IN ('message', 'caller', 'none') THEN
            faults := faults || dispatcher.fault(format('$.pairs[''%s'']', asked.key), 'expected caller or none, or message where one is built in');
        ELSIF asked.value = 'message' AND NOT EXISTS (
            SELECT FROM dispatcher.builtin_messages b WHERE b.event_trigger = p_name AND b.channel || '/' || b.audience = asked.key) THEN
            faults := faults || dispatcher.fault(format('$.pairs[''%s'']', asked.key), 'has no built-in message: expected caller or none');
        END IF;
    END LOOP;
    RETURN faults || dispatcher.object_faults('$.sample', coalesce(p_said -> 'sample', '{}'), bytes_max);
END $$;

-- Save an entry of the catalogue: {"description", "variables", "sample", "pairs"}. Answers created, changed or same.
CREATE FUNCTION dispatcher.put_event_trigger(p_tenant_id text, p_workspace_id text, p_name text, p_said jsonb, p_actor text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    faults  CONSTANT jsonb := dispatcher.event_trigger_faults(p_name, p_said);
    reads   CONSTANT text[] := ARRAY(SELECT jsonb_array_elements_text(coalesce(p_said -> 'variables', '[]')));
    shown   CONSTANT jsonb := coalesce(p_said -> 'sample', '{}');
    falls   CONSTANT jsonb := coalesce(p_said -> 'pairs', '{}');
    about   CONSTANT text := coalesce(p_said ->> 'description', '');
    held    dispatcher.event_triggers;
    becomes text := 'created';
BEGIN
    IF faults <> '[]' THEN PERFORM dispatcher.refuse('the trigger cannot be saved: ' || dispatcher.faults_in_words(faults), faults); END IF;
    INSERT INTO dispatcher.event_triggers AS t (tenant_id, workspace_id, name, description, updated_by, variables, sample, pairs)
    VALUES (p_tenant_id, p_workspace_id, p_name, about, p_actor, reads, shown, falls)
    ON CONFLICT ON CONSTRAINT event_triggers_pkey DO NOTHING RETURNING t.* INTO held;
    IF NOT FOUND THEN
        UPDATE dispatcher.event_triggers t
           SET description = about, variables = reads, sample = shown, pairs = falls,
               version = t.version + 1, updated_at = statement_timestamp(), updated_by = p_actor
         WHERE t.tenant_id = p_tenant_id AND t.workspace_id = p_workspace_id AND t.name = p_name
           AND (t.description, t.variables, t.sample, t.pairs) IS DISTINCT FROM (about, reads, shown, falls)
        RETURNING t.* INTO held;
        IF NOT FOUND THEN RETURN 'same'; END IF;
        becomes := 'changed';
    END IF;
    INSERT INTO dispatcher.rule_actions (tenant_id, workspace_id, subject, action, actor, version)
    VALUES (p_tenant_id, p_workspace_id, p_name, 'put', p_actor, held.version);
    RETURN becomes;
END $$;

-- Delete an operator's entry. Answers done, unknown, or used: rules of it would have no trigger.
CREATE FUNCTION dispatcher.delete_event_trigger(p_tenant_id text, p_workspace_id text, p_name text, p_actor text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone integer;
BEGIN
    IF EXISTS (SELECT FROM dispatcher.rules r WHERE r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id AND r.event_trigger = p_name)
       AND NOT EXISTS (SELECT FROM dispatcher.builtin_triggers b WHERE b.name = p_name) THEN
        RETURN 'used';
    END IF;
    DELETE FROM dispatcher.event_triggers t
     WHERE t.tenant_id = p_tenant_id AND t.workspace_id = p_workspace_id AND t.name = p_name RETURNING t.version INTO gone;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    INSERT INTO dispatcher.rule_actions (tenant_id, workspace_id, subject, action, actor, version)
    VALUES (p_tenant_id, p_workspace_id, p_name, 'delete', p_actor, gone);
    RETURN 'done';
END $$;

REVOKE ALL ON FUNCTION dispatcher.rule_document, dispatcher.not_promised, dispatcher.rule_step_faults, dispatcher.rule_faults,
    dispatcher.put_rules, dispatcher.switch_rule, dispatcher.event_trigger_faults, dispatcher.put_event_trigger,
    dispatcher.delete_event_trigger FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.rule_document, dispatcher.not_promised, dispatcher.rule_step_faults, dispatcher.rule_faults,
    dispatcher.put_rules, dispatcher.switch_rule, dispatcher.event_trigger_faults, dispatcher.put_event_trigger,
    dispatcher.delete_event_trigger, dispatcher.fault, dispatcher.faults_in_words, dispatcher.object_faults,
    dispatcher.path_steps TO dispatcher_tenant;
