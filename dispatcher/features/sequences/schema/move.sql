-- Moving enrolments to another version.
--
-- A moved enrolment goes on with the step behind the last one that it has got, in the order of the new version. A step that it
-- has got is not sent again, and neither is one whose time has passed; but for the one that it waits for, which may be due just
-- now. Where none is left it is completed. One with a message on its way is left alone.

-- By how much the days of an enrolment will have moved when it is next walked, now.
CREATE FUNCTION dispatcher.shift_of(p_run dispatcher.runs) RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(upper(p) - lower(p)), '0')
      FROM unnest((SELECT range_agg(tstzrange(greatest(a.since, to_timestamp((p_run.state ->> 'paced')::float8), p_run.created_at), a.ended))
                     FROM (SELECT s.since, coalesce(s.ended_at, statement_timestamp()) AS ended
                             FROM dispatcher.pauses s WHERE s.scope = 'sequence' AND s.name = p_run.workflow_id::text
                            UNION ALL
                           SELECT to_timestamp((e.value ->> 'since')::float8), to_timestamp((e.value ->> 'ended')::float8)
                             FROM jsonb_array_elements(p_run.state -> 'rests') AS e
                            UNION ALL
                           SELECT p_run.paused_at, statement_timestamp() WHERE p_run.paused_at IS NOT NULL) AS a
                    WHERE a.ended > greatest(a.since, to_timestamp((p_run.state ->> 'paced')::float8), p_run.created_at))) AS p
$$;

