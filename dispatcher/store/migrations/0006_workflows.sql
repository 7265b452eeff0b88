-- Workflows: plans in versions that never change, and the runs that walk through them.
--
-- New in the map
--   workflows         one row a name, of a tenant and workspace: whether it takes triggers, and on which version
--   plan_versions     one row a version: the definition as it was given, and the plan that it was compiled to
--   workflow_actions  who made, activated, deactivated or deleted what, and when
--   runs              one walk through one version: its input, and its state (cursor, and what its nodes have added)
--   run_log           a view: the log of a run, with the retries of its deliveries
--   run_entries       the log of a run: one row for each thing that happened to a node, or that somebody did
--   wakes             runs of which a delivery has ended, or an event has come: notes for the walker
--   signals           events that were sent to a run
--   digests           who collects what of which key, and until when; an open one has no end
--   digest_items      what was collected
--   walks             the runs that a walker has taken up and not yet put down: who died over it is found here
--   delivery_answers  what function calls brought back
--   dead_deliveries   deliveries that have failed, and belong to no run
--   dead_letters      a view: failed runs and failed deliveries, as long as nobody has discarded them
--   run_deliveries    a view: of each run how many deliveries are queued, held, sent
--   workflow_executions  a view: runs in the words of others
--
-- A run's life
--   A trigger inserts it, due at once. A walker locks runs that are due or woken (FOR UPDATE SKIP LOCKED), notes their
--   ids on another connection, reads how their deliveries stand, decides, and writes deliveries, cursor and log in the
--   one transaction: a crash undoes all of it, and leaves the note. Whoever changes the status of a delivery that a run
--   waits for leaves a wake in the same transaction, from wherever: it is a row of its own, so that nobody who writes
--   results waits for a walker, or locks two runs in the wrong order. The walker looks at the deliveries anew each time,
--   so that one wake too many does nothing.
--
-- What a run has ordered ends with it: where it fails or is cancelled, what is queued is skipped, and what is with a provider
-- just then is not tried again (of_an_ended_run). Its digests collect no more.
--
-- Lock order: instance, then runs by id, then digests, then state rows by id. (Results never lock a run.)

ALTER TABLE dispatcher.deliveries
    ADD COLUMN node text,
    ADD COLUMN key_honoured boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT deliveries_node_is_of_a_run CHECK (node IS NULL OR run_id IS NOT NULL);
COMMENT ON COLUMN dispatcher.deliveries.node IS 'the node of its run that has ordered it; the run waits for it';
COMMENT ON COLUMN dispatcher.deliveries.key_honoured IS
    'its receiver de-duplicates by the key, though its channel does not promise it: what is unknown may be sent again';
CREATE INDEX deliveries_of_run ON dispatcher.deliveries (run_id, node) WHERE run_id IS NOT NULL;

ALTER TABLE dispatcher.delivery_state ADD COLUMN wakes bigint, ADD COLUMN held_seconds real;
COMMENT ON COLUMN dispatcher.delivery_state.wakes IS 'the run that waits for it';
COMMENT ON COLUMN dispatcher.delivery_state.held_seconds IS 'for how long it was held, now aside: no run has worked meanwhile';

ALTER TABLE dispatcher.instances ADD COLUMN wants_runs boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN dispatcher.instances.wants_runs IS 'its walker is idle: a trigger or a wake should wake it';

ALTER TABLE dispatcher.pauses DROP CONSTRAINT pauses_scope_check;
ALTER TABLE dispatcher.pauses ADD CONSTRAINT pauses_scope_check
    CHECK (scope IN ('channel', 'provider', 'tenant', 'template', 'run'));

-- Campaigns will have runs too, and both stand in deliveries.run_id.
CREATE SEQUENCE dispatcher.run_ids;

CREATE TABLE dispatcher.workflows (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    current      bigint,
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    deleted_at   timestamptz,
    latest       integer NOT NULL DEFAULT 0,
    active       boolean NOT NULL DEFAULT false,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    name         text NOT NULL,
    CONSTRAINT workflows_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$'),
    CONSTRAINT workflows_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100)
);
COMMENT ON COLUMN dispatcher.workflows.current IS 'the version that triggers run on: the newest';
CREATE UNIQUE INDEX workflows_name ON dispatcher.workflows (tenant_id, workspace_id, name) WHERE deleted_at IS NULL;

