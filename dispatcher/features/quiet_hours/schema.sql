-- Quiet hours: when a workspace writes to nobody, by channel, and what was moved because of it.
--
-- The map
--   quiet_hours          the rules of a workspace: one of a channel, or '' of all channels that have none of their own
--   quiet_hours_ended    versions of rules that hold no more, until what they have moved is due again
--   quiet_hours_actions  who saved or deleted which, and when
--   moved_deliveries     what a version has moved, from when to when
--
-- A rule gets another version each time it is saved. A delivery is moved under a version that holds, whose row stays locked
-- FOR KEY SHARE meanwhile: so whoever saves or deletes a rule waits for moves under way, and what comes later is decided anew.
-- Then what the ended version has moved is due at its first time again, page by page (free_moved).
--
-- Lock order: the rule, then state rows by id.

CREATE TABLE dispatcher.quiet_hours (
    version      bigint GENERATED ALWAYS AS IDENTITY,
    updated_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    channel      text NOT NULL,
    updated_by   text NOT NULL CHECK (updated_by <> ''),
    quiet        jsonb NOT NULL,
    windows      jsonb NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, channel),
    CONSTRAINT quiet_hours_version UNIQUE (version),
    CONSTRAINT quiet_hours_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT quiet_hours_channel_name CHECK (channel ~ '^([a-z][a-z0-9_]{0,31})?$'),
    CONSTRAINT quiet_hours_are_lists CHECK (jsonb_typeof(quiet) = 'array' AND jsonb_typeof(windows) = 'array'),
    CONSTRAINT quiet_hours_say_something CHECK (quiet <> '[]' OR windows <> '[]')
);
COMMENT ON COLUMN dispatcher.quiet_hours.quiet IS
    'when nothing is sent: [{"from": "21:00", "to": "08:00", "days": ["mon"]}], the days on which it begins';
COMMENT ON COLUMN dispatcher.quiet_hours.windows IS 'alike; where there are any, nothing is sent outside them';
CALL dispatcher.isolate('dispatcher.quiet_hours');

CREATE TABLE dispatcher.quiet_hours_ended (
    version      bigint PRIMARY KEY,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL
);
CALL dispatcher.isolate('dispatcher.quiet_hours_ended', p_records => true);

CREATE TABLE dispatcher.quiet_hours_actions (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT statement_timestamp(),
    version      bigint NOT NULL,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    channel      text NOT NULL,
    action       text NOT NULL CHECK (action IN ('put', 'delete')),
    actor        text NOT NULL CHECK (actor <> '')
);
CREATE INDEX quiet_hours_actions_by_time ON dispatcher.quiet_hours_actions (tenant_id, workspace_id, at, id);
CALL dispatcher.isolate('dispatcher.quiet_hours_actions', p_records => true);

CREATE TABLE dispatcher.moved_deliveries (
    delivery_id bigint PRIMARY KEY,
    version     bigint NOT NULL,
    moved_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    due_at      timestamptz NOT NULL,
    run_at      timestamptz NOT NULL,
    reason      text NOT NULL
);
COMMENT ON COLUMN dispatcher.moved_deliveries.due_at IS 'when it was due before it was moved';
COMMENT ON COLUMN dispatcher.moved_deliveries.run_at IS 'when it is due since; it waits for that as long as its state row says so';
CREATE INDEX moved_deliveries_of_version ON dispatcher.moved_deliveries (version, run_at);
CALL dispatcher.isolate('dispatcher.moved_deliveries', 'delivery_id', 'dispatcher.deliveries');

