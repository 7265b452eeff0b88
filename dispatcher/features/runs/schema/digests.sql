-- Digests: what runs collect by a key while a window is open.

CREATE TABLE dispatcher.digests (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_id bigint NOT NULL,
    run_id      bigint NOT NULL,
    until       timestamptz NOT NULL,
    items       integer NOT NULL DEFAULT 1,
    items_max   integer NOT NULL,
    is_open     boolean NOT NULL DEFAULT true,
    node        text NOT NULL,
    key         text NOT NULL CHECK (length(key) <= 500)
);
CREATE UNIQUE INDEX digests_open ON dispatcher.digests (workflow_id, node, key) WHERE is_open;
CREATE INDEX digests_by_run ON dispatcher.digests (run_id);

CREATE TABLE dispatcher.digest_items (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest_id bigint NOT NULL,
    run_id    bigint NOT NULL,
    item      jsonb NOT NULL
);
CREATE INDEX digest_items_by_digest ON dispatcher.digest_items (digest_id, id);
CREATE INDEX digest_items_by_run ON dispatcher.digest_items (run_id);

-- What others have left with the leader of a digest that it has not collected goes to another, which stands in for it: a run
-- as that of the oldest of them was, at the digest and nowhere else, until the same time. The leader keeps what it brought
-- itself, for the case that it is replayed.
CREATE FUNCTION dispatcher.hand_over_digests(p_run_id bigint, p_state jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digest dispatcher.digests;
    oldest dispatcher.digest_items;
    heir   bigint;
BEGIN
    FOR digest IN SELECT d.* FROM dispatcher.digests d WHERE d.run_id = p_run_id ORDER BY d.id FOR UPDATE LOOP
        UPDATE dispatcher.digests d SET is_open = false WHERE d.id = digest.id AND d.is_open;
        CONTINUE WHEN NOT coalesce(p_state -> 'cursor' ? digest.node, false);
        SELECT i.* INTO oldest FROM dispatcher.digest_items i JOIN dispatcher.runs r ON r.id = i.run_id
         WHERE i.digest_id = digest.id AND i.run_id <> p_run_id ORDER BY i.id LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        INSERT INTO dispatcher.runs (workflow_id, version_id, tenant_id, workspace_id, workflow, triggered_by, status,
                                     started_at, available_at, input, lane, state)
        SELECT r.workflow_id, r.version_id, r.tenant_id, r.workspace_id, r.workflow, 'digest of run ' || p_run_id, 'waiting',
               statement_timestamp(), digest.until, r.input, r.lane,
               jsonb_build_object('entries', 1, 'vars', coalesce(r.state -> 'vars', '{}'), 'cursor',
                   jsonb_build_object(digest.node, jsonb_build_object('standing', 'digesting',
                       'since', extract(epoch FROM statement_timestamp()), 'until', extract(epoch FROM digest.until))))
          FROM dispatcher.runs r WHERE r.id = oldest.run_id
        RETURNING id INTO heir;
        INSERT INTO dispatcher.run_entries (run_id, number, step, event, node)
        SELECT heir, 0, (v.plan -> 'nodes' -> digest.node ->> 'step')::integer, 'started', digest.node
          FROM dispatcher.runs r JOIN dispatcher.plan_versions v ON v.id = r.version_id WHERE r.id = heir;
        WITH another AS (
            INSERT INTO dispatcher.digests (workflow_id, run_id, until, items, items_max, is_open, node, key)
            SELECT digest.workflow_id, heir, digest.until, count(*), digest.items_max, digest.is_open, digest.node, digest.key
              FROM dispatcher.digest_items i WHERE i.digest_id = digest.id AND i.run_id <> p_run_id
            RETURNING id
        )
        UPDATE dispatcher.digest_items i
           SET digest_id = another.id, run_id = CASE i.run_id WHEN oldest.run_id THEN heir ELSE i.run_id END
          FROM another WHERE i.digest_id = digest.id AND i.run_id <> p_run_id;
    END LOOP;
END $$;

-- No item is left with a run that has ended before its time, and items left with it are not lost.
CREATE FUNCTION dispatcher.ended_runs_collect_no_more() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.hand_over_digests(NEW.id, NEW.state);
    RETURN NEW;
END $$;

CREATE TRIGGER ended_runs_collect_no_more BEFORE UPDATE OF status ON dispatcher.runs
    FOR EACH ROW WHEN (NEW.status IN ('failed', 'cancelled') AND OLD.status <> NEW.status)
    EXECUTE FUNCTION dispatcher.ended_runs_collect_no_more();

-- Come to a digest: the first of a key leads and collects, whoever comes while its window is open leaves its item with it.
-- A full one takes no more, so that the next one leads again.
CREATE FUNCTION dispatcher.enter_digest(
    p_workflow_id bigint, p_node text, p_key text, p_run_id bigint, p_window_seconds double precision, p_items_max integer,
    p_item jsonb, OUT leader bigint, OUT until double precision
)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digest dispatcher.digests;
BEGIN
    LOOP
        SELECT d.* INTO digest FROM dispatcher.digests d
         WHERE d.workflow_id = p_workflow_id AND d.node = p_node AND d.key = p_key AND d.is_open FOR UPDATE;
        IF FOUND AND digest.items < digest.items_max THEN
            UPDATE dispatcher.digests d SET items = d.items + 1 WHERE d.id = digest.id;
        ELSE
            UPDATE dispatcher.digests d SET is_open = false WHERE d.id = digest.id;
            INSERT INTO dispatcher.digests (workflow_id, run_id, until, items_max, node, key)
            VALUES (p_workflow_id, p_run_id, statement_timestamp() + make_interval(secs => p_window_seconds), p_items_max,
                    p_node, p_key)
            ON CONFLICT (workflow_id, node, key) WHERE is_open DO NOTHING
            RETURNING * INTO digest;
            CONTINUE WHEN NOT FOUND;
        END IF;
        INSERT INTO dispatcher.digest_items (digest_id, run_id, item) VALUES (digest.id, p_run_id, p_item);
        leader := digest.run_id;
        until := extract(epoch FROM digest.until);
        RETURN;
    END LOOP;
END $$;

-- The window of a run's digest is over: what it has collected, oldest first. Whoever comes now leads another. A run that has
-- failed just as it came to a digest comes to it again when it is replayed: what it brought counts once.
CREATE FUNCTION dispatcher.collect_digest(p_run_id bigint, p_node text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE dispatcher.digests SET is_open = false WHERE run_id = p_run_id AND node = p_node AND is_open;
    RETURN coalesce((SELECT jsonb_agg(item ORDER BY id)
                       FROM (SELECT DISTINCT ON (i.run_id) i.id, i.item
                               FROM dispatcher.digests d JOIN dispatcher.digest_items i ON i.digest_id = d.id
                              WHERE d.run_id = p_run_id AND d.node = p_node ORDER BY i.run_id, i.id) AS once), '[]');
END $$;

REVOKE ALL ON FUNCTION dispatcher.hand_over_digests, dispatcher.ended_runs_collect_no_more,
    dispatcher.enter_digest, dispatcher.collect_digest FROM PUBLIC;
