-- Erasures: what is known of a person is taken away, wherever it stands in a workspace.
--
-- New in the map
--   erasures             who asked for it, when and why; the addresses only until it is done, their hashes for ever
--   erased_suppressions  what an erased address may not be sent, by its hash
--
-- What stays
--   Deliveries and runs stay as rows that say nothing: when, by which channel, how it ended. A key of theirs becomes its
--   hash, so that the same key is still a duplicate: whoever inserts it is given the hash in its place by a trigger, and so
--   meets the row, by whichever door. The triggers are switched off until the first erasure of a database, and cost nothing
--   until then (measured: 9.0 microseconds of the server's time a row with and without them); after that an insert looks
--   for the hash of its key first (5 more). A key that is a hash already stays.
--
-- An erasure is cut into small transactions, and does only what is not done yet: whoever finds one that is open goes on.
-- What is with a provider is waited for; what is queued is skipped first, what is held has failed.

CREATE TABLE dispatcher.erasures (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asked_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
    looked_at       timestamptz,
    finished_at     timestamptz,
    deliveries_upto bigint NOT NULL DEFAULT 0,
    runs_upto       bigint NOT NULL DEFAULT 0,
    deliveries      bigint NOT NULL DEFAULT 0,
    runs            bigint NOT NULL DEFAULT 0,
    waits_for       bigint NOT NULL DEFAULT 0,
    tenant_id       text NOT NULL,
    workspace_id    text NOT NULL,
    actor           text NOT NULL CHECK (actor <> ''),
    reason          text NOT NULL,
    subjects        text[] NOT NULL,
    addresses       jsonb,
    CONSTRAINT erasures_keep_nothing CHECK ((addresses IS NULL) = (finished_at IS NOT NULL))
);
COMMENT ON COLUMN dispatcher.erasures.subjects IS 'SHA-256 of each address';
COMMENT ON COLUMN dispatcher.erasures.addresses IS 'until it is done';
COMMENT ON COLUMN dispatcher.erasures.waits_for IS 'deliveries that were not finished when it was looked at last';
CREATE INDEX erasures_open ON dispatcher.erasures (id) WHERE finished_at IS NULL;
CREATE INDEX erasures_of_workspace ON dispatcher.erasures (tenant_id, workspace_id, id);

CREATE TABLE dispatcher.erased_suppressions (
    tenant_id  text NOT NULL,
    kind       text NOT NULL,
    hash       bytea NOT NULL CHECK (octet_length(hash) = 32),
    channel    text NOT NULL,
    source     text NOT NULL,
    topic      text NOT NULL,
    added_at   timestamptz NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (tenant_id, kind, hash, channel, source, topic)
);
COMMENT ON COLUMN dispatcher.erased_suppressions.topic IS 'what it unsubscribed from; empty where it is a suppression';

CREATE INDEX digest_items_by_run ON dispatcher.digest_items (run_id);


CREATE FUNCTION dispatcher.erased_v1(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_text ~ '^(sha256:)?[0-9a-f]{64}$' THEN p_text
                ELSE 'sha256:' || encode(sha256(convert_to(p_text, 'UTF8')), 'hex') END
$$;
COMMENT ON FUNCTION dispatcher.erased_v1 IS 'what is left of a key: its hash, or itself where it is one';

CREATE FUNCTION dispatcher.erased_delivery_keys_stay_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- As erased_v1 has it, which a call would cost more. One that is a hash already was left as it is, and is not found.
    hash CONSTANT text := 'sha256:' || encode(sha256(convert_to(NEW.idempotency_key, 'UTF8')), 'hex');
BEGIN
    IF EXISTS (
        SELECT FROM dispatcher.deliveries d
         WHERE d.tenant_id = NEW.tenant_id AND d.workspace_id = NEW.workspace_id AND d.idempotency_key = hash) THEN
        NEW.idempotency_key := hash;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER a_erased_keys_stay BEFORE INSERT ON dispatcher.deliveries
    FOR EACH ROW EXECUTE FUNCTION dispatcher.erased_delivery_keys_stay_v1();
ALTER TABLE dispatcher.deliveries DISABLE TRIGGER a_erased_keys_stay;

CREATE FUNCTION dispatcher.erased_run_keys_stay_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hash CONSTANT text := 'sha256:' || encode(sha256(convert_to(NEW.idempotency_key, 'UTF8')), 'hex');
BEGIN
    IF EXISTS (
        SELECT FROM dispatcher.runs r
         WHERE r.tenant_id = NEW.tenant_id AND r.workspace_id = NEW.workspace_id AND r.workflow = NEW.workflow
           AND r.idempotency_key = hash) THEN
        NEW.idempotency_key := hash;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER a_erased_keys_stay BEFORE INSERT ON dispatcher.runs
    FOR EACH ROW EXECUTE FUNCTION dispatcher.erased_run_keys_stay_v1();
ALTER TABLE dispatcher.runs DISABLE TRIGGER a_erased_keys_stay;

-- Before the first key is hashed. It waits for transactions that are inserting just now, but not for long: whoever comes
-- behind it waits too. False where it was done before.
CREATE FUNCTION dispatcher.keep_erased_keys_v1() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgname = 'a_erased_keys_stay' AND t.tgenabled = 'D') THEN RETURN false; END IF;
    PERFORM set_config('lock_timeout', '1000', true);
    ALTER TABLE dispatcher.deliveries ENABLE TRIGGER a_erased_keys_stay;
    ALTER TABLE dispatcher.runs ENABLE TRIGGER a_erased_keys_stay;
    RETURN true;
END $$;

-- As before, but for an erasure, which says so for its own transaction.
DROP TRIGGER deliveries_never_change ON dispatcher.deliveries;
CREATE TRIGGER deliveries_never_change BEFORE UPDATE ON dispatcher.deliveries
    FOR EACH ROW WHEN (current_setting('dispatcher.erasing', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION dispatcher.deliveries_never_change_v1();

-- Whatever is left of an erased delivery is not sent.
CREATE FUNCTION dispatcher.erased_stays_erased_v1() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'delivery % was erased: there is nothing left to send', OLD.id
        USING ERRCODE = 'object_not_in_prerequisite_state';
END $$;
CREATE TRIGGER erased_stays_erased BEFORE UPDATE OF status ON dispatcher.delivery_state
    FOR EACH ROW WHEN (OLD.status <> 'queued' AND NEW.status = 'queued' AND OLD.error = 'erased')
    EXECUTE FUNCTION dispatcher.erased_stays_erased_v1();


-- Take away what deliveries say, those that are finished; and to whom they went, but for p_keep_recipient. Answers how many.
CREATE FUNCTION dispatcher.erase_deliveries_v1(p_ids bigint[], p_keep_recipient boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ids bigint[];
BEGIN
    SELECT coalesce(array_agg(l.id), '{}') INTO ids
      FROM (SELECT s.id FROM dispatcher.delivery_state s WHERE s.id = ANY (p_ids) AND s.status <> 'queued'
             ORDER BY s.id FOR UPDATE) AS l;
    PERFORM set_config('dispatcher.erasing', 'on', true);
    UPDATE dispatcher.deliveries d
       SET recipient = CASE WHEN p_keep_recipient THEN d.recipient ELSE 'erased' END,
           idempotency_key = dispatcher.erased_v1(d.idempotency_key),
           template = CASE WHEN d.template IS NOT NULL THEN '{"body": "erased"}'::jsonb END, variables = '{}', options = '{}'
     WHERE d.id = ANY (ids);
    PERFORM set_config('dispatcher.erasing', '', true);
    -- Some providers' names for a message have a phone number in them.
    UPDATE dispatcher.delivery_state s
       SET provider_message_id = dispatcher.erased_v1(s.provider_message_id),
           error = CASE WHEN s.status IN ('failed', 'skipped') OR s.error IS NOT NULL THEN 'erased' END
     WHERE s.id = ANY (ids);
    UPDATE dispatcher.delivery_attempts a SET reason = 'erased' WHERE a.delivery_id = ANY (ids) AND a.reason IS NOT NULL;
    UPDATE dispatcher.delivery_evidence e SET reason = CASE WHEN e.reason IS NOT NULL THEN 'erased' END,
           provider_message_id = dispatcher.erased_v1(e.provider_message_id)
     WHERE e.delivery_id = ANY (ids);
    UPDATE dispatcher.delivery_receipts r SET reason = '', provider_message_id = dispatcher.erased_v1(r.provider_message_id)
     WHERE r.delivery_id = ANY (ids);
    UPDATE dispatcher.delivery_answers a SET data = '{}' WHERE a.delivery_id = ANY (ids);
    UPDATE dispatcher.reopened_ends e SET error = 'erased' WHERE e.delivery_id = ANY (ids) AND e.error IS NOT NULL;
    UPDATE dispatcher.operator_actions o SET reason = 'erased' WHERE o.delivery_id = ANY (ids);
    -- It cannot be sent again, so it is no dead letter.
    UPDATE dispatcher.dead_deliveries l SET note = 'erased', discarded_at = coalesce(l.discarded_at, statement_timestamp())
     WHERE l.delivery_id = ANY (ids);
    DELETE FROM dispatcher.captured_messages m WHERE m.delivery_id = ANY (ids);
    RETURN cardinality(ids);
END $$;

-- Take away what runs were given and have come to, those that are finished. One that had failed counts as cancelled from
-- then on: there is nothing left to replay. Answers how many.
CREATE FUNCTION dispatcher.erase_runs_v1(p_ids bigint[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ids bigint[];
BEGIN
    SELECT coalesce(array_agg(l.id), '{}') INTO ids
      FROM (SELECT r.id FROM dispatcher.runs r WHERE r.id = ANY (p_ids) AND r.finished_at IS NOT NULL
             ORDER BY r.id FOR UPDATE) AS l;
    UPDATE dispatcher.runs r
       SET input = '{}', state = jsonb_build_object('entries', coalesce(r.state -> 'entries', '0')),
           idempotency_key = dispatcher.erased_v1(r.idempotency_key), dead = false,
           status = CASE r.status WHEN 'failed' THEN 'cancelled' ELSE r.status END,
           error = CASE WHEN r.error IS NOT NULL THEN 'erased' END, note = 'erased'
     WHERE r.id = ANY (ids);
    UPDATE dispatcher.run_entries e SET context = NULL, added = NULL, error = CASE WHEN e.error IS NOT NULL THEN 'erased' END
     WHERE e.run_id = ANY (ids);
    DELETE FROM dispatcher.signals s WHERE s.run_id = ANY (ids);
    UPDATE dispatcher.digests d SET key = dispatcher.erased_v1(d.key) WHERE d.run_id = ANY (ids) AND NOT d.is_open;
    DELETE FROM dispatcher.digest_items i WHERE i.run_id = ANY (ids);
    DELETE FROM dispatcher.digest_items i USING dispatcher.digests d WHERE d.run_id = ANY (ids) AND i.digest_id = d.id;
    RETURN cardinality(ids);
END $$;

-- What an address may not be sent stands under its hash from now on, and so does what was said about it.
CREATE FUNCTION dispatcher.erase_suppressions_v1(p_tenant_id text, p_kind text, p_address text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hashed CONSTANT bytea := sha256(convert_to(p_address, 'UTF8'));
BEGIN
    INSERT INTO dispatcher.erased_suppressions AS e (tenant_id, kind, hash, channel, source, topic, added_at, expires_at)
    SELECT s.tenant_id, s.kind, hashed, s.channel, s.source, '', s.added_at, s.expires_at FROM dispatcher.suppressions s
     WHERE s.tenant_id = p_tenant_id AND s.kind = p_kind AND s.address = p_address
     UNION ALL
    SELECT p.tenant_id, p.kind, hashed, '', '', p.topic, p.changed_at, NULL FROM dispatcher.topic_preferences p
     WHERE p.tenant_id = p_tenant_id AND p.kind = p_kind AND p.address = p_address AND NOT p.subscribed
    ON CONFLICT (tenant_id, kind, hash, channel, source, topic) DO UPDATE SET expires_at = excluded.expires_at;
    DELETE FROM dispatcher.suppressions s WHERE s.tenant_id = p_tenant_id AND s.kind = p_kind AND s.address = p_address;
    DELETE FROM dispatcher.topic_preferences p WHERE p.tenant_id = p_tenant_id AND p.kind = p_kind AND p.address = p_address;
    DELETE FROM dispatcher.suppression_work w WHERE w.tenant_id = p_tenant_id AND w.kind = p_kind AND w.address = p_address;
    UPDATE dispatcher.suppression_log l SET address = 'sha256:' || encode(hashed, 'hex'), reason = 'erased'
     WHERE l.tenant_id = p_tenant_id AND l.kind = p_kind AND l.address = p_address;
END $$;

-- As before; a key whose row is not found after all may be one that was erased. (In place: under an older program they would
-- look for it for ever.)
CREATE OR REPLACE FUNCTION dispatcher.trigger_workflow_v1(
    p_workflow text, p_input jsonb DEFAULT '{}', p_idempotency_key text DEFAULT NULL, p_tenant_id text DEFAULT 'default',
    p_workspace_id text DEFAULT 'default', p_triggered_by text DEFAULT session_user,
    OUT execution_id bigint, OUT workflow_name text, OUT version integer, OUT status text, OUT total_steps integer,
    OUT duplicate boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- What a run brings along is copied into its log and its deliveries.
    bytes_max CONSTANT integer := 1048576;
    tenant    CONSTANT text := coalesce(p_tenant_id, 'default');
    workspace CONSTANT text := coalesce(p_workspace_id, 'default');
    held      dispatcher.workflows;
    used      dispatcher.plan_versions;
    faults    jsonb;
    keys      text[] := ARRAY[p_idempotency_key];
BEGIN
    workflow_name := p_workflow;
    status := 'queued';
    IF coalesce(length(p_idempotency_key) NOT BETWEEN 1 AND 255, false) THEN
        PERFORM dispatcher.refuse_v1('idempotency_key: expected 1 to 255 characters',
            dispatcher.fault_v1('$.idempotency_key', 'expected 1 to 255 characters'));
    END IF;
    LOOP
        IF p_idempotency_key IS NOT NULL THEN
            SELECT r.id, v.number, v.total_steps, true INTO execution_id, version, total_steps, duplicate
              FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id
             WHERE r.tenant_id = tenant AND r.workspace_id = workspace AND r.workflow = p_workflow
               AND r.idempotency_key = ANY (keys);
            IF FOUND THEN RETURN; END IF;
        END IF;
        IF held.id IS NULL THEN
            SELECT w.* INTO held FROM dispatcher.workflows w
             WHERE w.tenant_id = tenant AND w.workspace_id = workspace AND w.name = p_workflow AND w.deleted_at IS NULL;
            IF NOT FOUND THEN
                PERFORM dispatcher.refuse_v1(format('there is no workflow %s', coalesce(quote_literal(left(p_workflow, 101)), 'null')),
                    dispatcher.fault_v1('$.workflow', 'there is no such workflow'), 'P0002');
            END IF;
            -- Against a deletion, which takes it whole; what was deleted meanwhile is seen by the next look. A transaction
            -- that keeps its first look for ever has to be told.
            PERFORM pg_advisory_xact_lock_shared(hashtextextended('dispatcher.workflow', held.id));
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                PERFORM FROM dispatcher.workflows w WHERE w.id = held.id FOR KEY SHARE;
            END IF;
            SELECT w.* INTO held FROM dispatcher.workflows w WHERE w.id = held.id;
            IF NOT held.active THEN
                PERFORM dispatcher.refuse_v1(format('the workflow %s is not active', quote_literal(p_workflow)),
                    dispatcher.fault_v1('$.workflow', 'it is not active'), '55000');
            END IF;
            faults := dispatcher.object_faults_v1('$', p_input, bytes_max);
            IF faults <> '[]' THEN PERFORM dispatcher.refuse_v1('input: ' || dispatcher.faults_in_words_v1(faults), faults); END IF;
            SELECT v.* INTO used FROM dispatcher.plan_versions v WHERE v.id = held.current;
            faults := dispatcher.input_faults_v1(tenant, workspace, used, p_input);
            IF faults <> '[]' THEN PERFORM dispatcher.refuse_v1(dispatcher.input_words_v1(faults), faults); END IF;
        END IF;
        INSERT INTO dispatcher.runs (workflow_id, version_id, available_at, tenant_id, workspace_id, workflow,
                                     idempotency_key, triggered_by, input)
        VALUES (held.id, used.id, now(), tenant, workspace, p_workflow, p_idempotency_key,
                coalesce(nullif(p_triggered_by, ''), session_user), p_input)
        ON CONFLICT (tenant_id, workspace_id, workflow, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING id INTO execution_id;
        EXIT WHEN FOUND;
        keys := ARRAY[p_idempotency_key, dispatcher.erased_v1(p_idempotency_key)];
    END LOOP;
    version := used.number;
    total_steps := used.total_steps;
    duplicate := false;
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
END $$;

CREATE OR REPLACE FUNCTION dispatcher.enqueue_delivery_v1(
    p_channel text, p_recipient text, p_idempotency_key text, p_template jsonb DEFAULT NULL, p_template_name text DEFAULT NULL,
    p_variables jsonb DEFAULT '{}', p_options jsonb DEFAULT '{}', p_lane text DEFAULT 'normal',
    p_scheduled_for timestamptz DEFAULT NULL, p_expires_at timestamptz DEFAULT NULL, p_max_attempts integer DEFAULT 5,
    p_locale text DEFAULT NULL, p_topic text DEFAULT NULL, p_tenant_id text DEFAULT 'default',
    p_workspace_id text DEFAULT 'default', OUT delivery_id bigint, OUT duplicate boolean, OUT status text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tenant    CONSTANT text := coalesce(p_tenant_id, 'default');
    workspace CONSTANT text := coalesce(p_workspace_id, 'default');
    variables CONSTANT jsonb := coalesce(p_variables, '{}');
    options   CONSTANT jsonb := coalesce(p_options, '{}');
    lane      CONSTANT text := coalesce(p_lane, 'normal');
    attempts  CONSTANT integer := coalesce(p_max_attempts, 5);
    faults    jsonb;
    keys      text[] := ARRAY[p_idempotency_key];
BEGIN
    LOOP
        SELECT d.id, true, s.status INTO delivery_id, duplicate, status
          FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
         WHERE d.tenant_id = tenant AND d.workspace_id = workspace AND d.idempotency_key = ANY (keys);
        IF FOUND THEN RETURN; END IF;
        IF faults IS NULL THEN
            faults := dispatcher.delivery_faults_v1(p_channel, p_recipient, p_idempotency_key, p_template, p_template_name,
                variables, options, lane, p_scheduled_for, p_expires_at, attempts, p_locale, p_topic, tenant, workspace);
            IF faults <> '[]' THEN
                PERFORM dispatcher.refuse_v1('the delivery cannot be written: ' || dispatcher.faults_in_words_v1(faults), faults);
            END IF;
        END IF;
        INSERT INTO dispatcher.deliveries (tenant_id, workspace_id, idempotency_key, channel, recipient, template,
               template_name, variables, options, lane, scheduled_for, expires_at, max_attempts, locale, topic)
        VALUES (tenant, workspace, p_idempotency_key, p_channel, p_recipient, p_template, p_template_name, variables, options,
                array_position(ARRAY['transactional', 'normal', 'bulk'], lane) - 1, coalesce(p_scheduled_for, now()),
                p_expires_at, attempts, p_locale, p_topic)
        ON CONFLICT ON CONSTRAINT deliveries_key DO NOTHING RETURNING id INTO delivery_id;
        EXIT WHEN FOUND;
        keys := ARRAY[p_idempotency_key, dispatcher.erased_v1(p_idempotency_key)];
    END LOOP;
    duplicate := false;
    SELECT s.status INTO status FROM dispatcher.delivery_state s WHERE s.id = delivery_id;
END $$;

-- As before; what was erased cannot be sent again.
CREATE OR REPLACE FUNCTION dispatcher.reopen_delivery_v1(p_id bigint, p_actor text, p_reason text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was dispatcher.delivery_state;
BEGIN
    SELECT * INTO was FROM dispatcher.delivery_state WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF was.status NOT IN ('failed', 'skipped') THEN RETURN was.status; END IF;
    IF was.error = 'erased' THEN RETURN 'erased'; END IF;
    IF was.marked THEN
        INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, ended_at, reason)
        VALUES (p_id, was.token, was.attempt, was.status, was.finished_at, was.error)
        ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO dispatcher.reopened_ends (delivery_id, ended_at, attempt, called, status, error)
    VALUES (p_id, was.finished_at, was.attempt, was.marked, was.status, was.error);
    PERFORM set_config('dispatcher.reopening', p_id::text, true);
    UPDATE dispatcher.delivery_state
       SET status = 'queued', ready = true, marked = false, token = NULL, finished_at = NULL, error = NULL,
           attempt_base = attempt, key_used_at = NULL, resend_until = NULL, recoveries = 0,
           run_at = statement_timestamp()
     WHERE id = p_id;
    PERFORM set_config('dispatcher.reopening', '', true);
    INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
    VALUES (p_id, p_actor, 'reopen', was.status, p_reason);
    PERFORM pg_notify('dispatcher_work', '');
    RETURN 'reopened';
END $$;


REVOKE ALL ON FUNCTION dispatcher.erased_delivery_keys_stay_v1, dispatcher.erased_run_keys_stay_v1,
    dispatcher.keep_erased_keys_v1, dispatcher.erase_deliveries_v1, dispatcher.erase_runs_v1,
    dispatcher.erase_suppressions_v1 FROM PUBLIC;

CALL dispatcher.isolate_v1('dispatcher.erasures');
CALL dispatcher.isolate_v1('dispatcher.erased_suppressions');
GRANT SELECT, INSERT ON dispatcher.erasures TO dispatcher_tenant;
-- Who is taken off the list after all, or wants a topic again, is forgiven what was said before they were erased.
GRANT SELECT, DELETE ON dispatcher.erased_suppressions TO dispatcher_tenant;
GRANT INSERT ON dispatcher.suppression_log TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.erased_v1 TO dispatcher_tenant;
