-- What else can become of a delivery: it expires, it is paused, it is held and settled by an operator, it kills its
-- worker, it comes out of a backup.
--
-- New in the map
--   pauses       who stopped what, why, and until when; an open one has no end
--   parked       deliveries that wait for a pause to end
--   clusters     where this database was last seen: anywhere else means that it was restored, copied or failed over
--
-- A recovered delivery counts how often its owner died. After the second time it is claimed with few others that are
-- suspected too, from the third time on alone, so that what it does to its worker it does to no other delivery; from the
-- sixth time on it is failed as poison. (Earlier would fail the innocent: many share a batch with the guilty one, and
-- machines are killed for other reasons. Alone and dead three times in a row is no accident.)

ALTER TABLE dispatcher.delivery_state
    ADD COLUMN expires_at      timestamptz,
    ADD COLUMN held_at         timestamptz,
    ADD COLUMN settle_after    timestamptz,
    ADD COLUMN throttled_since timestamptz;
COMMENT ON COLUMN dispatcher.delivery_state.settle_after IS 'until then a call of a dead owner may still be going on';
COMMENT ON COLUMN dispatcher.delivery_state.throttled_since IS 'when it was first put off by a limit, as long as nothing else happened';

UPDATE dispatcher.delivery_state s SET expires_at = d.expires_at
  FROM dispatcher.deliveries d WHERE d.id = s.id AND d.expires_at IS NOT NULL AND s.status = 'queued';
UPDATE dispatcher.delivery_state SET held_at = statement_timestamp(), settle_after = statement_timestamp() WHERE held;

-- What is quarantined is held without a call that anybody knows of: it carries token 0, which no claim ever has, and
-- `marked` goes on saying whether the attempt on the row was begun.
ALTER TABLE dispatcher.delivery_state DROP CONSTRAINT delivery_state_held_was_marked;
ALTER TABLE dispatcher.delivery_state ADD CONSTRAINT delivery_state_held_was_marked
    CHECK (NOT held OR (status = 'queued' AND token IS NOT NULL AND (marked OR token = 0)));

CREATE INDEX delivery_state_held ON dispatcher.delivery_state (held_at) WHERE held;
CREATE INDEX delivery_state_expiring ON dispatcher.delivery_state (expires_at) WHERE ready AND expires_at IS NOT NULL;
CREATE INDEX delivery_state_suspect ON dispatcher.delivery_state (channel, recoveries, run_at)
    WHERE ready AND recoveries >= 2;

-- Why an unknown attempt was sent again, and by whose leave: the provider knows the key, the channel may send twice, or
-- an operator said so.
ALTER TABLE dispatcher.delivery_attempts
    ADD COLUMN resent_by text CHECK (resent_by IN ('key', 'at_least_once', 'operator'));
ALTER TABLE dispatcher.claims
    ADD COLUMN resend_by      text CHECK (resend_by IN ('key', 'at_least_once')),
    ADD COLUMN key_seconds    double precision,
    ADD COLUMN settle_seconds double precision NOT NULL DEFAULT 60,
    DROP COLUMN on_unknown;
COMMENT ON COLUMN dispatcher.claims.resend_by IS 'why an unknown attempt may be sent again; null: it is held';
COMMENT ON COLUMN dispatcher.claims.key_seconds IS 'how long after its first use a key is used again; null: no key, or for ever';
COMMENT ON COLUMN dispatcher.claims.settle_seconds IS 'how long a call may outlive its dead owner''s fence';

ALTER TABLE dispatcher.instances
    ADD COLUMN config_hash text NOT NULL DEFAULT '',
    ADD COLUMN channels    text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN dispatcher.instances.channels IS 'what it serves: a delivery for a channel that nobody serves has failed';

