-- Runs: walks through the plan of a workflow.
--
-- The map
--   runs              one walk through one version: its input, and its state (cursor, and what its nodes have added); that of
--                     a contact through a sequence is an enrolment
--   run_entries       the log of a run: one row for each thing that happened to a node, or that an operator did
--   wakes             runs of which a delivery has ended, or an event has come: notes for the walker
--   signals           events that were sent to a run
--   walks             the runs that a walker has taken up and not yet put down: which run killed its walker is found here
--   delivery_answers  what function calls returned
--   digests           the collecting run of each key, and its end; an open one has no end (digests.sql)
--   digest_items      what was collected (digests.sql)
--   run_log           a view: the log of a run, with the retries of its deliveries (views.sql)
--   run_deliveries    a view: of each run how many deliveries are queued, held, sent (views.sql)
--
-- A run's life
--   A trigger inserts it, due at once. A walker locks runs that are due or woken (FOR UPDATE SKIP LOCKED), notes their
--   ids on another connection, reads how their deliveries stand, decides, and writes deliveries, cursor and log in the
--   one transaction: a crash undoes all of it, and leaves the note. Whatever changes the status of a delivery that a run
--   waits for leaves a wake in the same transaction: it is a row of its own, so that a flush never waits for a walker, or
--   locks two runs in the wrong order. The walker looks at the deliveries anew each time, so that one wake too many does
--   nothing.
--
--   An enrolment has no input: its contact is looked up at each walk, and where the contact is gone it is cancelled. It never
--   fails: where a workflow's run would, it is paused with the error, and goes on from there when somebody resumes it. While
--   its sequence is paused, walkers park what is due (parked_by, without available_at), and the end of the pause makes that
--   due again, page by page. Steps of later days move by the length of the pause: a walk adds it to the anchor when the
--   enrolment is next due, so that neither a pause nor its end touches enrolments that wait.
--
--   Where all that can follow a step is known when it is ordered (the day of the next one, or the end), the walk writes it into
--   the state (`then`). When the step was sent, one statement moves up to a batch of enrolments on so, and no walk takes them up a second
--   time. A step that was not sent, and a pause since it was ordered, leave it to a walk.
--
-- Lock order: instance, then runs by id, then digests, then state rows by id. (Results never lock a run.)

