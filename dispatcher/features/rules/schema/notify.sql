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

-- Take events, each once, and answer for each (channel, audience) what was decided. One that was taken before answers what was
-- answered then, as a duplicate. Raises what is wrong with them, all of it, and then nothing is written.
CREATE FUNCTION dispatcher.notify_events(
    p_tenant_id text, p_workspace_id text, p_events jsonb, p_path text DEFAULT '$.events[%s]', p_explain boolean DEFAULT false,
    p_traceparent text DEFAULT NULL
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
    faults := dispatcher.event_faults(p_tenant_id, p_workspace_id, p_events, p_path)
              || dispatcher.traceparent_faults(p_traceparent);
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
            faults := dispatcher.write_events(p_tenant_id, p_workspace_id, p_events, fresh, p_path, p_explain,
                                              p_traceparent => p_traceparent);
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
                                                                pair.place, pair.name, p_traceparent => p_traceparent);
                EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
                    why := SQLERRM;
                    faults := faults || dispatcher.write_events(p_tenant_id, p_workspace_id, p_events, fresh, p_path, p_explain,
                                                                pair.place, pair.name, why, p_traceparent);
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
    tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default', traceparent text DEFAULT NULL
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
            'agent', notify.agent, 'event_at', notify.event_at, 'message_id', notify.message_id, 'source', notify.source)), '$',
        p_traceparent => notify.traceparent) AS n;
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

REVOKE ALL ON FUNCTION dispatcher.event_faults, dispatcher.is_no_person, dispatcher.notify_events, dispatcher.pairs_of, dispatcher.notify, dispatcher.note_fallback FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.notify, dispatcher.notify_events, dispatcher.note_fallback TO dispatcher_tenant;
