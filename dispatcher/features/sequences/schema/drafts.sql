-- Drafts of sequences, and what becomes of them: save, publish, delete.

-- The sequence of a name, locked; none where there is none.
CREATE FUNCTION dispatcher.lock_sequence(p_tenant_id text, p_workspace_id text, p_name text) RETURNS dispatcher.sequences
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.sequences;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    SELECT s.* INTO held FROM dispatcher.sequences s
     WHERE s.tenant_id = p_tenant_id AND s.workspace_id = p_workspace_id AND s.name = p_name FOR NO KEY UPDATE;
    RETURN held;
END $$;

-- Write down what somebody did to a sequence.
CREATE FUNCTION dispatcher.note_sequence(p_id bigint, p_version integer, p_actor text, p_action text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO dispatcher.workflow_actions (workflow_id, version, actor, action) VALUES (p_id, p_version, p_actor, p_action)
$$;

-- Save the draft of a sequence, whole. A step is the one that had its id, else its name, else, where it has no name, its place:
-- it keeps its id. With a revision only where it still has that. Answers created, changed, same, or stale.
CREATE FUNCTION dispatcher.put_sequence(
    p_tenant_id text, p_workspace_id text, p_name text, p_settings jsonb, p_steps jsonb, p_revision integer, p_actor text,
    OUT answer text, OUT sequence_id bigint, OUT revision integer
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held  dispatcher.sequences := dispatcher.lock_sequence(p_tenant_id, p_workspace_id, p_name);
    asked jsonb := '[]';
    step  record;
    kept  bigint;
    taken bigint[] := '{}';
BEGIN
    answer := 'changed';
    IF held.id IS NULL AND p_revision IS NOT NULL OR held.revision <> p_revision THEN answer := 'stale'; RETURN; END IF;
    WHILE held.id IS NULL LOOP
        INSERT INTO dispatcher.sequences (id, tenant_id, workspace_id, name, user_id, updated_by, settings)
        VALUES (nextval(pg_get_serial_sequence('dispatcher.workflows', 'id')), p_tenant_id, p_workspace_id, p_name, p_actor,
                p_actor, p_settings)
        ON CONFLICT ON CONSTRAINT sequences_name DO NOTHING;
        answer := CASE WHEN FOUND THEN 'created' ELSE 'changed' END;
        held := dispatcher.lock_sequence(p_tenant_id, p_workspace_id, p_name);
    END LOOP;
    IF answer = 'created' THEN
        INSERT INTO dispatcher.workflows (id, tenant_id, workspace_id, name, kind) OVERRIDING SYSTEM VALUE
        VALUES (held.id, p_tenant_id, p_workspace_id, p_name, 'sequence');
    END IF;
    FOR step IN
        SELECT e.value AS said, e.value ->> 'name' AS name, (e.value ->> 'id')::bigint AS id,
               (e.value ->> 'stepOrder')::integer AS place
          FROM jsonb_array_elements(p_steps) AS e ORDER BY (e.value ->> 'stepOrder')::integer
    LOOP
        SELECT t.id INTO kept FROM dispatcher.sequence_steps t
         WHERE t.sequence_id = held.id AND t.id <> ALL (taken)
           AND CASE WHEN step.id IS NOT NULL THEN t.id = step.id WHEN step.name IS NOT NULL THEN t.name = step.name
                    ELSE t.name IS NULL AND t.step_order = step.place END;
        taken := taken || coalesce(kept, 0);
        asked := asked || jsonb_build_array(step.said || jsonb_build_object('id', kept));
    END LOOP;
    IF answer <> 'created' AND held.settings = p_settings
       AND asked = (SELECT coalesce(jsonb_agg(dispatcher.step_as_json(t) ORDER BY t.step_order), '[]')
                      FROM dispatcher.sequence_steps t WHERE t.sequence_id = held.id) THEN
        answer := 'same';
    ELSE
        SET CONSTRAINTS dispatcher.sequence_steps_order DEFERRED;
        DELETE FROM dispatcher.sequence_steps t WHERE t.sequence_id = held.id AND t.id <> ALL (taken);
        UPDATE dispatcher.sequence_steps t
           SET day_offset = n.day_offset, step_order = n.step_order, send_hour = n.send_hour, channel = n.channel,
               name = n.name, template = n.template, content = n.content
          FROM dispatcher.steps_of_json(held.id, asked) AS n WHERE t.id = n.id;
        INSERT INTO dispatcher.sequence_steps (sequence_id, day_offset, step_order, send_hour, channel, name, template, content)
        SELECT n.sequence_id, n.day_offset, n.step_order, n.send_hour, n.channel, n.name, n.template, n.content
          FROM dispatcher.steps_of_json(held.id, asked) AS n WHERE n.id IS NULL ORDER BY n.step_order;
        SET CONSTRAINTS dispatcher.sequence_steps_order IMMEDIATE;
        UPDATE dispatcher.sequences s
           SET settings = p_settings, revision = s.revision + (answer = 'changed')::integer, is_changed = true,
               updated_at = statement_timestamp(), updated_by = p_actor
         WHERE s.id = held.id RETURNING s.* INTO held;
        PERFORM dispatcher.note_sequence(held.id, held.version, p_actor, 'put');
    END IF;
    sequence_id := held.id;
    revision := held.revision;
END $$;

-- Publish the draft as the next version, which the caller has compiled from that revision. A draft becomes active, an active
-- one stays so, and so does a paused one. A draft that says what is published makes no version. Answers published, same,
-- stale (it has changed since), empty, or unknown.
CREATE FUNCTION dispatcher.publish_sequence(
    p_tenant_id text, p_workspace_id text, p_name text, p_revision integer, p_definition json, p_plan json, p_entry jsonb,
    p_lane smallint, p_actor text, OUT answer text, OUT version integer
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held dispatcher.sequences := dispatcher.lock_sequence(p_tenant_id, p_workspace_id, p_name);
    made dispatcher.plan_versions;
BEGIN
    version := held.version;
    answer := CASE WHEN held.id IS NULL THEN 'unknown' WHEN held.revision <> p_revision THEN 'stale'
                   WHEN NOT EXISTS (SELECT FROM dispatcher.sequence_steps t WHERE t.sequence_id = held.id) THEN 'empty'
                   WHEN NOT held.is_changed THEN 'same' END;
    IF answer IS NOT NULL THEN RETURN; END IF;
    made := dispatcher.add_plan_version(held.id, held.version + 1, p_definition, p_plan, p_actor);
    UPDATE dispatcher.workflows w SET latest = made.number, current = made.id WHERE w.id = held.id;
    UPDATE dispatcher.sequences s
       SET current = made.id, version = made.number, entry = p_entry, lane = p_lane, is_changed = false, revision = s.revision + 1,
           status = CASE s.status WHEN 'draft' THEN 'active' ELSE s.status END, updated_at = statement_timestamp(), updated_by = p_actor
     WHERE s.id = held.id;
    PERFORM dispatcher.note_sequence(held.id, made.number, p_actor, 'publish');
    answer := 'published';
    version := made.number;
END $$;

-- Delete a sequence without open enrolments; what its enrolments have done stays. Answers deleted, unknown, stale, or running.
CREATE FUNCTION dispatcher.delete_sequence(
    p_tenant_id text, p_workspace_id text, p_name text, p_revision integer, p_actor text
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.sequences := dispatcher.lock_sequence(p_tenant_id, p_workspace_id, p_name);
BEGIN
    IF held.id IS NULL THEN RETURN 'unknown'; END IF;
    IF held.revision <> p_revision THEN RETURN 'stale'; END IF;
    -- It is looked before as well: enrolments wait behind whoever waits for the lock.
    FOR look IN 1..2 LOOP
        IF EXISTS (SELECT FROM dispatcher.runs r WHERE r.workflow_id = held.id AND r.finished_at IS NULL) THEN RETURN 'running'; END IF;
        PERFORM pg_advisory_xact_lock(hashtextextended('dispatcher.workflow', held.id));
    END LOOP;
    DELETE FROM dispatcher.sequence_steps t WHERE t.sequence_id = held.id;
    DELETE FROM dispatcher.sequences s WHERE s.id = held.id;
    UPDATE dispatcher.workflows w SET deleted_at = statement_timestamp() WHERE w.id = held.id;
    PERFORM dispatcher.resume('sequence', held.id::text, held.tenant_id, held.workspace_id, p_actor);
    PERFORM dispatcher.note_sequence(held.id, held.version, p_actor, 'delete');
    RETURN 'deleted';
END $$;

REVOKE ALL ON FUNCTION dispatcher.lock_sequence, dispatcher.note_sequence, dispatcher.put_sequence, dispatcher.publish_sequence,
    dispatcher.delete_sequence FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.put_sequence, dispatcher.publish_sequence, dispatcher.delete_sequence TO dispatcher_tenant;
