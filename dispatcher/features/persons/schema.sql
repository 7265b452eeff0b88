-- Erasures: what is known of a person is removed, wherever it stands in a workspace.
--
-- The map
--   erasures             actor, time and reason; the addresses only until it is done, their hashes for ever
--   erased_suppressions  what an erased address may not be sent, by its hash
--
-- What stays
--   Deliveries and runs stay as rows without content: when, by which channel, how it ended. A key of theirs becomes its
--   hash, so that the same key is still a duplicate: an insert of it is given the hash in its place by a trigger, and so
--   meets the row. The triggers are switched off until the first erasure of a database, and cost nothing until then
--   (measured: 9.0 microseconds of the server's time a row with and without them); after that an insert looks for the hash
--   of its key first (5 more). A key that is a hash already stays.
--
-- An erasure is cut into small transactions, and does only what is not done yet, so that any process can continue one that is
-- open. What is with a provider is waited for; what is queued is skipped first, what is held has failed.
--
-- An insert of a key while its row is being erased
--   The trigger looks for the hash of the key and for the key itself, in the same look. A row that has the key is locked, so
--   that it stays as it is until the insert is done, and the insert meets it. An insert that has to wait for that lock has met
--   an erasure, and looks for the hash again. A transaction that keeps its first snapshot fails with 40001. A key that no row
--   has costs 2 microseconds more (of 15).
--
-- Lock order: a row of a key before the insert of it. Two that wait for each other, an erasure and a transaction that inserts
-- several keys of what is being erased, are told so (40P01) and try again.

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
    contacts        bigint[] NOT NULL DEFAULT '{}',
    addresses       jsonb,
    CONSTRAINT erasures_keep_nothing CHECK ((addresses IS NULL) = (finished_at IS NOT NULL))
);
COMMENT ON COLUMN dispatcher.erasures.subjects IS 'SHA-256 of each address';
COMMENT ON COLUMN dispatcher.erasures.contacts IS 'the ids of contacts that it has deleted';
COMMENT ON COLUMN dispatcher.erasures.addresses IS 'until it is done';
COMMENT ON COLUMN dispatcher.erasures.waits_for IS 'deliveries that were not finished when it was looked at last';
CREATE INDEX erasures_open ON dispatcher.erasures (id) WHERE finished_at IS NULL;
CREATE INDEX erasures_of_workspace ON dispatcher.erasures (tenant_id, workspace_id, id);
CALL dispatcher.isolate('dispatcher.erasures', p_records => true);

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
CALL dispatcher.isolate('dispatcher.erased_suppressions', p_records => true);

CREATE FUNCTION dispatcher.erased(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_text ~ '^(sha256:)?[0-9a-f]{64}$' THEN p_text
                ELSE 'sha256:' || encode(sha256(convert_to(p_text, 'UTF8')), 'hex') END
$$;
COMMENT ON FUNCTION dispatcher.erased IS 'what is left of a key: its hash, or itself where it is one';

CREATE FUNCTION dispatcher.erased_delivery_keys_stay() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- As erased has it, which a call would cost more. One that is a hash already was left as it is, and is not found.
    hash CONSTANT text := 'sha256:' || encode(sha256(convert_to(NEW.idempotency_key, 'UTF8')), 'hex');
BEGIN
    IF NOT EXISTS (SELECT FROM dispatcher.deliveries d WHERE d.tenant_id = NEW.tenant_id
                      AND d.workspace_id = NEW.workspace_id AND d.idempotency_key = NEW.idempotency_key)
       AND NOT EXISTS (SELECT FROM dispatcher.deliveries d WHERE d.tenant_id = NEW.tenant_id
                          AND d.workspace_id = NEW.workspace_id AND d.idempotency_key = hash) THEN
        RETURN NEW;
    END IF;
    PERFORM FROM dispatcher.deliveries d
      WHERE d.tenant_id = NEW.tenant_id AND d.workspace_id = NEW.workspace_id AND d.idempotency_key = NEW.idempotency_key
        FOR KEY SHARE;
    IF NOT FOUND AND EXISTS (
        SELECT FROM dispatcher.deliveries d
         WHERE d.tenant_id = NEW.tenant_id AND d.workspace_id = NEW.workspace_id AND d.idempotency_key = hash) THEN
        NEW.idempotency_key := hash;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER a_erased_keys_stay BEFORE INSERT ON dispatcher.deliveries
    FOR EACH ROW EXECUTE FUNCTION dispatcher.erased_delivery_keys_stay();
ALTER TABLE dispatcher.deliveries DISABLE TRIGGER a_erased_keys_stay;

CREATE FUNCTION dispatcher.erased_run_keys_stay() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hash CONSTANT text := 'sha256:' || encode(sha256(convert_to(NEW.idempotency_key, 'UTF8')), 'hex');
BEGIN
    IF NOT EXISTS (SELECT FROM dispatcher.runs r WHERE r.tenant_id = NEW.tenant_id AND r.workspace_id = NEW.workspace_id
                      AND r.workflow = NEW.workflow AND r.idempotency_key = NEW.idempotency_key)
       AND NOT EXISTS (SELECT FROM dispatcher.runs r WHERE r.tenant_id = NEW.tenant_id AND r.workspace_id = NEW.workspace_id
                          AND r.workflow = NEW.workflow AND r.idempotency_key = hash) THEN
        RETURN NEW;
    END IF;
    PERFORM FROM dispatcher.runs r
      WHERE r.tenant_id = NEW.tenant_id AND r.workspace_id = NEW.workspace_id AND r.workflow = NEW.workflow
        AND r.idempotency_key = NEW.idempotency_key
        FOR KEY SHARE;
    IF NOT FOUND AND EXISTS (
        SELECT FROM dispatcher.runs r
         WHERE r.tenant_id = NEW.tenant_id AND r.workspace_id = NEW.workspace_id AND r.workflow = NEW.workflow
           AND r.idempotency_key = hash) THEN
        NEW.idempotency_key := hash;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER a_erased_keys_stay BEFORE INSERT ON dispatcher.runs
    FOR EACH ROW EXECUTE FUNCTION dispatcher.erased_run_keys_stay();
ALTER TABLE dispatcher.runs DISABLE TRIGGER a_erased_keys_stay;

-- Before the first key is hashed. It waits for transactions that are inserting just now, but not for long: whoever comes
-- behind it waits too. False where it was done before.
CREATE FUNCTION dispatcher.keep_erased_keys() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgname = 'a_erased_keys_stay' AND t.tgenabled = 'D') THEN RETURN false; END IF;
    PERFORM set_config('lock_timeout', '1000', true);
    ALTER TABLE dispatcher.deliveries ENABLE TRIGGER a_erased_keys_stay;
    ALTER TABLE dispatcher.runs ENABLE TRIGGER a_erased_keys_stay;
    RETURN true;