-- No foreign keys: a restore with several jobs brings tables in any order.
-- What a trigger checks stands in columns of its own: a plan of a thousand nodes is not read for it.
CREATE TABLE dispatcher.plan_versions (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_id     bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
    number          integer NOT NULL CHECK (number > 0),
    total_steps     integer NOT NULL,
    author          text NOT NULL CHECK (author <> ''),
    required_fields text[] NOT NULL,
    node_ids        text[] NOT NULL,
    reads           jsonb NOT NULL,
    templates       jsonb NOT NULL,
    definition      json NOT NULL,
    plan            json NOT NULL,
    CONSTRAINT plan_versions_number UNIQUE (workflow_id, number)
);
COMMENT ON COLUMN dispatcher.plan_versions.reads IS 'what a trigger must bring: [{"path": "order.id", "at": ["order", "id"]}]';
COMMENT ON COLUMN dispatcher.plan_versions.templates IS 'the stored templates that its nodes use, by name or by variable';
CREATE TRIGGER plan_versions_never_change BEFORE UPDATE OR DELETE OR TRUNCATE ON dispatcher.plan_versions
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.templates_never_change_v1();

CREATE TABLE dispatcher.workflow_actions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_id bigint NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    version     integer NOT NULL,
    actor       text NOT NULL CHECK (actor <> ''),
    action      text NOT NULL CHECK (action IN ('put', 'activate', 'deactivate', 'delete'))
);
CREATE INDEX workflow_actions_by_workflow ON dispatcher.workflow_actions (workflow_id, id);