-- Save the rule of a channel. Answers created, changed or same.
CREATE FUNCTION dispatcher.put_quiet_hours(
    p_tenant_id text, p_workspace_id text, p_channel text, p_quiet jsonb, p_windows jsonb, p_actor text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was dispatcher.quiet_hours;
    now bigint;
BEGIN
    LOOP
        SELECT q.* INTO was FROM dispatcher.quiet_hours q
         WHERE q.tenant_id = p_tenant_id AND q.workspace_id = p_workspace_id AND q.channel = p_channel FOR UPDATE;
        IF (was.quiet, was.windows) = (p_quiet, p_windows) THEN RETURN 'same'; END IF;
        IF was.version IS NULL THEN
            INSERT INTO dispatcher.quiet_hours (tenant_id, workspace_id, channel, quiet, windows, updated_by)
            VALUES (p_tenant_id, p_workspace_id, p_channel, p_quiet, p_windows, p_actor)
            ON CONFLICT ON CONSTRAINT quiet_hours_pkey DO NOTHING RETURNING version INTO now;
        ELSE
            UPDATE dispatcher.quiet_hours q
               SET version = DEFAULT, quiet = p_quiet, windows = p_windows, updated_by = p_actor,
                   updated_at = statement_timestamp()
             WHERE q.version = was.version RETURNING q.version INTO now;
        END IF;
        -- Again, where another transaction has saved the first one meanwhile.
        EXIT WHEN now IS NOT NULL;
    END LOOP;
    PERFORM dispatcher.note_quiet_hours(p_tenant_id, p_workspace_id, p_channel, 'put', p_actor, now, was.version);
    RETURN CASE WHEN was.version IS NULL THEN 'created' ELSE 'changed' END;
END $$;

-- Delete the rule of a channel. False where there is none.
CREATE FUNCTION dispatcher.delete_quiet_hours(p_tenant_id text, p_workspace_id text, p_channel text, p_actor text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was bigint;
BEGIN
    DELETE FROM dispatcher.quiet_hours q
     WHERE q.tenant_id = p_tenant_id AND q.workspace_id = p_workspace_id AND q.channel = p_channel
    RETURNING q.version INTO was;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM dispatcher.note_quiet_hours(p_tenant_id, p_workspace_id, p_channel, 'delete', p_actor, was, was);
    RETURN true;
END $$;

-- Write down what was done, and end a version.
CREATE FUNCTION dispatcher.note_quiet_hours(
    p_tenant_id text, p_workspace_id text, p_channel text, p_action text, p_actor text, p_version bigint, p_ended bigint
) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO dispatcher.quiet_hours_actions (tenant_id, workspace_id, channel, action, actor, version)
    VALUES (p_tenant_id, p_workspace_id, p_channel, p_action, p_actor, p_version);
    INSERT INTO dispatcher.quiet_hours_ended (version, tenant_id, workspace_id)
    SELECT p_ended, p_tenant_id, p_workspace_id WHERE p_ended IS NOT NULL;
    SELECT pg_notify('dispatcher_policies', '');
$$;

-- Move claimed deliveries that are still ours and not marked, under versions of rules that still hold. Answers those that
-- need no other end: moved, or not ours any more. The others go back, and are decided anew.
-- What was throttled before begins that anew: only what was throttled all the time for a day is given up.
CREATE FUNCTION dispatcher.move_for_quiet_hours(
    p_ids bigint[], p_tokens bigint[], p_versions bigint[], p_run_ats timestamptz[], p_reasons text[]
) RETURNS TABLE (delivery_id bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    standing CONSTANT bigint[] := ARRAY(
        SELECT q.version FROM dispatcher.quiet_hours q WHERE q.version = ANY (p_versions) ORDER BY q.version FOR KEY SHARE);
    moved bigint[];
BEGIN
    WITH asked AS MATERIALIZED (
        SELECT r.*, false AS marked, 'queued' AS status
          FROM unnest(p_ids, p_tokens, p_versions, p_run_ats, p_reasons) AS r (id, token, version, run_at, reason)
         WHERE r.version = ANY (standing)
    ), before AS MATERIALIZED (
        SELECT s.id, s.run_at AS due_at, a.run_at, a.version, a.reason
          FROM dispatcher.delivery_state s JOIN asked a
            ON s.id = a.id AND s.token = a.token AND s.marked = a.marked AND s.status = a.status
         ORDER BY s.id FOR UPDATE OF s
    ), kept AS (
        INSERT INTO dispatcher.moved_deliveries AS m (delivery_id, version, due_at, run_at, reason)
        SELECT b.id, b.version, b.due_at, b.run_at, b.reason FROM before b
        -- One that comes back from a move is moved on; any other time is somebody's wish.
        ON CONFLICT ON CONSTRAINT moved_deliveries_pkey DO UPDATE
           SET version = excluded.version, moved_at = excluded.moved_at, run_at = excluded.run_at, reason = excluded.reason,
               due_at = CASE WHEN m.run_at = excluded.due_at THEN m.due_at ELSE excluded.due_at END
    ), gone AS (
        UPDATE dispatcher.delivery_state s SET ready = true, token = NULL, run_at = b.run_at, throttled_since = NULL
          FROM before b WHERE s.id = b.id
        RETURNING s.id
    )
    SELECT coalesce(array_agg(g.id), '{}') INTO moved FROM gone g;
    RETURN QUERY
    SELECT a.id FROM unnest(p_ids, p_tokens) AS a (id, token)
     WHERE a.id = ANY (moved)
        OR NOT EXISTS (SELECT FROM dispatcher.delivery_state s WHERE s.id = a.id AND s.token = a.token);
END $$;

-- Make up to p_page deliveries due at their first time that a version has moved which holds no more. Answers how many.
CREATE FUNCTION dispatcher.free_moved(p_page integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended bigint := (SELECT e.version FROM dispatcher.quiet_hours_ended e ORDER BY e.version LIMIT 1);
    freed bigint;
BEGIN
    IF ended IS NULL THEN RETURN 0; END IF;
    PERFORM FROM dispatcher.quiet_hours_ended e WHERE e.version = ended FOR UPDATE;
    WITH moved AS MATERIALIZED (
        SELECT m.delivery_id, m.due_at, m.run_at FROM dispatcher.moved_deliveries m
         WHERE m.version = ended AND m.run_at > statement_timestamp()
         ORDER BY m.delivery_id LIMIT p_page
    ), waiting AS MATERIALIZED (
        SELECT s.id, m.due_at FROM dispatcher.delivery_state s JOIN moved m ON m.delivery_id = s.id
         WHERE s.ready AND s.run_at = m.run_at ORDER BY s.id FOR UPDATE OF s
    ), due AS (
        UPDATE dispatcher.delivery_state s SET run_at = w.due_at FROM waiting w WHERE s.id = w.id
    ), forgotten AS (
        DELETE FROM dispatcher.moved_deliveries m USING moved o WHERE m.delivery_id = o.delivery_id AND m.version = ended
           -- State rows are locked first, as by a move.
           AND (SELECT count(*) FROM waiting) >= 0
        RETURNING 1
    )
    SELECT count(*) INTO freed FROM forgotten;
    IF freed < p_page THEN DELETE FROM dispatcher.quiet_hours_ended e WHERE e.version = ended; END IF;
    IF freed > 0 THEN PERFORM pg_notify('dispatcher_work', ''); END IF;
    -- Another version may have ended as well.
    RETURN CASE WHEN EXISTS (SELECT FROM dispatcher.quiet_hours_ended) THEN p_page ELSE freed END;
END $$;

REVOKE ALL ON FUNCTION dispatcher.put_quiet_hours, dispatcher.delete_quiet_hours, dispatcher.note_quiet_hours,
    dispatcher.move_for_quiet_hours, dispatcher.free_moved FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.quiet_hours TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.quiet_hours_ended, dispatcher.quiet_hours_actions TO dispatcher_tenant;
GRANT SELECT ON dispatcher.moved_deliveries TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.put_quiet_hours, dispatcher.delete_quiet_hours, dispatcher.note_quiet_hours TO dispatcher_tenant;