-- Campaigns will have runs too, and both stand in deliveries.run_id.
CREATE SEQUENCE dispatcher.run_ids;

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
    slow            boolean NOT NULL DEFAULT false,
    lane            smallint NOT NULL DEFAULT 1,
    contact_id      bigint,
    anchor          timestamptz,
    parked_by       bigint,
    traceparent     text,
    CONSTRAINT runs_lane_known CHECK (lane BETWEEN 0 AND 2),
    CONSTRAINT runs_enrolment_has_anchor CHECK ((contact_id IS NULL) = (anchor IS NULL)),
    CONSTRAINT runs_status_known
        CHECK (status IN ('pending', 'running', 'waiting', 'paused', 'completed', 'failed', 'cancelled')),
    CONSTRAINT runs_end_has_time
        CHECK ((status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT runs_rest_is_rest CHECK (available_at IS NULL OR (finished_at IS NULL AND status <> 'paused')),
    CONSTRAINT runs_key_length CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    CONSTRAINT runs_traceparent_form
        CHECK (traceparent ~ '^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$'),
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
COMMENT ON COLUMN dispatcher.runs.slow IS 'its next walk is for the worker process';
COMMENT ON COLUMN dispatcher.runs.lane IS '0 transactional, 1 normal, 2 bulk: a walk takes a share of each';
COMMENT ON COLUMN dispatcher.runs.contact_id IS 'it is an enrolment of this contact, and its workflow a sequence';
COMMENT ON COLUMN dispatcher.runs.anchor IS 'of an enrolment: the time that the days of its steps are counted from';
COMMENT ON COLUMN dispatcher.runs.traceparent IS 'the trace of whoever triggered it (W3C): its deliveries have it too';
COMMENT ON COLUMN dispatcher.runs.parked_by IS 'the pause of its sequence that it was due in: it is due again when that ends';
CREATE UNIQUE INDEX runs_key ON dispatcher.runs (tenant_id, workspace_id, workflow, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_due ON dispatcher.runs (lane, available_at) WHERE available_at IS NOT NULL;
CREATE INDEX runs_open ON dispatcher.runs (workflow_id) WHERE finished_at IS NULL;
CREATE INDEX runs_suspect ON dispatcher.runs (available_at) WHERE takes > 0;
CREATE INDEX runs_dead ON dispatcher.runs (id) WHERE dead;
CREATE INDEX runs_by_workflow ON dispatcher.runs (workflow_id, id);
-- A contact is in a sequence once at a time.
CREATE UNIQUE INDEX runs_enrolled ON dispatcher.runs (contact_id, workflow_id)
    WHERE contact_id IS NOT NULL AND finished_at IS NULL;
CREATE INDEX runs_parked ON dispatcher.runs (parked_by, id) WHERE parked_by IS NOT NULL;
-- Slow runs are taken tenant by tenant.
CREATE INDEX runs_slow ON dispatcher.runs (tenant_id, available_at) WHERE slow AND available_at IS NOT NULL;
CALL dispatcher.isolate('dispatcher.runs');

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
-- Of what is in the logs of runs, what people did.
CREATE INDEX run_entries_by_people ON dispatcher.run_entries (at, run_id)
    WHERE event IN ('paused', 'resumed', 'cancelled', 'replayed', 'discarded');
CALL dispatcher.isolate('dispatcher.run_entries', 'run_id', 'dispatcher.runs');

-- The number only makes a key, which logical replication needs. Each session takes 50 at a time: so it costs nothing
-- (6.6 microseconds a row without it, 6.1 with it, 7.6 where each is taken alone).
-- A wake has the lane of what has ended: wakes of a wave of enrolments are taken beside others, not before them.
CREATE TABLE dispatcher.wakes (
    run_id bigint NOT NULL,
    id     bigint GENERATED ALWAYS AS IDENTITY (CACHE 50),
    lane   smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (lane, run_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

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

CREATE TABLE dispatcher.walks (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch    bigint NOT NULL,
    hand     smallint NOT NULL DEFAULT 0,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_ids  bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE TABLE dispatcher.delivery_answers (
    delivery_id bigint NOT NULL,
    token       bigint NOT NULL,
    data        jsonb NOT NULL,
    PRIMARY KEY (delivery_id, token)
);
CALL dispatcher.isolate('dispatcher.delivery_answers', 'delivery_id', 'dispatcher.deliveries');

-- Wakes of one statement notify once, and only where an idle walker wants it.
CREATE FUNCTION dispatcher.wakes_notify() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM fresh) AND EXISTS (SELECT FROM dispatcher.instances WHERE wants_runs) THEN
        PERFORM pg_notify('dispatcher_runs', '');
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER wakes_notify AFTER INSERT ON dispatcher.wakes
    REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.wakes_notify();

CREATE FUNCTION dispatcher.wake_run(p_run_id bigint, p_lane smallint DEFAULT 0) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dispatcher.wakes (run_id, lane) VALUES (p_run_id, p_lane);
END $$;

-- Whatever ends a delivery, or begins it anew, wakes the run that waits for it. It comes after `unknown_is_no_end`, by its
-- name. (BEFORE, since an AFTER trigger makes Postgres fetch every old row again, also where its condition is false.) A flush
-- wakes by itself, all runs at once.
CREATE FUNCTION dispatcher.wakes_its_run() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Begun anew, it has all of its time again.
    IF NEW.status = 'queued' THEN NEW.held_seconds := NULL; END IF;
    PERFORM dispatcher.wake_run(NEW.wakes, NEW.lane);
    RETURN NEW;
END $$;

CREATE TRIGGER wakes_its_run BEFORE UPDATE OF status ON dispatcher.delivery_state
    FOR EACH ROW WHEN (NEW.wakes IS NOT NULL AND OLD.status <> NEW.status
                       AND current_setting('dispatcher.flushing', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION dispatcher.wakes_its_run();

-- Whoever settles it forgets since when it was held; the clock of its run does not.
CREATE FUNCTION dispatcher.held_time_is_kept() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.held_seconds := coalesce(OLD.held_seconds, 0) + extract(epoch FROM statement_timestamp() - OLD.held_at);
    RETURN NEW;
END $$;

CREATE TRIGGER held_time_is_kept BEFORE UPDATE OF held_at ON dispatcher.delivery_state
    FOR EACH ROW WHEN (NEW.wakes IS NOT NULL AND OLD.held_at IS NOT NULL AND NEW.held_at IS NULL)
    EXECUTE FUNCTION dispatcher.held_time_is_kept();

-- A run that has failed or was cancelled sends nothing more: what would become ready again, after an attempt that was under
-- way when it ended, is skipped, or held where an attempt is unknown. Whoever ends a run holds the state rows of what is
-- under way until that is committed, so that none slips through in between. An operator who reopens one means it.
CREATE FUNCTION dispatcher.of_an_ended_run() RETURNS trigger
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
    EXECUTE FUNCTION dispatcher.of_an_ended_run();

-- A run that was not created by the transaction that inserts it comes out of a dump: it may have come further since.
CREATE FUNCTION dispatcher.copied_runs_rest() RETURNS trigger
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
    EXECUTE FUNCTION dispatcher.copied_runs_rest();

REVOKE ALL ON FUNCTION dispatcher.wakes_notify, dispatcher.wake_run, dispatcher.wakes_its_run, dispatcher.of_an_ended_run,
    dispatcher.copied_runs_rest FROM PUBLIC;
-- To lock them: what is written is written by functions of the owner.
GRANT SELECT, UPDATE (id) ON dispatcher.runs TO dispatcher_tenant;
GRANT SELECT ON dispatcher.run_entries, dispatcher.delivery_answers TO dispatcher_tenant;
