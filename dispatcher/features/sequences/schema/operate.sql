-- What people do to sequences and enrolments: pause, resume, cancel; and what ends an enrolment by itself.

-- Pause a sequence: none of its steps is marked or ordered any more. It touches no enrolment. Answers done, same, draft or
-- unknown.
CREATE FUNCTION dispatcher.pause_sequence(
    sequence text, reason text DEFAULT '', tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default',
    actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(pause_sequence.actor, ''), session_user);
    held  dispatcher.sequences := dispatcher.lock_sequence(
              coalesce(pause_sequence.tenant_id, 'default'), coalesce(pause_sequence.workspace_id, 'default'), pause_sequence.sequence);
BEGIN
    IF held.id IS NULL THEN RETURN 'unknown'; END IF;
    IF held.status <> 'active' THEN RETURN CASE held.status WHEN 'paused' THEN 'same' ELSE held.status END; END IF;
    UPDATE dispatcher.sequences s
       SET status = 'paused', paused_at = statement_timestamp(), revision = s.revision + 1, updated_at = statement_timestamp(),
           updated_by = actor
     WHERE s.id = held.id;
    PERFORM dispatcher.pause('sequence', held.id::text, held.tenant_id, held.workspace_id, actor, coalesce(pause_sequence.reason, ''));
    PERFORM dispatcher.note_sequence(held.id, held.version, actor, 'pause');
    RETURN 'done';
END $$;