END $$;

-- Whatever is left of an erased delivery is not sent.
CREATE FUNCTION dispatcher.erased_stays_erased() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'delivery % was erased: there is nothing left to send', OLD.id
        USING ERRCODE = 'object_not_in_prerequisite_state';
END $$;

CREATE TRIGGER erased_stays_erased BEFORE UPDATE OF status ON dispatcher.delivery_state
    FOR EACH ROW WHEN (OLD.status <> 'queued' AND NEW.status = 'queued' AND OLD.error = 'erased')
    EXECUTE FUNCTION dispatcher.erased_stays_erased();

-- Take away what deliveries say, those that are finished; and to whom they went, but for p_keep_recipient. Answers how many.
CREATE FUNCTION dispatcher.erase_deliveries(p_ids bigint[], p_keep_recipient boolean) RETURNS bigint
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
           idempotency_key = dispatcher.erased(d.idempotency_key),
           template = CASE WHEN d.template IS NOT NULL THEN '{"body": "erased"}'::jsonb END, variables = '{}', options = '{}'
     WHERE d.id = ANY (ids);
    PERFORM set_config('dispatcher.erasing', '', true);
    -- Some providers' names for a message have a phone number in them.
    UPDATE dispatcher.delivery_state s
       SET provider_message_id = dispatcher.erased(s.provider_message_id),
           error = CASE WHEN s.status IN ('failed', 'skipped') OR s.error IS NOT NULL THEN 'erased' END
     WHERE s.id = ANY (ids);
    UPDATE dispatcher.delivery_attempts a SET reason = 'erased' WHERE a.delivery_id = ANY (ids) AND a.reason IS NOT NULL;
    UPDATE dispatcher.delivery_evidence e SET reason = CASE WHEN e.reason IS NOT NULL THEN 'erased' END,
           provider_message_id = dispatcher.erased(e.provider_message_id)
     WHERE e.delivery_id = ANY (ids);
    UPDATE dispatcher.delivery_receipts r SET reason = '', provider_message_id = dispatcher.erased(r.provider_message_id)
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
CREATE FUNCTION dispatcher.erase_runs(p_ids bigint[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ids bigint[];
BEGIN
    SELECT coalesce(array_agg(l.id), '{}') INTO ids
      FROM (SELECT r.id FROM dispatcher.runs r WHERE r.id = ANY (p_ids) AND r.finished_at IS NOT NULL
             ORDER BY r.id FOR UPDATE) AS l;
    UPDATE dispatcher.runs r
       SET input = '{}', state = jsonb_build_object('entries', coalesce(r.state -> 'entries', '0')),
           idempotency_key = dispatcher.erased(r.idempotency_key), dead = false,
           status = CASE r.status WHEN 'failed' THEN 'cancelled' ELSE r.status END,
           error = CASE WHEN r.error IS NOT NULL THEN 'erased' END, note = 'erased'
     WHERE r.id = ANY (ids);
    UPDATE dispatcher.run_entries e SET context = NULL, added = NULL, error = CASE WHEN e.error IS NOT NULL THEN 'erased' END
     WHERE e.run_id = ANY (ids);
    DELETE FROM dispatcher.signals s WHERE s.run_id = ANY (ids);
    UPDATE dispatcher.digests d SET key = dispatcher.erased(d.key) WHERE d.run_id = ANY (ids) AND NOT d.is_open;
    DELETE FROM dispatcher.digest_items i WHERE i.run_id = ANY (ids);
    DELETE FROM dispatcher.digest_items i USING dispatcher.digests d WHERE d.run_id = ANY (ids) AND i.digest_id = d.id;
    RETURN cardinality(ids);
END $$;

-- What an address may not be sent stands under its hash from now on, and so does what was said about it.
CREATE FUNCTION dispatcher.erase_suppressions(p_tenant_id text, p_kind text, p_address text) RETURNS void
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

REVOKE ALL ON FUNCTION dispatcher.erased_delivery_keys_stay, dispatcher.erased_run_keys_stay, dispatcher.keep_erased_keys,
    dispatcher.erase_deliveries, dispatcher.erase_runs, dispatcher.erase_suppressions FROM PUBLIC;
GRANT SELECT, INSERT ON dispatcher.erasures TO dispatcher_tenant;
-- An address that is taken off the list, or wants a topic again, is forgiven what was said before it was erased.
GRANT SELECT, DELETE ON dispatcher.erased_suppressions TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.erased TO dispatcher_tenant;
