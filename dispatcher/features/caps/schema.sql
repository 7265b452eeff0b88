-- Frequency caps: at most n messages to one recipient in any period of a given length, over chosen channels and topics.
--
-- The map
--   caps          one row a cap, by its name in a workspace
--   cap_actions   who has saved and deleted caps
--   cap_counters  of each cap and recipient the last messages: their deliveries, and when each was marked
--
-- How it counts
--   The period slides: a message counts from its mark, directly before the call, until the period is over. A counter keeps the
--   last n messages in the order of their marks. There is room while it has fewer, or where the first of the last n is older
--   than the period. Whoever asks holds the counter's row, so no two messages take the last place.
--
--   Nothing is written when a message turns out not to have left: a counter that seems full is read again together with the
--   state rows of its deliveries, and what has failed, was skipped, or went back without a call takes no place. Between that
--   and a message that counts again stands a mark, which asks for a place itself. What is held takes one: it may have left.
--   A retry finds its own delivery in the counter, takes no second place, and counts from its last mark.
--
-- The recipient is the contact behind the address, or the address (in the form in which addresses are compared) where there
-- is none. What was counted for an address before it had a contact goes over to the contact with its next message.
--
-- Lock order: state rows by id, then counters by recipient and cap. Several deliveries to one recipient in one mark take their
-- places in turns, the smallest id first; all counters are there and locked before the first turn.

CREATE TABLE dispatcher.caps (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    updated_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    period       interval NOT NULL,
    messages     smallint NOT NULL,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    name         text COLLATE "C" NOT NULL,
    updated_by   text NOT NULL CHECK (updated_by <> ''),
    channels     text[] NOT NULL,
    topics       text[] NOT NULL DEFAULT '{}',
    CONSTRAINT caps_name UNIQUE (tenant_id, workspace_id, name),
    CONSTRAINT caps_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT caps_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$'),
    CONSTRAINT caps_messages_bounded CHECK (messages BETWEEN 1 AND 100),
    -- In seconds alone: a day of a calendar has 23 to 25 hours.
    CONSTRAINT caps_period_bounded
        CHECK (period BETWEEN '60 s' AND '8784 h' AND extract(day FROM period) = 0 AND extract(month FROM period) = 0),
    CONSTRAINT caps_channels_bounded CHECK (cardinality(channels) BETWEEN 1 AND 100),
    CONSTRAINT caps_topics_bounded CHECK (cardinality(topics) <= 100)
);
COMMENT ON COLUMN dispatcher.caps.topics IS 'only messages that carry one of these; none: all messages';
CALL dispatcher.isolate('dispatcher.caps');

CREATE TABLE dispatcher.cap_actions (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT statement_timestamp(),
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    cap          text NOT NULL,
    action       text NOT NULL CHECK (action IN ('put', 'delete')),
    actor        text NOT NULL CHECK (actor <> ''),
    said         jsonb NOT NULL
);
COMMENT ON COLUMN dispatcher.cap_actions.said IS 'the cap from then on, or as it was deleted';
CREATE INDEX cap_actions_by_time ON dispatcher.cap_actions (tenant_id, workspace_id, at, id);
CALL dispatcher.isolate('dispatcher.cap_actions', p_records => true);

-- No foreign key to caps: what a deleted cap has counted is swept. `messages` and `period` are the cap's at the last mark.
CREATE TABLE dispatcher.cap_counters (
    cap_id     bigint NOT NULL,
    person     bigint NOT NULL,
    period     interval NOT NULL,
    messages   smallint NOT NULL,
    deliveries bigint[] NOT NULL,
    marked_at  timestamptz[] NOT NULL,
    PRIMARY KEY (cap_id, person)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_insert_threshold = 50000, autovacuum_vacuum_cost_delay = 0
);
COMMENT ON COLUMN dispatcher.cap_counters.person IS 'a hash of the contact, or of the address';