ALTER TABLE dispatcher.operator_actions DROP CONSTRAINT operator_actions_action_check;
ALTER TABLE dispatcher.operator_actions ADD CONSTRAINT operator_actions_action_check
    CHECK (action IN ('cancel', 'move', 'reopen', 'settle_sent', 'settle_failed', 'settle_requeue', 'quarantine'));

CREATE TABLE dispatcher.pauses (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    since    timestamptz NOT NULL DEFAULT statement_timestamp(),
    ended_at timestamptz,
    scope    text NOT NULL CHECK (scope IN ('channel', 'provider', 'tenant', 'template')),
    name     text NOT NULL CHECK (name <> ''),
    actor    text NOT NULL CHECK (actor <> ''),
    reason   text NOT NULL,
    ended_by text
);
CREATE UNIQUE INDEX pauses_open ON dispatcher.pauses (scope, name) WHERE ended_at IS NULL;

CREATE TABLE dispatcher.parked (
    delivery_id bigint PRIMARY KEY,
    pause_id    bigint NOT NULL
);
CREATE INDEX parked_by_pause ON dispatcher.parked (pause_id);

-- One row: where we are. A second one came with data from elsewhere.
CREATE TABLE dispatcher.clusters (
    seen_at           timestamptz NOT NULL DEFAULT statement_timestamp(),
    system_identifier bigint NOT NULL,
    timeline          integer NOT NULL,
    database_oid      oid NOT NULL,
    schema_oid        oid NOT NULL,
    PRIMARY KEY (system_identifier, timeline, database_oid, schema_oid)
);


-- As before, with two differences. The state row knows when its delivery expires. And a row that was not created by the
-- transaction that inserts it comes out of a dump, or is a copy: it may have been sent, so it is held until its own state
-- row follows, or somebody says. No clock is compared with another: the column's default is the transaction's own time,
-- and whoever gives another has it from elsewhere.
CREATE FUNCTION dispatcher.deliveries_become_due_v2() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dispatcher.delivery_state
           (id, channel, lane, run_at, expires_at, ready, held, token, held_at, settle_after, error)
    SELECT id, channel, lane, scheduled_for, expires_at, NOT copied, copied,
           CASE WHEN copied THEN 0 END, CASE WHEN copied THEN statement_timestamp() END,
           CASE WHEN copied THEN statement_timestamp() END,
           CASE WHEN copied THEN 'quarantined: created_at was given, as in a copy of one that may have been sent' END
      FROM (SELECT *, created_at <> now() AS copied FROM fresh) AS told
    ON CONFLICT (id) DO NOTHING;
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_notify) THEN
        PERFORM pg_notify('dispatcher_work', '');
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER deliveries_become_due ON dispatcher.deliveries;
CREATE TRIGGER deliveries_become_due AFTER INSERT ON dispatcher.deliveries
    REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.deliveries_become_due_v2();

COMMENT ON COLUMN dispatcher.deliveries.created_at IS
    'the time of its transaction: leave it out. A row in which it is anything else is a copy, and is held';

-- A state row that is inserted by itself comes out of a dump too. It takes the place of the one that the trigger above
-- has made; what is finished stays finished, what was queued may have been sent since and is held.
CREATE FUNCTION dispatcher.state_restored_v1() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.status = 'queued' AND NOT NEW.held THEN
        NEW.ready := false;
        NEW.held := true;
        NEW.token := 0;
        NEW.held_at := statement_timestamp();
        NEW.settle_after := statement_timestamp();
        NEW.error := 'quarantined: it was restored, and may have been sent since';
    END IF;
    DELETE FROM dispatcher.delivery_state WHERE id = NEW.id AND held AND token = 0;
    IF EXISTS (SELECT FROM dispatcher.delivery_state WHERE id = NEW.id) THEN
        RAISE EXCEPTION 'delivery % has a state of its own', NEW.id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER state_restored BEFORE INSERT ON dispatcher.delivery_state
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION dispatcher.state_restored_v1();

