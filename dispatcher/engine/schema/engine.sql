-- The engine: running instances, their claims, and what becomes of a claim whose owner is dead.
--
-- An instance claims from a channel unless it has yielded it: two replicas with different providers for one channel never
-- claim from it side by side, since half of its deliveries would go to each. An instance yields when it joins or changes its
-- provider while another that may claim has a different one, and never because of what others do: a claiming instance goes
-- on, one that comes or changes waits. It asks again while it waits, and gets the channel once no other instance with a
-- different provider may claim from it. Of several that wait with different providers, the one that joined first gets it.
--
-- Which recipients honour their keys is noted with the claim, by the configuration of the process that claims and marks.
-- What was claimed before a reload changes them is claimed again before it is called, so the note says what counts at the
-- mark.

CREATE TABLE dispatcher.instances (
    epoch         bigint PRIMARY KEY,
    beat          bigint NOT NULL DEFAULT 0,
    lease_seconds double precision NOT NULL,
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    beat_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    pid           integer NOT NULL,
    wants_notify  boolean NOT NULL DEFAULT true,
    name          text NOT NULL,
    version       text NOT NULL,
    config_hash   text NOT NULL DEFAULT '',
    channels      text[] NOT NULL DEFAULT '{}',
    wants_runs    boolean NOT NULL DEFAULT false,
    providers     text[] NOT NULL DEFAULT '{}',
    yielded       text[] NOT NULL DEFAULT '{}',
    unready       text[] NOT NULL DEFAULT '{}',
    wants_urgent  boolean NOT NULL DEFAULT true
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON COLUMN dispatcher.instances.beat IS 'a counter: others judge by their own clock whether it moves';
COMMENT ON COLUMN dispatcher.instances.wants_notify IS 'its normal and bulk lanes are idle: an insert should wake it';
COMMENT ON COLUMN dispatcher.instances.channels IS 'what it serves: a delivery for a channel that nobody serves has failed';
COMMENT ON COLUMN dispatcher.instances.wants_runs IS 'its walker is idle: a trigger or a wake should wake it';
COMMENT ON COLUMN dispatcher.instances.providers IS
    'of each of its channels, in their order: the provider, and a hash of where and how it delivers';
COMMENT ON COLUMN dispatcher.instances.yielded IS
    'the channels from which it may not claim, since another instance has another provider for them';
COMMENT ON COLUMN dispatcher.instances.unready IS 'the channels that have just found no connection to their provider';
COMMENT ON COLUMN dispatcher.instances.wants_urgent IS 'its transactional lanes are idle: an insert should wake it';

CREATE TABLE dispatcher.claims (
    token            bigint PRIMARY KEY,
    epoch            bigint NOT NULL,
    claimed_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    ids              bigint[] NOT NULL,
    resend_by        text CHECK (resend_by IN ('key', 'at_least_once')),
    key_seconds      double precision,
    settle_seconds   double precision NOT NULL DEFAULT 60,
    keyed_recipients text[] NOT NULL DEFAULT '{}',
    provider_keys    jsonb
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
COMMENT ON COLUMN dispatcher.claims.resend_by IS 'why an unknown attempt may be sent again; null: it is held';
COMMENT ON COLUMN dispatcher.claims.key_seconds IS 'how long after its first use a key is used again; null: no key, or for ever';
COMMENT ON COLUMN dispatcher.claims.settle_seconds IS 'how long a call may outlive its dead owner''s fence';
COMMENT ON COLUMN dispatcher.claims.keyed_recipients IS
    'recipients that de-duplicate by the key though their channel does not promise it: what is unknown is sent again';
COMMENT ON COLUMN dispatcher.claims.provider_keys IS
    'of a channel with several providers: those that know keys, each with key_seconds (null: for ever)';

-- Write what an instance has for its channels, and decide which of them it yields; answers those, each with the name and
-- the provider of an instance that it yields to.
CREATE FUNCTION dispatcher.agree(p_epoch bigint, p_providers text[])
RETURNS TABLE (channel text, instance text, provider text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    -- What a crash of Postgres forgot would let others claim beside us.
    PERFORM set_config('synchronous_commit', 'on', true);
    -- One decides at a time, and sees what was decided before: in a VOLATILE function each statement looks anew.
    PERFORM pg_advisory_xact_lock(hashtextextended('dispatcher.instances', 0));
    RETURN QUERY
    WITH others AS MATERIALIZED (
        SELECT i.epoch, i.name, i.started_at, c.channel, c.provider, c.channel <> ALL (i.yielded) AS claims
          FROM dispatcher.instances i, unnest(i.channels, i.providers) AS c (channel, provider)
         WHERE i.epoch <> p_epoch AND c.provider IS NOT NULL
    ), yields AS MATERIALIZED (
        SELECT DISTINCT ON (mine.channel) mine.channel, o.name, o.provider
          FROM dispatcher.instances me, unnest(me.channels, me.providers, p_providers) AS mine (channel, before, provider),
               others o
         WHERE me.epoch = p_epoch AND o.channel = mine.channel AND o.provider <> mine.provider
           AND (mine.channel = ANY (me.yielded) OR mine.before IS DISTINCT FROM mine.provider)
           AND (o.claims
                OR (o.started_at, o.epoch) < (me.started_at, me.epoch)
                   AND NOT EXISTS (SELECT FROM others a WHERE a.channel = mine.channel AND a.claims))
         ORDER BY mine.channel, o.claims DESC, o.started_at, o.epoch
    ), written AS (
        UPDATE dispatcher.instances
           SET providers = p_providers, yielded = ARRAY(SELECT y.channel FROM yields y ORDER BY 1)
         WHERE epoch = p_epoch
    )
    SELECT y.channel, y.name, y.provider FROM yields y ORDER BY 1;
END $$;

-- Take a dead owner's epoch away. The delete waits for a mark under way, which holds the row FOR KEY SHARE; with a lock
-- time-out, since a session that was cut off without a word can hold it until TCP notices. False: another session did it.
CREATE FUNCTION dispatcher.fence(p_epoch bigint, p_lock_ms integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('lock_timeout', p_lock_ms::text, true);
    DELETE FROM dispatcher.instances WHERE epoch = p_epoch;
    RETURN FOUND;
END $$;

-- Free what a live owner's claim took without its knowing, because the answer was lost on the way. Taking the instance row
-- FOR UPDATE waits for every claim and mark of that owner that is still under way; the statement after it sees them all.
CREATE FUNCTION dispatcher.forget_claim(p_epoch bigint, p_token bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    freed bigint;
BEGIN
    PERFORM FROM dispatcher.instances WHERE epoch = p_epoch FOR UPDATE;
    UPDATE dispatcher.delivery_state s SET ready = true, token = NULL
      FROM dispatcher.claims c
     WHERE c.token = p_token AND c.epoch = p_epoch AND s.id = ANY (c.ids) AND s.token = p_token
       AND s.status = 'queued' AND NOT s.marked;
    GET DIAGNOSTICS freed = ROW_COUNT;
    IF freed > 0 THEN PERFORM pg_notify('dispatcher_work', ''); END IF;
    RETURN freed;
END $$;

-- Recover up to p_page claims that have no live owner. What was not marked is ready again, and poison after its sixth owner;
-- what was marked is sent again where its claim allows that, and held otherwise. None is sent again that belongs to a run that
-- has failed or was cancelled. (They are locked before it is asked what has become of their runs.)
CREATE FUNCTION dispatcher.recover(p_page integer)
RETURNS TABLE (claims bigint, requeued bigint, retried bigint, held bigint, poisoned bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    orphan record;
    moved  bigint;
BEGIN
    claims := 0; requeued := 0; retried := 0; held := 0; poisoned := 0;
    FOR orphan IN
        SELECT c.token, c.ids, c.resend_by, c.key_seconds, c.settle_seconds, c.keyed_recipients, c.provider_keys
          FROM dispatcher.claims c
         WHERE NOT EXISTS (SELECT FROM dispatcher.instances i WHERE i.epoch = c.epoch)
           AND EXISTS (SELECT FROM dispatcher.delivery_state s
                        WHERE s.id = ANY (c.ids) AND s.token = c.token AND s.status = 'queued' AND NOT s.held)
         ORDER BY c.token LIMIT p_page FOR UPDATE SKIP LOCKED
    LOOP
        claims := claims + 1;
        PERFORM FROM dispatcher.delivery_state s
          WHERE s.id = ANY (orphan.ids) AND s.token = orphan.token AND s.status = 'queued' ORDER BY s.id FOR UPDATE;
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
            SELECT s.id, s.attempt, s.provider,
                   CASE WHEN d.recipient = ANY (orphan.keyed_recipients) OR orphan.provider_keys ? s.provider THEN 'key'
                        ELSE orphan.resend_by END AS resent_by,
                   CASE WHEN orphan.provider_keys ? s.provider THEN (orphan.provider_keys ->> s.provider)::float8
                        ELSE orphan.key_seconds END AS key_seconds
              FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
             WHERE (orphan.resend_by IS NOT NULL OR d.recipient = ANY (orphan.keyed_recipients)
                    OR orphan.provider_keys ? s.provider)
               AND s.id = ANY (orphan.ids) AND s.token = orphan.token
               AND s.status = 'queued' AND s.marked AND NOT s.held AND s.attempt - s.attempt_base < d.max_attempts
               AND NOT EXISTS (SELECT FROM dispatcher.runs r WHERE r.id = s.wakes AND r.status IN ('failed', 'cancelled'))
             ORDER BY s.id FOR UPDATE OF s
        ), freed AS (
            UPDATE dispatcher.delivery_state s
               SET ready = true, token = NULL, marked = false, error = 'unknown: the owner died during the call',
                   settle_after = statement_timestamp() + make_interval(secs => orphan.settle_seconds),
                   resend_until = least(s.resend_until, coalesce(
                       s.key_used_at + make_interval(secs => again.key_seconds), 'infinity'))
              FROM again WHERE s.id = again.id
        ), kept AS (
            INSERT INTO dispatcher.delivery_attempts
                   (delivery_id, token, attempt, outcome, next_at, reason, resent_by, provider)
            SELECT id, orphan.token, attempt, 'unknown', statement_timestamp(), 'the owner died during the call',
                   resent_by, provider
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

-- The provider of an attempt: of one that was kept, by its token; else that of the delivery's last mark.
CREATE FUNCTION dispatcher.provider_of(p_id bigint, p_token bigint, p_last text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT a.provider FROM dispatcher.delivery_attempts a
                      WHERE a.delivery_id = p_id AND a.token = p_token ORDER BY a.attempt DESC LIMIT 1), p_last)
$$;

-- What a result still does when the claim behind it no longer owns the delivery: writes are fenced, evidence never is.
-- Returns, per delivery:
--   applied   our own flush had committed after all: nothing to do
--   resolved  it settled a held delivery: as sent or failed, or, where nothing had been taken, as ready again;
--             or an Accepted found it not yet marked again
--   kept      it is kept beside a delivery whose end it does not decide
--   dropped   it says that nothing was called of a delivery that does not wait for that
-- A delivery that is no longer held has no time of being held, and a refusal of one attempt says nothing about another that
-- is unknown.
CREATE FUNCTION dispatcher.late_result(
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
            INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, next_at, reason, provider)
            VALUES (p_id, p_token, was.attempt, 'retry', greatest(was.run_at, statement_timestamp()), p_reason,
                    was.provider);
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
           provider_message_id = p_provider_message_id, error = p_reason,
           provider = dispatcher.provider_of(p_id, p_token, provider)
     WHERE id = p_id;
    RETURN 'resolved';
END $$;

REVOKE ALL ON FUNCTION dispatcher.recover FROM PUBLIC;
