-- Suppressed addresses, and unsubscriptions from topics.
--
-- The map
--   suppressions        addresses that get nothing more: by whom, why, and until when
--   topic_preferences   what an address has said about a topic
--   suppression_log     every change of both, by whom and why
--   suppression_work    addresses whose queued deliveries have not been looked through since
--
-- How a suppression takes effect
--   It is committed first; the triggers below put the address into suppression_work in the same transaction.
--   Then, in transactions of their own, the queued deliveries of that address are skipped (bar), which is what a mark
--   that is under way waits for and sees: it tests its own state row and nothing else. Whatever is inserted later, or
--   was not visible to that look, is claimed by a snapshot that shows the suppression, and is looked through after its
--   claim. One that was cut in half is still in suppression_work, and any dispatcher completes it.
--
-- Addresses are kept in one form: e-mail in lower case with an ASCII domain, a phone number as + and its digits, anything
-- else as it is written. Which delivery is meant is decided by that form; the index deliveries_address only finds candidates.

-- The same for all the ways in which one address is written: no display name, no scheme, no punctuation, ASCII in lower
-- case. Without a SET clause, so that it is inlined: an insert computes it for each row.
CREATE FUNCTION dispatcher.address_hash(p_recipient text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.hashtextextended(pg_catalog.translate(pg_catalog.lower(
        pg_catalog.split_part(pg_catalog.split_part(p_recipient, '<', -1), ':', -1) COLLATE "C"), ' ()-./>"+', ''), 0)
$$;

CREATE INDEX deliveries_address ON dispatcher.deliveries (dispatcher.address_hash(recipient));

CREATE TABLE dispatcher.suppressions (
    tenant_id  text NOT NULL DEFAULT 'default',
    kind       text NOT NULL,
    address    text COLLATE "C" NOT NULL,
    channel    text NOT NULL DEFAULT '',
    source     text NOT NULL DEFAULT 'operator',
    added_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    expires_at timestamptz,
    actor      text NOT NULL DEFAULT session_user,
    reason     text NOT NULL DEFAULT '',
    CONSTRAINT suppressions_pkey PRIMARY KEY (tenant_id, kind, address, channel, source),
    CONSTRAINT suppressions_kind_known CHECK (kind IN ('email', 'phone', 'other')),
    CONSTRAINT suppressions_source_known
        CHECK (source IN ('operator', 'bounce', 'complaint', 'unsubscribe', 'import')),
    CONSTRAINT suppressions_address_form
        CHECK (CASE kind WHEN 'email' THEN address = lower(address COLLATE "C") AND address ~ '^.+@[!-~]+$'
                         WHEN 'phone' THEN address ~ '^\+[0-9]{1,30}$'
                         ELSE address <> '' END),
    CONSTRAINT suppressions_address_length CHECK (length(address) <= 500),
    CONSTRAINT suppressions_channel_name CHECK (channel ~ '^([a-z][a-z0-9_]{0,31})?$'),
    CONSTRAINT suppressions_actor_named CHECK (actor <> '')
);
COMMENT ON COLUMN dispatcher.suppressions.channel IS 'the one channel that it is about; empty: every channel';
CREATE INDEX suppressions_expiring ON dispatcher.suppressions (expires_at) WHERE expires_at IS NOT NULL;
CALL dispatcher.isolate('dispatcher.suppressions', p_records => true);

CREATE TABLE dispatcher.topic_preferences (
    tenant_id  text NOT NULL DEFAULT 'default',
    kind       text NOT NULL,
    address    text COLLATE "C" NOT NULL,
    topic      text NOT NULL,
    subscribed boolean NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    actor      text NOT NULL DEFAULT session_user,
    reason     text NOT NULL DEFAULT '',
    CONSTRAINT topic_preferences_pkey PRIMARY KEY (tenant_id, kind, address, topic),
    CONSTRAINT topic_preferences_kind_known CHECK (kind IN ('email', 'phone', 'other')),
    CONSTRAINT topic_preferences_address_form
        CHECK (CASE kind WHEN 'email' THEN address = lower(address COLLATE "C") AND address ~ '^.+@[!-~]+$'
                         WHEN 'phone' THEN address ~ '^\+[0-9]{1,30}$'
                         ELSE address <> '' END),
    CONSTRAINT topic_preferences_address_length CHECK (length(address) <= 500),
    CONSTRAINT topic_preferences_topic_name CHECK (topic ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    CONSTRAINT topic_preferences_actor_named CHECK (actor <> '')
);
CALL dispatcher.isolate('dispatcher.topic_preferences');

CREATE TABLE dispatcher.suppression_log (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT statement_timestamp(),
    actor      text NOT NULL,
    action     text NOT NULL CHECK (action IN ('suppress', 'release', 'expire', 'subscribe', 'unsubscribe')),
    tenant_id  text NOT NULL,
    kind       text NOT NULL,
    address    text NOT NULL,
    channel    text NOT NULL DEFAULT '',
    source     text,
    topic      text,
    expires_at timestamptz,
    reason     text NOT NULL
);
CREATE INDEX suppression_log_by_address ON dispatcher.suppression_log (tenant_id, kind, address, id);
CREATE INDEX suppression_log_by_time ON dispatcher.suppression_log (tenant_id, at, id);
CALL dispatcher.isolate('dispatcher.suppression_log', p_records => true);

CREATE TABLE dispatcher.suppression_work (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id text NOT NULL,
    kind      text NOT NULL,
    address   text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE FUNCTION dispatcher.suppressions_added() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Most flushes add none, and come by here all the same.
    IF NOT EXISTS (SELECT FROM changed) THEN RETURN NULL; END IF;
    INSERT INTO dispatcher.suppression_log (actor, action, tenant_id, kind, address, channel, source, expires_at, reason)
    SELECT actor, 'suppress', tenant_id, kind, address, channel, source, expires_at, reason FROM changed;
    INSERT INTO dispatcher.suppression_work (tenant_id, kind, address)
    SELECT DISTINCT tenant_id, kind, address FROM changed;
    PERFORM pg_notify('dispatcher_suppressions', '');
    RETURN NULL;
END $$;

CREATE TRIGGER suppressions_added AFTER INSERT ON dispatcher.suppressions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.suppressions_added();
CREATE TRIGGER suppressions_renewed AFTER UPDATE ON dispatcher.suppressions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.suppressions_added();

-- A deleted row cannot name the actor of its deletion: the transaction does, in dispatcher.actor and dispatcher.reason.
CREATE FUNCTION dispatcher.suppressions_released() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dispatcher.suppression_log (actor, action, tenant_id, kind, address, channel, source, expires_at, reason)
    SELECT coalesce(nullif(current_setting('dispatcher.actor', true), ''), session_user),
           CASE WHEN expires_at <= statement_timestamp() THEN 'expire' ELSE 'release' END,
           tenant_id, kind, address, channel, source, expires_at, coalesce(current_setting('dispatcher.reason', true), '')
      FROM gone;
    RETURN NULL;
END $$;

CREATE TRIGGER suppressions_released AFTER DELETE ON dispatcher.suppressions
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.suppressions_released();

CREATE FUNCTION dispatcher.preferences_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dispatcher.suppression_log (actor, action, tenant_id, kind, address, topic, reason)
    SELECT actor, CASE WHEN subscribed THEN 'subscribe' ELSE 'unsubscribe' END, tenant_id, kind, address, topic, reason
      FROM changed;
    INSERT INTO dispatcher.suppression_work (tenant_id, kind, address)
    SELECT DISTINCT tenant_id, kind, address FROM changed WHERE NOT subscribed;
    IF FOUND THEN PERFORM pg_notify('dispatcher_suppressions', ''); END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER preferences_set AFTER INSERT ON dispatcher.topic_preferences
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.preferences_changed();
CREATE TRIGGER preferences_changed AFTER UPDATE ON dispatcher.topic_preferences
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.preferences_changed();

-- Deliveries that nothing more may be sent of: skipped with their reasons, whatever they waited for. One that a provider
-- may have already (an earlier attempt is unknown) is held instead: it may have been sent. What is marked
-- is with its provider, and held deliveries wait for an operator anyway. The rows are locked before it is asked what is known
-- of their attempts: a snapshot from before the wait would not show what the one that was waited for has written.
CREATE FUNCTION dispatcher.bar(p_ids bigint[], p_reasons text[]) RETURNS TABLE (delivery_id bigint, became text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    PERFORM FROM dispatcher.delivery_state s
      WHERE s.id = ANY (p_ids) AND s.status = 'queued' AND NOT s.marked AND NOT s.held ORDER BY s.id FOR UPDATE;
    RETURN QUERY
    WITH asked AS (
        SELECT r.id, r.reason, EXISTS (SELECT FROM dispatcher.delivery_attempts a
                                        WHERE a.delivery_id = r.id AND a.outcome = 'unknown') AS unknown
          FROM unnest(p_ids, p_reasons) AS r (id, reason)
    ), barred AS (
        UPDATE dispatcher.delivery_state s
           SET status = CASE WHEN a.unknown THEN 'queued' ELSE 'skipped' END, ready = false, held = a.unknown,
               -- Held without a call of its claim's: it carries the token that no claim has.
               token = CASE WHEN a.unknown THEN 0 END,
               held_at = CASE WHEN a.unknown THEN statement_timestamp() END,
               finished_at = CASE WHEN NOT a.unknown THEN statement_timestamp() END,
               error = CASE WHEN a.unknown THEN 'unknown: an earlier attempt may have arrived; ' ELSE '' END || a.reason
          FROM asked a WHERE s.id = a.id AND s.status = 'queued' AND NOT s.marked AND NOT s.held
        RETURNING s.id, CASE WHEN s.held THEN 'held' ELSE s.status END AS became
    ), freed AS (
        DELETE FROM dispatcher.parked p USING barred b WHERE p.delivery_id = b.id
    )
    SELECT b.id, b.became FROM barred b;
END $$;

-- Deliveries of a workspace to recipients that look like these, as the owner: under row security a statement of a request
-- reads all deliveries of its workspace first, since the hash of a recipient may tell more than the row may show (232 ms
-- where there are 200,000; this takes 1 ms). By the hash first, and then whose they are: without statistics all deliveries
-- of a workspace look as few as those to one address (380 ms among 250,000).
CREATE FUNCTION dispatcher.sent_to(p_tenant_id text, p_workspace_id text, p_forms text[]) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    RETURN QUERY
    SELECT d.id
      FROM (SELECT DISTINCT dispatcher.address_hash(form) AS hash FROM unnest(p_forms) AS form) AS asked,
           LATERAL (SELECT b.id, b.tenant_id, b.workspace_id FROM dispatcher.deliveries b
                     WHERE dispatcher.address_hash(b.recipient) = asked.hash OFFSET 0) AS d
     WHERE d.tenant_id = p_tenant_id AND d.workspace_id = p_workspace_id;
END $$;

REVOKE ALL ON FUNCTION dispatcher.suppressions_added, dispatcher.suppressions_released,
    dispatcher.preferences_changed, dispatcher.sent_to FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.suppressions, dispatcher.topic_preferences TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.suppression_log TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.sent_to TO dispatcher_tenant;