-- A restore with several jobs brings both tables at the same time. Each would wait for rows of the other's: so the states
-- wait until nobody is inserting deliveries, and nobody begins to before they are there.
CREATE FUNCTION dispatcher.states_wait_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOCK TABLE dispatcher.deliveries IN SHARE MODE;
    RETURN NULL;
END $$;

CREATE TRIGGER states_wait BEFORE INSERT ON dispatcher.delivery_state
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION dispatcher.states_wait_v1();


-- A state row goes with its delivery, and in no other way: without it nobody would know that a message has gone out.
CREATE FUNCTION dispatcher.state_stays_v1() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'where deliveries stand is not deleted by itself'
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Delete from dispatcher.deliveries.';
END $$;

CREATE TRIGGER state_stays BEFORE DELETE OR TRUNCATE ON dispatcher.delivery_state
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION dispatcher.state_stays_v1();


-- What a provider may have taken is neither failed nor skipped as if nothing had been sent. Whoever would end a delivery
-- while an earlier attempt of it is unknown, for whatever reason (it has expired, is cancelled, its attempts are used up,
-- it cannot be rendered, its channel is unserved, it kills its worker), holds it with that reason instead. An end is an end
-- only where the same statement knows better, and says so: resend_until becomes null.
CREATE FUNCTION dispatcher.unknown_is_no_end_v1() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.status := 'queued';
    NEW.finished_at := NULL;
    NEW.ready := false;
    NEW.held := true;
    NEW.held_at := statement_timestamp();
    -- Held without a call of its claim's, it carries the token that no claim has.
    NEW.token := CASE WHEN NEW.marked THEN OLD.token ELSE 0 END;
    NEW.error := 'unknown: an earlier attempt may have gone out, and is not sent again: ' || NEW.error;
    RETURN NEW;
END $$;

CREATE TRIGGER unknown_is_no_end BEFORE UPDATE OF status ON dispatcher.delivery_state
    FOR EACH ROW WHEN (OLD.status = 'queued' AND NEW.status IN ('failed', 'skipped') AND NEW.resend_until IS NOT NULL)
    EXECUTE FUNCTION dispatcher.unknown_is_no_end_v1();


-- Settle a held delivery. Answers settled, unknown, early (a call of its dead owner may still be going on), or what it is.
CREATE FUNCTION dispatcher.settle_held_v1(
    p_id bigint, p_as text, p_actor text, p_reason text, p_provider_message_id text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was     dispatcher.delivery_state;
    allowed smallint;
BEGIN
    IF p_as NOT IN ('sent', 'failed', 'requeue') THEN
        RAISE EXCEPTION 'a held delivery is settled as sent, failed or requeue, not %', quote_literal(p_as)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO was FROM dispatcher.delivery_state WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF was.status <> 'queued' THEN RETURN was.status; END IF;
    IF NOT was.held THEN RETURN 'not held'; END IF;
    IF was.settle_after > statement_timestamp() THEN RETURN 'early'; END IF;
    IF p_as = 'requeue' THEN
        SELECT max_attempts INTO allowed FROM dispatcher.deliveries WHERE id = p_id;
        INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, next_at, reason, resent_by)
        SELECT p_id, was.token, was.attempt, 'unknown', statement_timestamp(), was.error, 'operator'
         WHERE was.marked;
        UPDATE dispatcher.delivery_state
           SET ready = true, marked = false, held = false, token = NULL, held_at = NULL, settle_after = NULL,
               key_used_at = NULL, resend_until = NULL, recoveries = 0, run_at = greatest(run_at, statement_timestamp()),
               attempt_base = CASE WHEN attempt - attempt_base >= allowed THEN attempt ELSE attempt_base END
         WHERE id = p_id;
        PERFORM pg_notify('dispatcher_work', '');
    ELSE
        UPDATE dispatcher.delivery_state
           SET status = CASE WHEN p_as = 'failed' THEN 'failed'
                             WHEN channel = 'voice' THEN 'called'
                             WHEN channel = 'social' THEN 'posted'
                             ELSE 'sent' END,
               held = false, held_at = NULL, settle_after = NULL, resend_until = NULL,
               finished_at = statement_timestamp(), provider_message_id = coalesce(p_provider_message_id, provider_message_id),
               error = CASE WHEN p_as = 'failed' THEN 'settled as failed: ' || p_reason END
         WHERE id = p_id;
    END IF;
    INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
    VALUES (p_id, p_actor, 'settle_' || p_as, 'held', p_reason);
    RETURN 'settled';