-- Save a cap. Answers created, changed, same, or full: the workspace has as many as it may have.
CREATE FUNCTION dispatcher.put_cap(
    p_tenant_id text, p_workspace_id text, p_name text, p_messages smallint, p_period interval, p_channels text[],
    p_topics text[], p_actor text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known   CONSTANT boolean := EXISTS (
        SELECT FROM dispatcher.caps c
         WHERE c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id AND c.name = p_name);
BEGIN
    IF NOT known AND (SELECT count(*) >= 20 FROM dispatcher.caps c
                       WHERE c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id) THEN
        RETURN 'full';
    END IF;
    INSERT INTO dispatcher.caps AS c (tenant_id, workspace_id, name, messages, period, channels, topics, updated_by)
    VALUES (p_tenant_id, p_workspace_id, p_name, p_messages, p_period, p_channels, p_topics, p_actor)
    ON CONFLICT ON CONSTRAINT caps_name DO UPDATE
       SET messages = excluded.messages, period = excluded.period, channels = excluded.channels, topics = excluded.topics,
           updated_by = excluded.updated_by, updated_at = statement_timestamp()
     WHERE (c.messages, c.period, c.channels, c.topics)
           IS DISTINCT FROM (excluded.messages, excluded.period, excluded.channels, excluded.topics);
    IF NOT FOUND THEN RETURN 'same'; END IF;
    INSERT INTO dispatcher.cap_actions (tenant_id, workspace_id, cap, action, actor, said)
    VALUES (p_tenant_id, p_workspace_id, p_name, 'put', p_actor,
            jsonb_build_object('messages', p_messages, 'period_seconds', extract(epoch FROM p_period)::bigint,
                               'channels', p_channels, 'topics', p_topics));
    PERFORM pg_notify('dispatcher_control', '');
    RETURN CASE WHEN known THEN 'changed' ELSE 'created' END;
END $$;

-- Delete a cap; false where there is none.
CREATE FUNCTION dispatcher.delete_cap(p_tenant_id text, p_workspace_id text, p_name text, p_actor text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH gone AS (
        DELETE FROM dispatcher.caps c
         WHERE c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id AND c.name = p_name RETURNING c.*
    )
    INSERT INTO dispatcher.cap_actions (tenant_id, workspace_id, cap, action, actor, said)
    SELECT g.tenant_id, g.workspace_id, g.name, 'delete', p_actor,
           jsonb_build_object('messages', g.messages, 'period_seconds', extract(epoch FROM g.period)::bigint,
                              'channels', g.channels, 'topics', g.topics)
      FROM gone g;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM pg_notify('dispatcher_control', '');
    RETURN true;
END $$;

CREATE FUNCTION dispatcher.cap_person(p_contact_id bigint, p_kind text, p_address text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_contact_id IS NOT NULL THEN pg_catalog.hashint8extended(p_contact_id, 0)
                ELSE pg_catalog.hashtextextended(p_address, pg_catalog.hashtext(p_kind)) END
$$;

-- Why a message is skipped: `capped (3 in 7 days)`.
CREATE FUNCTION dispatcher.cap_reason(p_messages smallint, p_period interval) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.format('capped (%s in %s %s%s)', p_messages, u.count, u.unit, CASE WHEN u.count > 1 THEN 's' END)
      FROM (SELECT extract(epoch FROM p_period)::bigint / s.seconds AS count, s.unit
              FROM (VALUES (86400, 'day'), (3600, 'hour'), (60, 'minute'), (1, 'second')) AS s (seconds, unit)
             WHERE extract(epoch FROM p_period)::bigint % s.seconds = 0 ORDER BY s.seconds DESC LIMIT 1) AS u
$$;

-- What was counted for an address before it had a contact is the contact's from now on.
CREATE FUNCTION dispatcher.move_counters(p_caps bigint[], p_persons bigint[], p_plain bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moved record;
BEGIN
    FOR moved IN
        SELECT DISTINCT r.cap, r.plain, r.person FROM unnest(p_caps, p_persons, p_plain) AS r (cap, person, plain),
               LATERAL (SELECT FROM dispatcher.cap_counters k WHERE k.cap_id = r.cap AND k.person = r.plain OFFSET 0) AS k
         WHERE r.plain <> r.person ORDER BY 2, 1
    LOOP
        WITH gone AS (
            DELETE FROM dispatcher.cap_counters k WHERE k.cap_id = moved.cap AND k.person = moved.plain RETURNING k.*
        )
        INSERT INTO dispatcher.cap_counters AS k (cap_id, person, period, messages, deliveries, marked_at)
        SELECT g.cap_id, moved.person, g.period, g.messages, g.deliveries, g.marked_at FROM gone g
        ON CONFLICT ON CONSTRAINT cap_counters_pkey DO UPDATE
           SET (deliveries, marked_at) = (
               SELECT array_agg(e.delivery ORDER BY e.marked_at), array_agg(e.marked_at ORDER BY e.marked_at)
                 FROM unnest(k.deliveries || excluded.deliveries, k.marked_at || excluded.marked_at) AS e (delivery, marked_at));
    END LOOP;
END $$;

-- The places that a batch asks for: who the recipient of each is, and how many messages he may get in which period. Each group
-- (a cap, and a kind of addresses) has the deliveries and the addresses from `first` to `last`. `plain` is whom the address
-- alone would be; null where that is the person.
CREATE FUNCTION dispatcher.cap_requests(
    p_caps bigint[], p_kinds text[], p_firsts integer[], p_lasts integer[], p_deliveries bigint[], p_addresses text[]
) RETURNS TABLE (delivery bigint, cap bigint, person bigint, plain bigint, messages smallint, period interval)
LANGUAGE sql STABLE AS $$
    SELECT r.delivery, c.id, w.person,
           CASE WHEN a.contact_id IS NOT NULL THEN dispatcher.cap_person(NULL, g.kind, r.address) END, c.messages, c.period
      FROM unnest(p_caps, p_kinds, p_firsts, p_lasts) AS g (cap, kind, first, last),
           LATERAL (SELECT c.*, EXISTS (SELECT FROM dispatcher.contact_addresses a
                                         WHERE a.tenant_id = c.tenant_id AND a.workspace_id = c.workspace_id
                                           AND a.kind = g.kind) AS has_contacts
                      FROM dispatcher.caps c WHERE c.id = g.cap OFFSET 0) AS c,
           LATERAL (SELECT unnest(p_deliveries[g.first:g.last]) AS delivery, unnest(p_addresses[g.first:g.last]) AS address
                    OFFSET 0) AS r
      LEFT JOIN LATERAL (
          SELECT a.contact_id FROM dispatcher.contact_addresses a
           WHERE c.has_contacts AND a.tenant_id = c.tenant_id AND a.workspace_id = c.workspace_id AND a.kind = g.kind
             AND a.address = r.address OFFSET 0) AS a ON true,
           LATERAL (SELECT dispatcher.cap_person(a.contact_id, g.kind, r.address) AS person OFFSET 0) AS w
$$;

-- Read the locked counters of these entries again, no counter twice, and take the places that are free. Answers the entries
-- that find none. Deliveries that have been marked already, and wait for their own turn, count as they did before.
CREATE FUNCTION dispatcher.take_places(
    p_deliveries bigint[], p_caps bigint[], p_persons bigint[], p_messages smallint[], p_periods interval[], p_waiting bigint[]
) RETURNS integer[]
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    WITH asked AS MATERIALIZED (
        SELECT r.* FROM unnest(p_deliveries, p_caps, p_persons, p_messages, p_periods) WITH ORDINALITY
            AS r (delivery, cap, person, messages, period, entry)
    ), counted AS MATERIALIZED (
        SELECT r.entry, r.cap, r.person, r.period, r.messages, n.deliveries || r.delivery AS deliveries,
               n.marked_at || clock_timestamp() AS marked_at
          FROM asked r,
               LATERAL (SELECT coalesce(array_agg(u.delivery ORDER BY u.marked_at), '{}') AS deliveries,
                               coalesce(array_agg(u.marked_at ORDER BY u.marked_at), '{}') AS marked_at
                          FROM dispatcher.cap_counters k, unnest(k.deliveries, k.marked_at) AS u (delivery, marked_at)
                         WHERE k.cap_id = r.cap AND k.person = r.person AND u.delivery <> r.delivery
                           AND u.marked_at > clock_timestamp() - r.period
                           -- One whose row was deleted has ended, nobody knows how.
                           AND NOT EXISTS (SELECT FROM dispatcher.delivery_state s
                                            WHERE s.id = u.delivery
                                              AND (s.status IN ('failed', 'skipped')
                                                   OR s.status = 'queued' AND NOT s.held
                                                      AND CASE WHEN s.id = ANY (p_waiting) THEN s.attempt = 1
                                                               ELSE s.attempt = 0 AND NOT s.marked END)
                                           OFFSET 0)
                        OFFSET 0) AS n
    ), taken AS (
        UPDATE dispatcher.cap_counters k
           SET period = n.period, messages = n.messages, deliveries = n.deliveries, marked_at = n.marked_at
          FROM counted n
         WHERE k.cap_id = n.cap AND k.person = n.person AND cardinality(n.deliveries) <= n.messages
        RETURNING n.entry
    )
    SELECT coalesce(array_agg(a.entry::integer), '{}') FROM asked a WHERE a.entry NOT IN (SELECT t.entry FROM taken t)
$$;

-- Those of a batch that mark_capped has found no place for at once: somebody's counter may be full, somebody has several in
-- the batch, a retry has its place already, or an address was counted before it had a contact. Answers the deliveries that
-- find none: they are skipped. Those in p_lost were not marked. Who has taken a place since p_begun keeps it.
CREATE FUNCTION dispatcher.take_turns(
    p_begun timestamptz, p_lost bigint[], p_caps bigint[], p_kinds text[], p_firsts integer[], p_lasts integer[],
    p_deliveries bigint[], p_addresses text[]
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moving  record;
    asked   record;
    turn    record;
    again   bigint[];
    without integer[];
    over    record;
    refused bigint[] := '{}';
BEGIN
    SELECT array_agg(r.cap) AS caps, array_agg(r.person) AS persons, array_agg(r.plain) AS plain INTO moving
      FROM dispatcher.cap_requests(p_caps, p_kinds, p_firsts, p_lasts, p_deliveries, p_addresses) AS r
     WHERE r.plain IS NOT NULL AND r.delivery <> ALL (p_lost);
    IF moving.caps IS NOT NULL THEN
        PERFORM dispatcher.move_counters(moving.caps, moving.persons, moving.plain);
    END IF;

    SELECT array_agg(f.delivery) AS deliveries, array_agg(f.cap) AS caps, array_agg(f.person) AS persons,
           array_agg(f.messages) AS messages, array_agg(f.period) AS periods, array_agg(f.turn) AS turns
      INTO asked
      FROM (SELECT r.*, dense_rank() OVER (PARTITION BY r.person ORDER BY r.delivery) AS turn
              FROM dispatcher.cap_requests(p_caps, p_kinds, p_firsts, p_lasts, p_deliveries, p_addresses) AS r
             WHERE r.delivery <> ALL (p_lost)
               AND NOT EXISTS (SELECT FROM dispatcher.cap_counters k
                                WHERE k.cap_id = r.cap AND k.person = r.person
                                  AND k.deliveries[cardinality(k.deliveries)] = r.delivery
                                  AND k.marked_at[cardinality(k.marked_at)] >= p_begun OFFSET 0)
             ORDER BY r.cap, r.person) AS f;
    -- A counter may be gone by now: it was swept or erased, or the address has got a contact meanwhile.
    INSERT INTO dispatcher.cap_counters AS k (cap_id, person, period, messages, deliveries, marked_at)
    SELECT DISTINCT r.cap, r.person, r.period, r.messages, '{}'::bigint[], '{}'::timestamptz[]
      FROM unnest(asked.caps, asked.persons, asked.periods, asked.messages) AS r (cap, person, period, messages)
     ORDER BY r.person, r.cap
    ON CONFLICT ON CONSTRAINT cap_counters_pkey DO UPDATE SET period = excluded.period;
    -- Those of whom a retry is among these: it may have a place already, or give one back.
    SELECT coalesce(array_agg(DISTINCT r.person), '{}') INTO again
      FROM unnest(asked.deliveries, asked.persons) AS r (delivery, person)
     WHERE EXISTS (SELECT FROM dispatcher.delivery_state s WHERE s.id = r.delivery AND s.attempt > 1 OFFSET 0);
    WHILE asked.deliveries IS NOT NULL LOOP
        SELECT array_agg(r.delivery) FILTER (WHERE r.turn = r.now) AS deliveries,
               array_agg(r.cap) FILTER (WHERE r.turn = r.now) AS caps,
               array_agg(r.person) FILTER (WHERE r.turn = r.now) AS persons,
               array_agg(r.messages) FILTER (WHERE r.turn = r.now) AS messages,
               array_agg(r.period) FILTER (WHERE r.turn = r.now) AS periods,
               array_agg(r.delivery) FILTER (WHERE r.turn > r.now) AS waiting, min(r.now) AS now
          INTO turn
          FROM (SELECT r.*, min(r.turn) OVER () AS now
                  FROM unnest(asked.deliveries, asked.caps, asked.persons, asked.messages, asked.periods, asked.turns)
                    AS r (delivery, cap, person, messages, period, turn)) AS r;
        without := dispatcher.take_places(
            turn.deliveries, turn.caps, turn.persons, turn.messages, turn.periods, coalesce(turn.waiting, '{}'));
        IF without <> '{}' THEN
            -- Where one finds no place, those behind it that ask for the same find none either.
            WITH refusals AS MATERIALIZED (
                SELECT w.* FROM unnest(turn.deliveries, turn.caps, turn.persons, turn.messages, turn.periods) WITH ORDINALITY
                    AS w (delivery, cap, person, messages, period, entry)
                 WHERE w.entry = ANY (without)
            ), skipped AS (
                SELECT w.delivery, w.cap, w.messages, w.period FROM refusals w
                 UNION ALL
                SELECT r.delivery, w.cap, w.messages, w.period
                  FROM refusals w
                  JOIN unnest(asked.deliveries, asked.caps, asked.persons, asked.turns) AS r (delivery, cap, person, turn)
                    ON r.cap = w.cap AND r.person = w.person AND r.turn > turn.now AND r.person <> ALL (again)
                 WHERE turn.waiting IS NOT NULL
            )
            SELECT array_agg(f.delivery) AS deliveries, array_agg(f.reason) AS reasons INTO over
              FROM (SELECT DISTINCT ON (o.delivery) o.delivery, dispatcher.cap_reason(o.messages, o.period) AS reason
                      FROM skipped o ORDER BY o.delivery, o.cap) AS f;
            UPDATE dispatcher.delivery_state s
               SET marked = false, attempt = s.attempt - 1, key_used_at = nullif(s.key_used_at, statement_timestamp())
             WHERE s.id = ANY (over.deliveries);
            PERFORM dispatcher.bar(over.deliveries, over.reasons);
            refused := refused || over.deliveries;
        END IF;
        EXIT WHEN turn.waiting IS NULL;
        SELECT array_agg(r.delivery) AS deliveries, array_agg(r.cap) AS caps, array_agg(r.person) AS persons,
               array_agg(r.messages) AS messages, array_agg(r.period) AS periods, array_agg(r.turn) AS turns
          INTO asked
          FROM unnest(asked.deliveries, asked.caps, asked.persons, asked.messages, asked.periods, asked.turns)
            AS r (delivery, cap, person, messages, period, turn)
         WHERE r.turn > turn.now AND r.delivery <> ALL (refused);
    END LOOP;
    RETURN refused;
END $$;

-- The mark (see engine/store/marks.sql) of a batch, some of which ask for places (see cap_requests). All are marked first; those
-- that then find no place are skipped, as if they had not been marked, and answered again, with attempt 0. It is one
-- transaction: no place is taken without a mark.
--
-- One statement locks all counters, and takes a place for the first of each person where there is room beyond doubt. With most
-- batches that is all.
CREATE FUNCTION dispatcher.mark_capped(
    p_epoch bigint, p_ids bigint[], p_tokens bigint[], p_providers text[], p_caps bigint[], p_kinds text[],
    p_firsts integer[], p_lasts integer[], p_deliveries bigint[], p_addresses text[]
) RETURNS TABLE (id bigint, attempt smallint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    begun   CONSTANT timestamptz := clock_timestamp();
    marked  bigint;
    taken   bigint;
    lost    bigint[] := '{}';
    refused bigint[];
BEGIN
    RETURN QUERY
    WITH me AS MATERIALIZED (
        SELECT set_config('synchronous_commit', 'on', true) FROM dispatcher.instances WHERE epoch = p_epoch FOR KEY SHARE
    )
    UPDATE dispatcher.delivery_state s
       SET marked = true, attempt = s.attempt + 1, key_used_at = coalesce(s.key_used_at, statement_timestamp()),
           provider = asked.provider, passed = false
      FROM me, (SELECT id, token, coalesce(provider, p_providers[1]) AS provider, false AS marked, 'queued' AS status
                  FROM unnest(p_ids, p_tokens, p_providers) AS r (id, token, provider) OFFSET 0) AS asked
     WHERE s.id >= asked.id AND s.id <= asked.id AND s.token = asked.token AND s.marked = asked.marked
       AND s.status = asked.status
       AND (s.expires_at IS NULL OR s.expires_at > statement_timestamp())
       AND (s.resend_until IS NULL OR s.resend_until > statement_timestamp() AND s.provider = asked.provider)
    RETURNING s.id, s.attempt;
    GET DIAGNOSTICS marked = ROW_COUNT;
    IF marked = 0 THEN RETURN; END IF;
    IF marked < cardinality(p_ids) THEN
        lost := ARRAY(SELECT r.id FROM unnest(p_ids, p_tokens) AS r (id, token)
                       WHERE NOT EXISTS (SELECT FROM dispatcher.delivery_state s
                                          WHERE s.id = r.id AND s.token = r.token AND s.marked AND s.status = 'queued' OFFSET 0));
    END IF;

    INSERT INTO dispatcher.cap_counters AS k (cap_id, person, period, messages, deliveries, marked_at)
    SELECT DISTINCT ON (r.person, r.cap)
           r.cap, r.person, r.period, r.messages, ARRAY[r.delivery], ARRAY[clock_timestamp()]
      FROM dispatcher.cap_requests(p_caps, p_kinds, p_firsts, p_lasts, p_deliveries, p_addresses) AS r
     WHERE r.delivery <> ALL (lost)
       AND (r.plain IS NULL
            OR NOT EXISTS (SELECT FROM dispatcher.cap_counters p WHERE p.cap_id = r.cap AND p.person = r.plain OFFSET 0))
     ORDER BY r.person, r.cap, r.delivery
    ON CONFLICT ON CONSTRAINT cap_counters_pkey DO UPDATE
       SET period = excluded.period, messages = excluded.messages,
           deliveries = (k.deliveries || excluded.deliveries)[cardinality(k.deliveries) + 2 - excluded.messages:],
           marked_at = (k.marked_at || clock_timestamp())[cardinality(k.marked_at) + 2 - excluded.messages:]
     WHERE (cardinality(k.marked_at) < excluded.messages
            OR k.marked_at[cardinality(k.marked_at) + 1 - excluded.messages] <= clock_timestamp() - excluded.period)
       AND NOT k.deliveries @> excluded.deliveries;
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken = (SELECT sum(r.last - r.first + 1) FROM unnest(p_firsts, p_lasts) AS r (first, last)) THEN RETURN; END IF;

    -- ON CONFLICT has locked the rows of the others, too. What comes now sees whatever is committed by now: each mark that has
    -- taken a place there, and so the state of its delivery.
    refused := dispatcher.take_turns(begun, lost, p_caps, p_kinds, p_firsts, p_lasts, p_deliveries, p_addresses);
    RETURN QUERY SELECT r.id, 0::smallint FROM unnest(refused) AS r (id);
END $$;

-- Forget what was counted of a person in a workspace: for the contacts with these ids, and for the addresses.
CREATE FUNCTION dispatcher.erase_counters(
    p_tenant_id text, p_workspace_id text, p_contacts bigint[], p_kinds text[], p_addresses text[]
) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM dispatcher.cap_counters k USING (
        SELECT k.cap_id, k.person
          FROM (SELECT dispatcher.cap_person(c.id, NULL, NULL) AS person FROM unnest(p_contacts) AS c (id)
                 UNION
                SELECT dispatcher.cap_person(NULL, a.kind, a.address) FROM unnest(p_kinds, p_addresses) AS a (kind, address)) AS p,
               dispatcher.caps c,
               dispatcher.cap_counters k
         WHERE c.tenant_id = p_tenant_id AND c.workspace_id = p_workspace_id AND k.cap_id = c.id AND k.person = p.person
         ORDER BY k.person, k.cap_id FOR UPDATE OF k) AS gone
     WHERE k.cap_id = gone.cap_id AND k.person = gone.person
$$;

REVOKE ALL ON FUNCTION dispatcher.put_cap, dispatcher.delete_cap, dispatcher.move_counters, dispatcher.cap_requests,
    dispatcher.take_places, dispatcher.take_turns, dispatcher.mark_capped, dispatcher.erase_counters FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.caps TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.cap_actions TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.put_cap, dispatcher.delete_cap TO dispatcher_tenant;