-- Columns that change stand in no index but `available_at` and `finished_at`, so that most walks are HOT.
CREATE TABLE dispatcher.runs (
    id              bigint PRIMARY KEY DEFAULT nextval('dispatcher.run_ids'),
    workflow_id     bigint NOT NULL,
    version_id      bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    available_at    timestamptz,
    started_at      timestamptz,
    finished_at     timestamptz,
    paused_at       timestamptz,
    discarded_at    timestamptz,
    takes           smallint NOT NULL DEFAULT 0,
    retries         smallint NOT NULL DEFAULT 0,
    dead            boolean NOT NULL DEFAULT false,
    status          text NOT NULL DEFAULT 'pending',
    tenant_id       text NOT NULL,
    workspace_id    text NOT NULL,
    workflow        text NOT NULL,
    idempotency_key text,
    triggered_by    text NOT NULL,
    error           text,
    error_node      text,
    note            text,
    input           jsonb NOT NULL,
    state           jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT runs_status_known
        CHECK (status IN ('pending', 'running', 'waiting', 'paused', 'completed', 'failed', 'cancelled')),
    CONSTRAINT runs_end_has_time
        CHECK ((status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT runs_rest_is_rest CHECK (available_at IS NULL OR (finished_at IS NULL AND status <> 'paused')),
    CONSTRAINT runs_key_length CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    CONSTRAINT runs_input_is_object CHECK (jsonb_typeof(input) = 'object')
) WITH (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON COLUMN dispatcher.runs.available_at IS 'when a walker is to look at it without being woken; null: only when woken';
COMMENT ON COLUMN dispatcher.runs.takes IS 'how often it was taken up since it last came further: whoever took it has died';
COMMENT ON COLUMN dispatcher.runs.retries IS 'how often somebody has replayed it';
COMMENT ON COLUMN dispatcher.runs.dead IS 'it has failed, and nobody has discarded it';
COMMENT ON COLUMN dispatcher.runs.note IS 'who has paused, cancelled or discarded it, and why';

CREATE UNIQUE INDEX runs_key ON dispatcher.runs (tenant_id, workspace_id, workflow, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_due ON dispatcher.runs (available_at) WHERE available_at IS NOT NULL;
CREATE INDEX runs_open ON dispatcher.runs (workflow_id) WHERE finished_at IS NULL;
CREATE INDEX runs_suspect ON dispatcher.runs (available_at) WHERE takes > 0;
CREATE INDEX runs_dead ON dispatcher.runs (id) WHERE dead;
CREATE INDEX runs_by_workflow ON dispatcher.runs (workflow_id, id);

CREATE TABLE dispatcher.run_entries (
    run_id  bigint NOT NULL,
    number  integer NOT NULL,
    step    integer,
    at      timestamptz NOT NULL DEFAULT statement_timestamp(),
    event   text NOT NULL CHECK (event IN ('started', 'succeeded', 'failed', 'skipped', 'paused', 'resumed', 'cancelled',
                                           'replayed', 'discarded')),
    node    text,
    context jsonb,
    added   jsonb,
    error   text,
    PRIMARY KEY (run_id, number)
);
COMMENT ON COLUMN dispatcher.run_entries.context IS 'what the node saw when it began';
COMMENT ON COLUMN dispatcher.run_entries.added IS 'what it has added to that';

CREATE TABLE dispatcher.wakes (
    run_id bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX wakes_by_run ON dispatcher.wakes (run_id);

CREATE TABLE dispatcher.signals (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id bigint NOT NULL,
    at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    taken  boolean NOT NULL DEFAULT false,
    name   text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    actor  text NOT NULL,
    data   jsonb NOT NULL CHECK (jsonb_typeof(data) = 'object')
);
CREATE INDEX signals_waiting ON dispatcher.signals (run_id, id) WHERE NOT taken;

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

CREATE TABLE dispatcher.walks (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch    bigint NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_ids  bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE TABLE dispatcher.delivery_answers (
    delivery_id bigint NOT NULL,
    token       bigint NOT NULL,
    data        jsonb NOT NULL,
    PRIMARY KEY (delivery_id, token)
);

CREATE TABLE dispatcher.dead_deliveries (
    delivery_id  bigint PRIMARY KEY,
    discarded_at timestamptz,
    note         text
);
CREATE INDEX dead_deliveries_here ON dispatcher.dead_deliveries (delivery_id) WHERE discarded_at IS NULL;
INSERT INTO dispatcher.dead_deliveries (delivery_id) SELECT id FROM dispatcher.delivery_state WHERE status = 'failed';


-- As before; the state row knows which run waits for it.
CREATE FUNCTION dispatcher.deliveries_become_due_v3() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dispatcher.delivery_state
           (id, channel, lane, run_at, expires_at, ready, held, token, held_at, settle_after, error, wakes)
    SELECT id, channel, lane, scheduled_for, expires_at, NOT copied, copied,
           CASE WHEN copied THEN 0 END, CASE WHEN copied THEN statement_timestamp() END,
           CASE WHEN copied THEN statement_timestamp() END,
           CASE WHEN copied THEN 'quarantined: created_at was given, as in a copy of one that may have been sent' END,
           CASE WHEN node IS NOT NULL THEN run_id END
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
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.deliveries_become_due_v3();

CREATE FUNCTION dispatcher.wake_run_v1(p_run_id bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dispatcher.wakes (run_id) VALUES (p_run_id);
    IF EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN PERFORM pg_notify('dispatcher_runs', ''); END IF;
END $$;

-- As before; the run that waits for it is told.
CREATE FUNCTION dispatcher.deliveries_without_template_v2() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Out of a dump: its own state follows.
    IF NEW.created_at < now() - interval '1 minute' THEN RETURN NULL; END IF;
    INSERT INTO dispatcher.delivery_state (id, channel, lane, run_at, expires_at, ready, status, finished_at, error, wakes)
    VALUES (NEW.id, NEW.channel, NEW.lane, NEW.scheduled_for, NEW.expires_at, false, 'failed', statement_timestamp(),
            'template_name: ' || coalesce(dispatcher.template_fault_v1(NEW.tenant_id, NEW.workspace_id, NEW.template_name,
                                                                       NEW.channel), 'was published too late'),
            CASE WHEN NEW.node IS NOT NULL THEN NEW.run_id END);
    IF NEW.node IS NOT NULL THEN
        PERFORM dispatcher.wake_run_v1(NEW.run_id);
    ELSE
        INSERT INTO dispatcher.dead_deliveries (delivery_id) VALUES (NEW.id);
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER deliveries_without_template ON dispatcher.deliveries;
CREATE TRIGGER deliveries_without_template AFTER INSERT ON dispatcher.deliveries
    FOR EACH ROW WHEN (NEW.template IS NULL AND NEW.template_version IS NULL)
    EXECUTE FUNCTION dispatcher.deliveries_without_template_v2();

-- Whatever ends a delivery, or begins it anew, wakes the run that waits for it. It comes after `unknown_is_no_end`, by its
-- name. (BEFORE, since an AFTER trigger makes Postgres fetch every old row again, also where its condition is false.)
CREATE FUNCTION dispatcher.wakes_its_run_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Begun anew, it has all of its time again.
    IF NEW.status = 'queued' THEN NEW.held_seconds := NULL; END IF;
    PERFORM dispatcher.wake_run_v1(NEW.wakes);
    RETURN NEW;
END $$;

CREATE TRIGGER wakes_its_run BEFORE UPDATE OF status ON dispatcher.delivery_state
    FOR EACH ROW WHEN (NEW.wakes IS NOT NULL AND OLD.status <> NEW.status)
    EXECUTE FUNCTION dispatcher.wakes_its_run_v1();

-- Whoever settles it forgets since when it was held; the clock of its run does not.
CREATE FUNCTION dispatcher.held_time_is_kept_v1() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.held_seconds := coalesce(OLD.held_seconds, 0) + extract(epoch FROM statement_timestamp() - OLD.held_at);
    RETURN NEW;
END $$;

CREATE TRIGGER held_time_is_kept BEFORE UPDATE OF held_at ON dispatcher.delivery_state
    FOR EACH ROW WHEN (NEW.wakes IS NOT NULL AND OLD.held_at IS NOT NULL AND NEW.held_at IS NULL)
    EXECUTE FUNCTION dispatcher.held_time_is_kept_v1();

-- A run that has failed or was cancelled sends nothing more: what would become ready again, after an attempt that was under
-- way when it ended, is skipped, or held where an attempt is unknown. Whoever ends a run holds the state rows of what is
-- under way until that is committed, so that none slips through in between. An operator who reopens one means it.
CREATE FUNCTION dispatcher.of_an_ended_run_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run record;
BEGIN
    SELECT r.status, r.finished_at INTO run FROM dispatcher.runs r WHERE r.id = NEW.wakes AND r.status IN ('failed', 'cancelled');
    IF NOT FOUND OR current_setting('dispatcher.reopening', true) = NEW.id::text
       OR EXISTS (SELECT FROM dispatcher.operator_actions o
                   WHERE o.delivery_id = NEW.id AND o.action = 'reopen' AND o.at > run.finished_at) THEN
        RETURN NEW;
    END IF;
    NEW.ready := false;
    -- An attempt that is kept nowhere else stands on the row.
    IF OLD.marked AND NEW.attempt = OLD.attempt AND NOT EXISTS (
        SELECT FROM dispatcher.delivery_attempts a WHERE a.delivery_id = NEW.id AND a.attempt = OLD.attempt) THEN
        NEW.marked := true;
        NEW.token := OLD.token;
    END IF;
    IF NEW.resend_until IS NULL AND NOT EXISTS (
        SELECT FROM dispatcher.delivery_attempts a WHERE a.delivery_id = NEW.id AND a.outcome = 'unknown') THEN
        NEW.status := 'skipped';
        NEW.finished_at := statement_timestamp();
        NEW.error := concat_ws('; ', 'cancelled: its run ' || CASE run.status WHEN 'failed' THEN 'has failed' ELSE 'was cancelled' END,
                               NEW.error);
    ELSE
        NEW.held := true;
        NEW.held_at := statement_timestamp();
        NEW.token := coalesce(NEW.token, 0);
        NEW.error := concat_ws('; ', 'unknown: an earlier attempt may have gone out, and its run has ended', NEW.error);
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER of_an_ended_run BEFORE UPDATE OF ready ON dispatcher.delivery_state
    FOR EACH ROW WHEN (NEW.wakes IS NOT NULL AND NEW.ready AND NOT OLD.ready)
    EXECUTE FUNCTION dispatcher.of_an_ended_run_v1();

-- What has failed stands in a list of its own: an index over `status` would make every flush write to all indexes.
CREATE FUNCTION dispatcher.the_dead_are_listed_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.status = 'failed' THEN
        INSERT INTO dispatcher.dead_deliveries (delivery_id) VALUES (NEW.id)
        ON CONFLICT (delivery_id) DO UPDATE SET discarded_at = NULL, note = NULL;
    ELSE
        DELETE FROM dispatcher.dead_deliveries WHERE delivery_id = NEW.id;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER z_the_dead_are_listed BEFORE UPDATE OF status ON dispatcher.delivery_state
    FOR EACH ROW WHEN (NEW.wakes IS NULL AND OLD.status <> NEW.status AND (OLD.status = 'failed' OR NEW.status = 'failed'))
    EXECUTE FUNCTION dispatcher.the_dead_are_listed_v1();

-- As before, with what belongs to them now.
CREATE FUNCTION dispatcher.deliveries_go_whole_v2() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unfinished bigint;
BEGIN
    SELECT s.id INTO unfinished FROM gone g JOIN dispatcher.delivery_state s USING (id) WHERE s.status = 'queued' LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'delivery % is not finished', unfinished
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Cancel it first.';
    END IF;
    DELETE FROM dispatcher.delivery_state s USING gone g WHERE s.id = g.id;
    DELETE FROM dispatcher.delivery_attempts a USING gone g WHERE a.delivery_id = g.id;
    DELETE FROM dispatcher.delivery_evidence e USING gone g WHERE e.delivery_id = g.id;
    DELETE FROM dispatcher.reopened_ends r USING gone g WHERE r.delivery_id = g.id;
    DELETE FROM dispatcher.captured_messages m USING gone g WHERE m.delivery_id = g.id;
    DELETE FROM dispatcher.delivery_answers a USING gone g WHERE a.delivery_id = g.id;
    DELETE FROM dispatcher.dead_deliveries d USING gone g WHERE d.delivery_id = g.id;
    RETURN NULL;
END $$;

DROP TRIGGER deliveries_go_whole ON dispatcher.deliveries;
CREATE TRIGGER deliveries_go_whole AFTER DELETE ON dispatcher.deliveries
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.deliveries_go_whole_v2();


-- A run that was not created by the transaction that inserts it comes out of a dump: it may have come further since.
CREATE FUNCTION dispatcher.copied_runs_rest_v1() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.status := 'paused';
    NEW.available_at := NULL;
    NEW.paused_at := statement_timestamp();
    NEW.note := 'quarantined: created_at was given, as in a copy of one that may have come further';
    RETURN NEW;
END $$;

CREATE TRIGGER copied_runs_rest BEFORE INSERT ON dispatcher.runs
    FOR EACH ROW WHEN (NEW.created_at <> now() AND NEW.finished_at IS NULL)
    EXECUTE FUNCTION dispatcher.copied_runs_rest_v1();


-- What others have left with the leader of a digest that it has not collected goes to another, which stands in for it: a run
-- as that of the oldest of them was, at the digest and nowhere else, until the same time. The leader keeps what it brought
-- itself, for the case that it is replayed.
CREATE FUNCTION dispatcher.hand_over_digests_v1(p_run_id bigint, p_state jsonb) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digest dispatcher.digests;
    oldest dispatcher.digest_items;
    heir   bigint;
    passed bigint := 0;
BEGIN
    FOR digest IN SELECT d.* FROM dispatcher.digests d WHERE d.run_id = p_run_id ORDER BY d.id FOR UPDATE LOOP
        UPDATE dispatcher.digests d SET is_open = false WHERE d.id = digest.id AND d.is_open;
        CONTINUE WHEN NOT coalesce(p_state -> 'cursor' ? digest.node, false);
        SELECT i.* INTO oldest FROM dispatcher.digest_items i JOIN dispatcher.runs r ON r.id = i.run_id
         WHERE i.digest_id = digest.id AND i.run_id <> p_run_id ORDER BY i.id LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        INSERT INTO dispatcher.runs (workflow_id, version_id, tenant_id, workspace_id, workflow, triggered_by, status,
                                     started_at, available_at, input, state)
        SELECT r.workflow_id, r.version_id, r.tenant_id, r.workspace_id, r.workflow, 'digest of run ' || p_run_id, 'waiting',
               statement_timestamp(), digest.until, r.input,
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
        passed := passed + 1;
    END LOOP;
    RETURN passed;
END $$;

-- Nobody leaves an item with a run that has ended before its time, and what was left with it is not lost.
CREATE FUNCTION dispatcher.ended_runs_collect_no_more_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.hand_over_digests_v1(NEW.id, NEW.state);
    RETURN NEW;
END $$;

CREATE TRIGGER ended_runs_collect_no_more BEFORE UPDATE OF status ON dispatcher.runs
    FOR EACH ROW WHEN (NEW.status IN ('failed', 'cancelled') AND OLD.status <> NEW.status)
    EXECUTE FUNCTION dispatcher.ended_runs_collect_no_more_v1();


-- Come to a digest: the first of a key leads and collects, whoever comes while its window is open leaves its item with it.
-- A full one takes no more, so that the next one leads again.
CREATE FUNCTION dispatcher.enter_digest_v1(
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
CREATE FUNCTION dispatcher.collect_digest_v1(p_run_id bigint, p_node text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE dispatcher.digests SET is_open = false WHERE run_id = p_run_id AND node = p_node AND is_open;
    RETURN coalesce((SELECT jsonb_agg(item ORDER BY id)
                       FROM (SELECT DISTINCT ON (i.run_id) i.id, i.item
                               FROM dispatcher.digests d JOIN dispatcher.digest_items i ON i.digest_id = d.id
                              WHERE d.run_id = p_run_id AND d.node = p_node ORDER BY i.run_id, i.id) AS once), '[]');
END $$;


REVOKE ALL ON FUNCTION dispatcher.deliveries_become_due_v3, dispatcher.wake_run_v1, dispatcher.deliveries_without_template_v2,
    dispatcher.wakes_its_run_v1, dispatcher.of_an_ended_run_v1, dispatcher.the_dead_are_listed_v1,
    dispatcher.deliveries_go_whole_v2, dispatcher.copied_runs_rest_v1, dispatcher.hand_over_digests_v1,
    dispatcher.ended_runs_collect_no_more_v1,
    dispatcher.enter_digest_v1, dispatcher.collect_digest_v1 FROM PUBLIC;