END $$;


-- Stop a channel, provider, tenant or template. Answers the pause that is open now.
CREATE FUNCTION dispatcher.pause_v1(p_scope text, p_name text, p_actor text, p_reason text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    opened bigint;
BEGIN
    -- Again, where the one that stood in the way has ended meanwhile.
    WHILE opened IS NULL LOOP
        INSERT INTO dispatcher.pauses (scope, name, actor, reason) VALUES (p_scope, p_name, p_actor, p_reason)
        ON CONFLICT (scope, name) WHERE ended_at IS NULL DO NOTHING RETURNING id INTO opened;
        IF opened IS NULL THEN
            SELECT id INTO opened FROM dispatcher.pauses WHERE scope = p_scope AND name = p_name AND ended_at IS NULL;
        END IF;
    END LOOP;
    PERFORM pg_notify('dispatcher_control', '');
    RETURN opened;
END $$;

-- Let it go on. What was parked is made ready by unpark_v1, page by page. False where nothing was paused.
CREATE FUNCTION dispatcher.resume_v1(p_scope text, p_name text, p_actor text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE dispatcher.pauses SET ended_at = statement_timestamp(), ended_by = p_actor
     WHERE scope = p_scope AND name = p_name AND ended_at IS NULL;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM pg_notify('dispatcher_control', '');
    RETURN true;
END $$;

CREATE FUNCTION dispatcher.unpark_v1(p_page integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    freed bigint;
BEGIN
    WITH free AS (
        SELECT p.delivery_id FROM dispatcher.parked p
         WHERE NOT EXISTS (SELECT FROM dispatcher.pauses o WHERE o.id = p.pause_id AND o.ended_at IS NULL)
         ORDER BY p.delivery_id LIMIT p_page FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM dispatcher.parked p USING free f WHERE p.delivery_id = f.delivery_id
    )
    UPDATE dispatcher.delivery_state s SET ready = true FROM free f
     WHERE s.id = f.delivery_id AND s.status = 'queued' AND NOT s.ready AND NOT s.held AND s.token IS NULL;
    GET DIAGNOSTICS freed = ROW_COUNT;
    IF freed > 0 THEN PERFORM pg_notify('dispatcher_work', ''); END IF;
    RETURN freed;
END $$;


-- Hold everything that may have been attempted in another life of this database: what is due by now, or by p_due, or has
-- an owner, and was created before.
CREATE FUNCTION dispatcher.quarantine_v1(
    p_before timestamptz, p_actor text, p_reason text, p_due timestamptz DEFAULT statement_timestamp()
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    quarantined bigint;
BEGIN
    WITH suspect AS (
        SELECT s.id FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
         WHERE s.status = 'queued' AND NOT s.held AND (s.run_at <= p_due OR s.token IS NOT NULL)
           AND d.created_at < p_before
         ORDER BY s.id FOR UPDATE OF s
    ), kept AS (
        -- A call may be going on at this very moment: as long as it can, nobody settles what it does.
        UPDATE dispatcher.delivery_state s
           SET ready = false, held = true, token = 0, held_at = statement_timestamp(),
               settle_after = greatest(s.settle_after, statement_timestamp() + make_interval(
                   secs => CASE WHEN s.marked THEN coalesce(
                       (SELECT c.settle_seconds FROM dispatcher.claims c WHERE c.token = s.token), 60) ELSE 0 END)),
               error = 'quarantined: ' || p_reason
          FROM suspect WHERE s.id = suspect.id
        RETURNING s.id
    ), noted AS (
        INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
        SELECT id, p_actor, 'quarantine', 'queued', p_reason FROM kept
    )
    SELECT count(*) INTO quarantined FROM kept;
    RETURN quarantined;
END $$;


-- Where this database lives: which server, on which timeline; and which database and schema of it, since a copy within
-- one server, or a restore into it, makes others. The timeline is the one that is written now: the control file has that
-- of the last checkpoint, and the first one after a promotion may take minutes. A standby has no such place: it raises.
CREATE FUNCTION dispatcher.here_v1(
    OUT system_identifier bigint, OUT timeline integer, OUT database_oid oid, OUT schema_oid oid
)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer, d.oid,
           'dispatcher'::regnamespace::oid
      FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()
$$;

CREATE FUNCTION dispatcher.cluster_is_known_v1() RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*) = 1 AND bool_and((c.system_identifier, c.timeline, c.database_oid, c.schema_oid)
                                     = (h.system_identifier, h.timeline, h.database_oid, h.schema_oid))
      FROM dispatcher.clusters c, dispatcher.here_v1() h
$$;

-- See where this database lives now; anywhere else than before means a restore, a copy or a failover, after which marks
-- may have been forgotten. Answers how many deliveries were quarantined; null where nothing has changed. The other
-- server's clock may have been ahead of ours: what is due within a minute may have been attempted there.
CREATE FUNCTION dispatcher.see_cluster_v1() RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_first boolean;
BEGIN
    IF dispatcher.cluster_is_known_v1() THEN RETURN NULL; END IF;
    LOCK TABLE dispatcher.clusters IN EXCLUSIVE MODE;
    IF dispatcher.cluster_is_known_v1() THEN RETURN NULL; END IF;
    DELETE FROM dispatcher.clusters;
    is_first := NOT FOUND;
    INSERT INTO dispatcher.clusters (system_identifier, timeline, database_oid, schema_oid)
    SELECT h.system_identifier, h.timeline, h.database_oid, h.schema_oid FROM dispatcher.here_v1() h;
    IF is_first THEN RETURN NULL; END IF;
    RETURN dispatcher.quarantine_v1('infinity', 'dispatcher',
        'the database was restored, copied or failed over, and marks may have been forgotten',
        statement_timestamp() + interval '1 minute');
END $$;

-- Data that is restored into a database of its own life does not say where that is: its deliveries are held one by one.
-- (Only with its triggers switched off it does, and then every one that is due must be.)
CREATE FUNCTION dispatcher.clusters_are_seen_v1() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM dispatcher.clusters) OR NOT EXISTS (
        SELECT FROM dispatcher.here_v1() h
         WHERE (h.system_identifier, h.timeline, h.database_oid, h.schema_oid)
               = (NEW.system_identifier, NEW.timeline, NEW.database_oid, NEW.schema_oid)) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER clusters_are_seen BEFORE INSERT ON dispatcher.clusters
    FOR EACH ROW EXECUTE FUNCTION dispatcher.clusters_are_seen_v1();


-- As before, with these differences: a call may outlive its owner's fence, so what is held, also later, cannot be settled
-- before it is over; a key is used again only while its provider knows it; and what killed six owners is poison.
CREATE FUNCTION dispatcher.recover_v2(p_page integer)
RETURNS TABLE (claims bigint, requeued bigint, retried bigint, held bigint, poisoned bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    orphan record;
    moved  bigint;
BEGIN
    claims := 0; requeued := 0; retried := 0; held := 0; poisoned := 0;
    FOR orphan IN
        SELECT c.token, c.ids, c.resend_by, c.key_seconds, c.settle_seconds FROM dispatcher.claims c
         WHERE NOT EXISTS (SELECT FROM dispatcher.instances i WHERE i.epoch = c.epoch)
           AND EXISTS (SELECT FROM dispatcher.delivery_state s
                        WHERE s.id = ANY (c.ids) AND s.token = c.token AND s.status = 'queued' AND NOT s.held)
         ORDER BY c.token LIMIT p_page FOR UPDATE SKIP LOCKED
    LOOP
        claims := claims + 1;
        WITH poison AS (
            UPDATE dispatcher.delivery_state s
               SET status = 'failed', finished_at = statement_timestamp(), recoveries = s.recoveries + 1,
                   error = 'poison: whoever worked on it died, the last times with it alone'
             WHERE s.id = ANY (orphan.ids) AND s.token = orphan.token AND s.status = 'queued' AND NOT s.marked
               AND NOT s.held AND s.recoveries >= 5
            RETURNING s.held AS unknown
        )
        SELECT poisoned + count(*) FILTER (WHERE NOT p.unknown), held + count(*) FILTER (WHERE p.unknown)
          INTO poisoned, held FROM poison p;

        UPDATE dispatcher.delivery_state s SET ready = true, token = NULL, recoveries = s.recoveries + 1
         WHERE s.id = ANY (orphan.ids) AND s.token = orphan.token AND s.status = 'queued' AND NOT s.marked;
        GET DIAGNOSTICS moved = ROW_COUNT;
        requeued := requeued + moved;

        WITH again AS (
            SELECT s.id, s.attempt FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
             WHERE orphan.resend_by IS NOT NULL AND s.id = ANY (orphan.ids) AND s.token = orphan.token
               AND s.status = 'queued' AND s.marked AND NOT s.held AND s.attempt - s.attempt_base < d.max_attempts
             ORDER BY s.id FOR UPDATE OF s
        ), freed AS (
            UPDATE dispatcher.delivery_state s
               SET ready = true, token = NULL, marked = false, error = 'unknown: the owner died during the call',
                   settle_after = statement_timestamp() + make_interval(secs => orphan.settle_seconds),
                   resend_until = least(s.resend_until, coalesce(
                       s.key_used_at + make_interval(secs => orphan.key_seconds), 'infinity'))
              FROM again WHERE s.id = again.id
        ), kept AS (
            INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, next_at, reason, resent_by)
            SELECT id, orphan.token, attempt, 'unknown', statement_timestamp(), 'the owner died during the call',
                   orphan.resend_by
              FROM again
        )
        SELECT count(*) INTO moved FROM again;
        retried := retried + moved;

        UPDATE dispatcher.delivery_state s
           SET held = true, held_at = statement_timestamp(), error = 'unknown: the owner died during the call',
               settle_after = statement_timestamp() + make_interval(secs => orphan.settle_seconds)
         WHERE s.id = ANY (orphan.ids) AND s.token = orphan.token AND s.status = 'queued' AND s.marked AND NOT s.held;
        GET DIAGNOSTICS moved = ROW_COUNT;
        held := held + moved;
    END LOOP;
    IF requeued + retried > 0 THEN PERFORM pg_notify('dispatcher_work', ''); END IF;
    RETURN NEXT;
END $$;


-- As before; whatever is no longer held has no time of being held, and a refusal of one attempt says nothing about another
-- that is unknown.
CREATE FUNCTION dispatcher.late_result_v2(
    p_id bigint, p_token bigint, p_verdict text, p_status text, p_provider_message_id text, p_reason text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was  dispatcher.delivery_state;
    ours boolean;
    ends boolean;
BEGIN
    SELECT * INTO was FROM dispatcher.delivery_state WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN RETURN 'dropped'; END IF;
    ours := was.held AND was.token = p_token;
    IF ours AND p_verdict IN ('retry', 'not_called') THEN
        IF p_verdict = 'retry' THEN
            INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, next_at, reason)
            VALUES (p_id, p_token, was.attempt, 'retry', greatest(was.run_at, statement_timestamp()), p_reason);
        END IF;
        UPDATE dispatcher.delivery_state
           SET ready = true, held = false, held_at = NULL, settle_after = NULL, marked = false, token = NULL,
               error = p_reason,
               attempt = attempt - (p_verdict = 'not_called')::int::smallint,
               run_at = greatest(run_at, statement_timestamp())
         WHERE id = p_id;
        PERFORM pg_notify('dispatcher_work', '');
        RETURN 'resolved';
    END IF;
    IF p_verdict = 'not_called' THEN RETURN 'dropped'; END IF;
    IF was.token = p_token AND (was.held OR was.status <> 'queued')
       AND (was.status = p_status OR (was.held AND p_verdict = 'unknown')) THEN
        RETURN 'applied';
    END IF;
    IF EXISTS (SELECT FROM dispatcher.delivery_attempts a
                WHERE a.delivery_id = p_id AND a.token = p_token AND a.outcome = p_verdict) THEN
        RETURN 'applied';
    END IF;
    ends := was.status = 'queued'
        AND (p_verdict = 'accepted' AND (was.held OR NOT was.marked)
             OR p_verdict = 'refused' AND ours AND was.resend_until IS NULL);
    INSERT INTO dispatcher.delivery_evidence (delivery_id, token, verdict, provider_message_id, reason, resolved)
    VALUES (p_id, p_token, p_verdict, p_provider_message_id, p_reason, ends) ON CONFLICT DO NOTHING;
    IF NOT ends THEN RETURN 'kept'; END IF;
    UPDATE dispatcher.delivery_state
       SET status = p_status, ready = false, held = false, held_at = NULL, settle_after = NULL, token = p_token,
               finished_at = statement_timestamp(),
           provider_message_id = p_provider_message_id, error = p_reason
     WHERE id = p_id;
    RETURN 'resolved';
END $$;


-- The outbox in the older words. Skipped deliveries have no place in it.
CREATE VIEW dispatcher.rac_notification_outbox AS
SELECT d.id, d.tenant_id, d.workspace_id, d.idempotency_key, d.channel AS kind, d.recipient, d.template,
       d.variables AS payload,
       CASE s.status WHEN 'queued' THEN CASE WHEN s.token IS NULL THEN 'pending' ELSE 'processing' END
                     WHEN 'failed' THEN 'failed'
                     ELSE 'succeeded' END AS status,
       s.attempt AS attempts, d.max_attempts, s.run_at, s.error AS last_error, d.created_at, s.finished_at
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
 WHERE s.status <> 'skipped';

CREATE VIEW dispatcher.rac_notification_logs AS
SELECT a.delivery_id AS outbox_id, a.ended_at AS logged_at, 'retry scheduled' AS event, a.attempt,
       a.next_at AS next_attempt_at, a.reason
  FROM dispatcher.delivery_attempts a WHERE a.next_at IS NOT NULL
UNION ALL
SELECT e.delivery_id, e.ended_at,
       CASE WHEN e.error LIKE 'exhausted:%' THEN 'exhausted'
            WHEN e.called OR e.error LIKE 'settled as failed:%' THEN 'failed'
            ELSE 'schedule failed' END,
       e.attempt, NULL, e.error
  FROM (SELECT id AS delivery_id, finished_at AS ended_at, attempt, marked AS called, status, error
          FROM dispatcher.delivery_state
        UNION ALL
        SELECT delivery_id, ended_at, attempt, called, status, error FROM dispatcher.reopened_ends) AS e
 WHERE e.status = 'failed' OR e.status = 'skipped' AND e.error = 'expired';
COMMENT ON VIEW dispatcher.rac_notification_logs IS
    'retry scheduled; exhausted; failed (its provider refused it, or an operator said so); schedule failed (it could not be '
    'given to its provider at all: what it says is faulty, nobody serves its channel, it kills its worker, it expired)';
