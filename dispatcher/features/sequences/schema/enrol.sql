-- Enrolment: contacts begin a sequence, one or many in one statement, inside the transaction of an application.

-- The sequence of a name, which has to be active.
CREATE FUNCTION dispatcher.active_sequence(p_tenant_id text, p_workspace_id text, p_name text) RETURNS dispatcher.sequences
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    said  dispatcher.sequences := dispatcher.sequence_of(p_tenant_id, p_workspace_id, p_name);
    words text;
BEGIN
    IF said.status <> 'active' THEN
        words := CASE said.status WHEN 'draft' THEN 'is a draft: publish it first' ELSE 'is paused: resume it first' END;
        PERFORM dispatcher.refuse(format('the sequence %s %s', quote_literal(p_name), words),
            dispatcher.fault('$.sequence', words), '55000');
    END IF;
    RETURN said;
END $$;

-- Enrol contacts by id, those that are not in the sequence. Answers how many, and which of their time zones nobody knows: for
-- those the sequence's own is used. Each zone's first day is computed once.
CREATE FUNCTION dispatcher.enrol_contacts(
    p_sequence dispatcher.sequences, p_ids bigint[], p_actor text, OUT enrolled bigint, OUT unknown_zones text[]
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    by_contact CONSTANT boolean := coalesce((p_sequence.entry ->> 'contact_zone')::boolean, false);
    own_zone   CONSTANT text := p_sequence.entry ->> 'zone';
    zones      text[] := ARRAY[own_zone];
BEGIN
    unknown_zones := '{}';
    IF by_contact THEN
        SELECT coalesce(array_agg(z.name) FILTER (WHERE z.is_known), '{}') || own_zone,
               coalesce(array_agg(z.name) FILTER (WHERE NOT z.is_known), '{}')
          INTO zones, unknown_zones
          FROM (SELECT c.time_zone AS name, dispatcher.is_time_zone(c.time_zone) AS is_known
                  FROM dispatcher.contacts c WHERE c.id = ANY (p_ids) AND c.time_zone IS NOT NULL GROUP BY c.time_zone) AS z;
    END IF;
    WITH days AS MATERIALIZED (
        SELECT t.zone, greatest(t.at, now()) AS at,
               jsonb_build_object('cursor', jsonb_build_object(p_sequence.entry ->> 'node', jsonb_build_object(
                   'standing', 'delaying', 'since', extract(epoch FROM now()), 'until', extract(epoch FROM t.at)))) AS state
          FROM (SELECT DISTINCT z.zone, dispatcher.step_time(now(), (p_sequence.entry ->> 'days')::integer,
                                                             (p_sequence.entry ->> 'hour')::integer, z.zone) AS at
                  FROM unnest(zones) AS z (zone)) AS t
    )
    INSERT INTO dispatcher.runs (workflow_id, version_id, contact_id, anchor, available_at, status, lane, tenant_id, workspace_id,
                                 workflow, triggered_by, input, state)
    SELECT p_sequence.id, p_sequence.current, c.id, now(), d.at, 'waiting', p_sequence.lane, p_sequence.tenant_id,
           p_sequence.workspace_id, p_sequence.name, p_actor, '{}', d.state
      FROM dispatcher.contacts c
      JOIN days d ON d.zone = CASE WHEN by_contact AND c.time_zone IS NOT NULL AND c.time_zone <> ALL (unknown_zones) THEN c.time_zone ELSE own_zone END
     WHERE c.id = ANY (p_ids) AND c.tenant_id = p_sequence.tenant_id AND c.workspace_id = p_sequence.workspace_id
     ORDER BY c.id
    ON CONFLICT (contact_id, workflow_id) WHERE contact_id IS NOT NULL AND finished_at IS NULL DO NOTHING;
    GET DIAGNOSTICS enrolled = ROW_COUNT;
    IF enrolled > 0 AND EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN
        PERFORM pg_notify('dispatcher_runs', '');
    END IF;
END $$;

-- Enrol one contact, by its key or its id. One that is in the sequence stays as it is: duplicate, with the enrolment that it
-- has. A contact of another workspace is not found.
CREATE FUNCTION dispatcher.enrol(
    sequence text, contact text DEFAULT NULL, contact_id bigint DEFAULT NULL, tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default', actor text DEFAULT session_user,
    OUT enrollment_id bigint, OUT version integer, OUT status text, OUT next_step_at timestamptz, OUT duplicate boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    tenant    CONSTANT text := coalesce(enrol.tenant_id, 'default');
    workspace CONSTANT text := coalesce(enrol.workspace_id, 'default');
    asked     CONSTANT text := coalesce(quote_literal(left(enrol.contact, 201)), enrol.contact_id::text, 'null');
    said      dispatcher.sequences;
    whom      bigint;
BEGIN
    PERFORM dispatcher.stay_within(tenant, workspace);
    said := dispatcher.active_sequence(tenant, workspace, enrol.sequence);
    SELECT c.id INTO whom FROM dispatcher.contacts c
     WHERE c.tenant_id = tenant AND c.workspace_id = workspace
       AND CASE WHEN enrol.contact IS NOT NULL THEN c.key = enrol.contact ELSE c.id = enrol.contact_id END;
    IF NOT FOUND THEN
        PERFORM dispatcher.refuse(format('there is no contact %s', asked),
            dispatcher.fault('$.contact', 'there is no such contact'), 'P0002');
    END IF;
    LOOP
        SELECT e.enrolled = 0 INTO duplicate
          FROM dispatcher.enrol_contacts(said, ARRAY[whom], coalesce(nullif(enrol.actor, ''), session_user)) AS e;
        SELECT e.id, v.number, dispatcher.enrollment_status(e.status), e.available_at INTO enrollment_id, version, status, next_step_at
          FROM dispatcher.runs e JOIN dispatcher.plan_versions v ON v.id = e.version_id
         WHERE e.contact_id = whom AND e.workflow_id = said.id AND e.finished_at IS NULL;
        EXIT WHEN FOUND;
        -- The one that stood in the way has ended meanwhile; or the contact is gone.
        IF NOT EXISTS (SELECT FROM dispatcher.contacts c WHERE c.id = whom) THEN
            PERFORM dispatcher.refuse(format('there is no contact %s', asked),
                dispatcher.fault('$.contact', 'there is no such contact'), 'P0002');
        END IF;
    END LOOP;
END $$;

-- Enrol an audience. Answers how many were enrolled, and how many not; reasons says why, or what else there is to know:
-- [{"reason": "already enrolled", "count": 3}, {"reason": "there is no such contact", "count": 1, "contacts": ["ann"]}].
CREATE FUNCTION dispatcher.enrol_audience(
    sequence text, audience jsonb, tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default',
    actor text DEFAULT session_user, OUT enrolled_count bigint, OUT skipped_count bigint, OUT reasons jsonb
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    shown_max CONSTANT integer := 10;
    tenant    CONSTANT text := coalesce(enrol_audience.tenant_id, 'default');
    workspace CONSTANT text := coalesce(enrol_audience.workspace_id, 'default');
    said      dispatcher.sequences;
    faults    jsonb;
    ids       bigint[];
    zones     text[];
    missing   text[];
BEGIN
    PERFORM dispatcher.stay_within(tenant, workspace);
    faults := dispatcher.audience_form_faults('$.audience', enrol_audience.audience);
    IF faults <> '[]' THEN PERFORM dispatcher.refuse(dispatcher.faults_in_words(faults), faults); END IF;
    said := dispatcher.active_sequence(tenant, workspace, enrol_audience.sequence);
    ids := ARRAY(SELECT dispatcher.audience(tenant, workspace, enrol_audience.audience));
    missing := ARRAY(SELECT n.name FROM (SELECT DISTINCT e.value #>> '{}' AS name, jsonb_typeof(e.value) AS type
                                           FROM jsonb_array_elements(enrol_audience.audience -> 'contacts') AS e) AS n
                      WHERE NOT EXISTS (SELECT FROM dispatcher.contacts c
                                         WHERE c.tenant_id = tenant AND c.workspace_id = workspace
                                           AND CASE n.type WHEN 'number' THEN c.id = n.name::bigint ELSE c.key = n.name END)
                      ORDER BY n.name);
    SELECT e.enrolled, e.unknown_zones INTO enrolled_count, zones
      FROM dispatcher.enrol_contacts(said, ids, coalesce(nullif(enrol_audience.actor, ''), session_user)) AS e;
    skipped_count := cardinality(ids) - enrolled_count + cardinality(missing);
    reasons := '[]';
    IF cardinality(ids) > enrolled_count THEN
        reasons := reasons || jsonb_build_object('reason', 'already enrolled', 'count', cardinality(ids) - enrolled_count);
    END IF;
    IF missing <> '{}' THEN
        reasons := reasons || jsonb_build_object('reason', 'there is no such contact', 'count', cardinality(missing),
                                                 'contacts', to_jsonb(missing[:shown_max]));
    END IF;
    IF zones <> '{}' THEN
        reasons := reasons || jsonb_build_object(
            'reason', format('unknown time zone: %s is used', said.entry ->> 'zone'), 'zones', to_jsonb(zones[:shown_max]), 'count',
            (SELECT count(*) FROM dispatcher.contacts c WHERE c.id = ANY (ids) AND c.time_zone = ANY (zones)));
    END IF;
END $$;

REVOKE ALL ON FUNCTION dispatcher.active_sequence, dispatcher.enrol_contacts, dispatcher.enrol, dispatcher.enrol_audience FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.enrol, dispatcher.enrol_audience TO dispatcher_tenant;