-- Where up to p_most enrolments of a version behind an id would go on in another: the step that each waits for, and the step
-- that it would wait for, null where none is left. With p_lock they are locked, and those that others hold are left out.
CREATE FUNCTION dispatcher.moves(
    p_from bigint, p_to bigint, p_after bigint, p_most integer, p_lock boolean
) RETURNS TABLE (run_id bigint, step text, next_step text, is_sending boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    plan     CONSTANT jsonb := (SELECT v.plan FROM dispatcher.plan_versions v WHERE v.id = p_to);
    relative CONSTANT boolean := coalesce((plan ->> 'from_previous')::boolean, false);
    run      dispatcher.runs;
    zone     text;
BEGIN
    FOR run IN EXECUTE
        'SELECT r.* FROM dispatcher.runs r
          WHERE r.workflow_id = (SELECT v.workflow_id FROM dispatcher.plan_versions v WHERE v.id = $1) AND r.finished_at IS NULL
            AND r.version_id = $1 AND r.id > $2 ORDER BY r.id LIMIT $3' || CASE WHEN p_lock THEN ' FOR UPDATE' ELSE '' END
        USING p_from, p_after, p_most
    LOOP
        run_id := run.id;
        SELECT replace(c.key, 'day-', ''), c.value ->> 'standing' = 'sending' INTO step, is_sending
          FROM jsonb_each(run.state -> 'cursor') AS c LIMIT 1;
        zone := (SELECT c.time_zone FROM dispatcher.contacts c WHERE c.id = run.contact_id);
        IF NOT coalesce(dispatcher.is_time_zone(zone), false) THEN zone := NULL; END IF;
        WITH steps AS (
            SELECT s.key AS id, (s.value ->> 'step')::integer AS place, plan -> 'nodes' -> ('day-' || s.key) AS day,
                   EXISTS (SELECT FROM dispatcher.deliveries d WHERE d.run_id = run.id AND d.node = s.key) AS is_sent
              FROM jsonb_each(plan -> 'nodes') AS s WHERE s.value ->> 'kind' = 'send'
        )
        SELECT s.id INTO next_step FROM steps s
         WHERE NOT s.is_sent AND s.place > coalesce((SELECT max(t.place) FROM steps t WHERE t.is_sent), -1)
           AND (relative OR s.id = step
                OR dispatcher.step_time(run.anchor + dispatcher.shift_of(run), (s.day ->> 'days')::integer, (s.day ->> 'hour')::integer,
                                        coalesce(CASE WHEN (s.day ->> 'contact_zone')::boolean THEN zone END, s.day ->> 'zone', 'UTC'))
                   > statement_timestamp())
         ORDER BY s.place LIMIT 1;
        RETURN NEXT;
    END LOOP;
END $$;

-- What a move would do: of the enrolments of a version how many would go on from which step with which.
CREATE FUNCTION dispatcher.preview_move(
    p_tenant_id text, p_workspace_id text, p_sequence text, p_from integer, p_to integer, p_most integer
) RETURNS TABLE (step bigint, next_step bigint, is_sending boolean, enrollments bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ids bigint[];
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    ids := dispatcher.versions_of_move(dispatcher.sequence_of(p_tenant_id, p_workspace_id, p_sequence), p_from, p_to);
    RETURN QUERY SELECT m.step::bigint, m.next_step::bigint, m.is_sending, count(*)
                   FROM dispatcher.moves(ids[1], ids[2], 0, p_most, false) AS m GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
END $$;

-- The ids of both versions of a move.
CREATE FUNCTION dispatcher.versions_of_move(p_sequence dispatcher.sequences, p_from integer, p_to integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    faults jsonb;
    ids    bigint[];
BEGIN
    SELECT coalesce(jsonb_agg(jsonb_build_object('path', '$.' || a.name, 'words', format('there is no version %s; the newest is %s',
               coalesce(a.number::text, 'null'), p_sequence.version)) ORDER BY a.place) FILTER (WHERE v.id IS NULL), '[]'),
           array_agg(v.id ORDER BY a.place)
      INTO faults, ids
      FROM (VALUES ('from', p_from, 1), ('to', p_to, 2)) AS a (name, number, place)
      LEFT JOIN dispatcher.plan_versions v ON v.workflow_id = p_sequence.id AND v.number = a.number;
    IF faults = '[]' AND p_from = p_to THEN faults := dispatcher.fault('$.to', 'is the version that they are moved from'); END IF;
    IF faults <> '[]' THEN PERFORM dispatcher.refuse(dispatcher.faults_in_words(faults), faults); END IF;
    RETURN ids;
END $$;

-- Move up to p_most enrolments of a version behind an id. Answers how many were looked at, moved and completed, and the last id.
CREATE FUNCTION dispatcher.move_enrollments(
    p_tenant_id text, p_workspace_id text, p_sequence text, p_from integer, p_to integer, p_after bigint, p_most integer,
    p_actor text, OUT seen bigint, OUT moved bigint, OUT completed bigint, OUT last bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    said dispatcher.sequences;
    ids  bigint[];
    one  record;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    said := dispatcher.sequence_of(p_tenant_id, p_workspace_id, p_sequence);
    ids := dispatcher.versions_of_move(said, p_from, p_to);
    seen := 0; moved := 0; completed := 0; last := p_after;
    FOR one IN SELECT * FROM dispatcher.moves(ids[1], ids[2], p_after, p_most, true) LOOP
        seen := seen + 1;
        last := one.run_id;
        CONTINUE WHEN one.is_sending;
        IF one.next_step IS NULL THEN
            UPDATE dispatcher.runs r
               SET version_id = ids[2], status = 'completed', finished_at = statement_timestamp(), available_at = NULL, paused_at = NULL,
                   note = format('moved to version %s, which has no step left for it', p_to)
             WHERE r.id = one.run_id;
            completed := completed + 1;
        ELSE
            -- It is looked at once, to wait for its new day. A parked or paused one is when it goes on.
            UPDATE dispatcher.runs r
               SET version_id = ids[2],
                   available_at = CASE WHEN r.status <> 'paused' AND r.parked_by IS NULL THEN statement_timestamp() END,
                   error = NULL, error_node = NULL,
                   state = jsonb_set(r.state, '{cursor}', jsonb_build_object('day-' || one.next_step, jsonb_build_object(
                               'standing', 'joining', 'since', extract(epoch FROM statement_timestamp()))))
             WHERE r.id = one.run_id;
            moved := moved + 1;
        END IF;
    END LOOP;
    IF moved + completed > 0 THEN
        PERFORM dispatcher.note_sequence(said.id, p_to, p_actor, 'move');
        IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
    END IF;
END $$;

REVOKE ALL ON FUNCTION dispatcher.shift_of, dispatcher.moves, dispatcher.versions_of_move, dispatcher.preview_move,
    dispatcher.move_enrollments FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.preview_move, dispatcher.move_enrollments TO dispatcher_tenant;