-- Let a paused sequence go on. What was due meanwhile is due now, page by page; what is due later moves by the length of the
-- pause. An enrolment that somebody has paused by itself stays so. Answers done, same, draft or unknown.
CREATE FUNCTION dispatcher.resume_sequence(
    sequence text, reason text DEFAULT '', tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default',
    actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor CONSTANT text := coalesce(nullif(resume_sequence.actor, ''), session_user);
    held  dispatcher.sequences := dispatcher.lock_sequence(
              coalesce(resume_sequence.tenant_id, 'default'), coalesce(resume_sequence.workspace_id, 'default'), resume_sequence.sequence);
BEGIN
    IF held.id IS NULL THEN RETURN 'unknown'; END IF;
    IF held.status <> 'paused' THEN RETURN CASE held.status WHEN 'active' THEN 'same' ELSE held.status END; END IF;
    UPDATE dispatcher.sequences s
       SET status = 'active', paused_at = NULL, revision = s.revision + 1, updated_at = statement_timestamp(), updated_by = actor
     WHERE s.id = held.id;
    PERFORM dispatcher.resume('sequence', held.id::text, held.tenant_id, held.workspace_id, actor, resume_sequence.reason);
    PERFORM dispatcher.note_sequence(held.id, held.version, actor, 'resume');
    RETURN 'done';
END $$;

-- Pause, resume or cancel up to p_most open enrolments of a sequence, those of an audience or all. Answers how many; fewer
-- than p_most: there are no more.
CREATE FUNCTION dispatcher.change_enrollments(
    p_tenant_id text, p_workspace_id text, p_sequence text, p_verb text, p_audience jsonb, p_reason text, p_actor text, p_most integer
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    said    dispatcher.sequences;
    faults  jsonb;
    one     bigint;
    changed bigint := 0;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    said := dispatcher.sequence_of(p_tenant_id, p_workspace_id, p_sequence);
    IF p_audience IS NOT NULL THEN
        faults := dispatcher.audience_faults(p_tenant_id, p_workspace_id, '$.audience', p_audience);
        IF faults <> '[]' THEN PERFORM dispatcher.refuse(dispatcher.faults_in_words(faults), faults); END IF;
    END IF;
    FOR one IN
        EXECUTE format('SELECT r.id FROM dispatcher.runs r WHERE r.workflow_id = $3 AND r.finished_at IS NULL
                           AND CASE $4 WHEN ''pause'' THEN r.status <> ''paused'' WHEN ''resume'' THEN r.status = ''paused'' ELSE true END
                           AND %s ORDER BY r.id LIMIT $5 FOR UPDATE OF r',
                       CASE WHEN p_audience IS NULL THEN 'true' ELSE format('r.contact_id IN (%s)', dispatcher.audience_select(p_audience)) END)
          USING p_tenant_id, p_workspace_id, said.id, p_verb, p_most
    LOOP
        CASE p_verb
            WHEN 'pause' THEN PERFORM dispatcher.pause_run(one, p_reason, p_tenant_id, p_workspace_id, p_actor);
            WHEN 'resume' THEN PERFORM dispatcher.resume_run(one, p_reason, p_tenant_id, p_workspace_id, p_actor);
            WHEN 'cancel' THEN PERFORM dispatcher.cancel_run(one, p_reason, p_tenant_id, p_workspace_id, p_actor);
        END CASE;
        changed := changed + 1;
    END LOOP;
    IF changed > 0 THEN PERFORM dispatcher.note_sequence(said.id, said.version, p_actor, p_verb); END IF;
    RETURN changed;
END $$;

-- Something has happened to a contact: its enrolments in versions that stop on that event are cancelled. Answers how many.
CREATE FUNCTION dispatcher.contact_event(
    event text, contact text DEFAULT NULL, contact_id bigint DEFAULT NULL, tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default', actor text DEFAULT session_user
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tenant    CONSTANT text := coalesce(contact_event.tenant_id, 'default');
    workspace CONSTANT text := coalesce(contact_event.workspace_id, 'default');
    actor     CONSTANT text := coalesce(nullif(contact_event.actor, ''), session_user);
    whom      bigint;
    one       bigint;
    ended     bigint := 0;
BEGIN
    PERFORM dispatcher.stay_within(tenant, workspace);
    SELECT c.id INTO whom FROM dispatcher.contacts c
     WHERE c.tenant_id = tenant AND c.workspace_id = workspace
       AND CASE WHEN contact_event.contact IS NOT NULL THEN c.key = contact_event.contact ELSE c.id = contact_event.contact_id END;
    IF NOT FOUND THEN
        PERFORM dispatcher.refuse(
            format('there is no contact %s', coalesce(quote_literal(left(contact_event.contact, 201)), contact_event.contact_id::text, 'null')),
            dispatcher.fault('$.contact', 'there is no such contact'), 'P0002');
    END IF;
    FOR one IN
        SELECT r.id FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id
         WHERE r.contact_id = whom AND r.finished_at IS NULL AND v.plan ->> 'stop_on' = contact_event.event ORDER BY r.id
    LOOP
        ended := ended
            + (dispatcher.cancel_run(one, 'event ' || contact_event.event, tenant, workspace, actor) = 'cancelled')::integer;
    END LOOP;
    RETURN ended;
END $$;

-- Who is deleted gets nothing more. (A deletion locks contacts before runs; no walk locks a contact.)
CREATE FUNCTION dispatcher.deleted_contacts_leave() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.cancel_run(e.id, 'its contact was deleted', e.tenant_id, e.workspace_id, session_user)
       FROM (SELECT r.id, r.tenant_id, r.workspace_id FROM gone g JOIN dispatcher.runs r ON r.contact_id = g.id
              WHERE r.finished_at IS NULL ORDER BY r.id) AS e;
    RETURN NULL;
END $$;

CREATE TRIGGER deleted_contacts_leave AFTER DELETE ON dispatcher.contacts
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.deleted_contacts_leave();

REVOKE ALL ON FUNCTION dispatcher.pause_sequence, dispatcher.resume_sequence, dispatcher.change_enrollments,
    dispatcher.contact_event, dispatcher.deleted_contacts_leave FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.pause_sequence, dispatcher.resume_sequence, dispatcher.change_enrollments,
    dispatcher.contact_event TO dispatcher_tenant;
