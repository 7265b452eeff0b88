-- Campaigns: one message to many contacts, with a ledger of one row for each.
--
-- The map
--   campaigns             what to send to whom: a definition by name, which may change while none of its runs is open
--   campaign_runs         one deployment: everything frozen, its flags (paused, cancelled), its counters
--   job_queue             up to 1,000 contacts of a run, as an array of ids; its counters
--   deliveries            one row for each contact, with run_id, job_id and contact_id (engine)
--   job_results           what has become of deliveries of jobs, not counted yet (engine)
--   campaign_run_reasons  why deliveries of a run have failed or were skipped, counted by reason
--   campaign_events       every transition of runs and jobs, and what operators did; campaign_audit_log shows it with the
--                         history of the deliveries
--   campaign_actions      who saved or deleted which campaign
--
-- A run's life
--   deploy_campaign writes the run (queued) and its jobs in the caller's transaction, and nothing else. An expander locks a
--   job (locked, attempts + 1) in one transaction, and writes its deliveries and expanded_at in another: a job has all of
--   its deliveries or none. A lock whose owner is dead is taken back after a time, as long as expanded_at is null; after
--   the third such attempt the job is dead, and its deliveries are written as failed. It is expanded just in time: a run
--   has a bounded number of deliveries that have neither ended nor are deferred.
--
--   What becomes of a delivery is appended to job_results in the transaction in which it happens, and never updates a job
--   there: an application that keeps a job's row locked would stop every channel. The closer takes those rows, adds them to
--   the counters of jobs and runs, and derives the statuses from the counters alone. A job is done when as many
--   deliveries have ended as it has contacts, and open again where one of them is reopened. A held delivery has not ended.
--
--   job  completed  every delivery was sent, or skipped for a good reason (suppressed, unsubscribed, no address,
--                   duplicate, contact gone)
--        failed     none was
--        partial    some were; the others have failed, were cancelled, or have expired
--        dead       it could not be expanded; its deliveries have failed
--   run  completed  all jobs are completed
--        failed     none is completed or partial
--        partial    otherwise. A run of which deliveries were skipped since it was cancelled is partial if anything was
--                   sent, else failed.
--
-- Pause and cancel are flags on the run, and a row in `pauses`, which stops the marks; the rate and the window are read by
-- the senders as well. What is left of a cancelled run is skipped in pages.
--
-- Lock order: instance, then runs, then jobs. The closer takes only what is not locked, and an expander waits for a run for a
-- moment only: whoever gives up a job has its row already.

CREATE TABLE dispatcher.campaigns (
    id            text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    version       integer NOT NULL DEFAULT 1,
    lane          smallint NOT NULL DEFAULT 2,
    rate          double precision,
    tenant_id     text NOT NULL,
    workspace_id  text NOT NULL,
    name          text COLLATE "C" NOT NULL,
    channel       text NOT NULL,
    template_name text NOT NULL,
    variables     jsonb NOT NULL DEFAULT '{}',
    audience      jsonb NOT NULL,
    topic         text,
    send_window   jsonb,
    updated_by    text NOT NULL CHECK (updated_by <> ''),
    CONSTRAINT campaigns_name UNIQUE (tenant_id, workspace_id, name),
    CONSTRAINT campaigns_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    CONSTRAINT campaigns_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT campaigns_lane_known CHECK (lane BETWEEN 0 AND 2),
    CONSTRAINT campaigns_rate_positive CHECK (rate > 0),
    CONSTRAINT campaigns_channel_name CHECK (channel ~ '^[a-z][a-z0-9_]{0,31}$'),
    CONSTRAINT campaigns_variables_is_object CHECK (jsonb_typeof(variables) = 'object'),
    CONSTRAINT campaigns_topic_name CHECK (topic ~ '^[a-z0-9][a-z0-9._-]{0,63}$')
);
COMMENT ON COLUMN dispatcher.campaigns.rate IS 'messages a second, of all replicas together; null: as fast as the channel goes';
COMMENT ON COLUMN dispatcher.campaigns.send_window IS
    'when it may send: {"from": "09:00", "to": "18:00", "days": ["mon"], "time_zone": "Europe/Berlin"}';
CALL dispatcher.isolate('dispatcher.campaigns');

CREATE TABLE dispatcher.campaign_runs (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scheduled_for    timestamptz NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    started_at       timestamptz,
    finished_at      timestamptz,
    paused_at        timestamptz,
    cancelled_at     timestamptz,
    checked_at       timestamptz,
    next_at          timestamptz,
    respace_at       timestamptz,
    counted_at       timestamptz,
    frozen_at        xid8 NOT NULL,
    template_version bigint NOT NULL,
    rate             double precision,
    pace             double precision NOT NULL DEFAULT 0,
    jobs             integer NOT NULL DEFAULT 0,
    jobs_completed   integer NOT NULL DEFAULT 0,
    jobs_partial     integer NOT NULL DEFAULT 0,
    jobs_failed      integer NOT NULL DEFAULT 0,
    jobs_dead        integer NOT NULL DEFAULT 0,
    intended         bigint NOT NULL DEFAULT 0,
    expanded         bigint NOT NULL DEFAULT 0,
    deferred         bigint NOT NULL DEFAULT 0,
    sent             bigint NOT NULL DEFAULT 0,
    failed           bigint NOT NULL DEFAULT 0,
    skipped          bigint NOT NULL DEFAULT 0,
    cancelled        bigint NOT NULL DEFAULT 0,
    expired          bigint NOT NULL DEFAULT 0,
    held             bigint NOT NULL DEFAULT 0,
    lane             smallint NOT NULL,
    test             boolean NOT NULL DEFAULT false,
    status           text NOT NULL DEFAULT 'queued',
    campaign_id      text NOT NULL,
    tenant_id        text NOT NULL,
    workspace_id     text NOT NULL,
    campaign         text NOT NULL,
    channel          text NOT NULL,
    idempotency_key  text,
    template_name    text NOT NULL,
    variables        jsonb NOT NULL,
    reads            text[] NOT NULL,
    topic            text,
    send_window      jsonb,
    note             text,
    created_by       text NOT NULL CHECK (created_by <> ''),
    CONSTRAINT campaign_runs_key UNIQUE (tenant_id, workspace_id, idempotency_key),
    CONSTRAINT campaign_runs_key_length CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    CONSTRAINT campaign_runs_status_known CHECK (status IN ('queued', 'running', 'completed', 'partial', 'failed')),
    CONSTRAINT campaign_runs_end_has_time CHECK ((status IN ('queued', 'running')) = (finished_at IS NULL)),
    CONSTRAINT campaign_runs_rate_positive CHECK (rate > 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON COLUMN dispatcher.campaign_runs.created_at IS
    'the time of its transaction. A row in which it is anything else is a copy, and is paused';
COMMENT ON COLUMN dispatcher.campaign_runs.note IS 'why it is paused, where it came out of a backup';
COMMENT ON COLUMN dispatcher.campaign_runs.checked_at IS 'when its counters were compared with its deliveries';
COMMENT ON COLUMN dispatcher.campaign_runs.next_at IS 'with a rate: when the next delivery that is written is due';
COMMENT ON COLUMN dispatcher.campaign_runs.respace_at IS 'when what is written gets the times of a rate that was changed';
COMMENT ON COLUMN dispatcher.campaign_runs.frozen_at IS 'the oldest transaction that was open when its contacts were chosen';
COMMENT ON COLUMN dispatcher.campaign_runs.pace IS 'deliveries that end a second, of late';
COMMENT ON COLUMN dispatcher.campaign_runs.expanded IS 'deliveries that are written';
COMMENT ON COLUMN dispatcher.campaign_runs.deferred IS 'of those written, how many wait for a later time; looked up where there is no room';
COMMENT ON COLUMN dispatcher.campaign_runs.test IS 'to given addresses, in no total';
COMMENT ON COLUMN dispatcher.campaign_runs.reads IS 'what the template reads of a contact';
CREATE INDEX campaign_runs_open ON dispatcher.campaign_runs (id) WHERE finished_at IS NULL;
CREATE INDEX campaign_runs_unchecked ON dispatcher.campaign_runs (finished_at) WHERE checked_at IS NULL;
CREATE INDEX campaign_runs_of_campaign ON dispatcher.campaign_runs (campaign_id, created_at);
CREATE INDEX campaign_runs_of_workspace ON dispatcher.campaign_runs (tenant_id, workspace_id, id);
CALL dispatcher.isolate('dispatcher.campaign_runs');

-- Deliveries of a job have ids between first_id and last_id; others may have ids in between.
CREATE TABLE dispatcher.job_queue (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id       bigint NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    available_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    locked_at    timestamptz,
    locked_by    bigint,
    expanded_at  timestamptz,
    finished_at  timestamptz,
    discarded_at timestamptz,
    first_id     bigint,
    last_id      bigint,
    attempts     integer NOT NULL DEFAULT 0,
    intended     integer NOT NULL,
    sent         integer NOT NULL DEFAULT 0,
    failed       integer NOT NULL DEFAULT 0,
    skipped      integer NOT NULL DEFAULT 0,
    cancelled    integer NOT NULL DEFAULT 0,
    expired      integer NOT NULL DEFAULT 0,
    held         integer NOT NULL DEFAULT 0,
    given_up     boolean NOT NULL DEFAULT false,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    job_type     text NOT NULL,
    status       text NOT NULL DEFAULT 'queued',
    error        text,
    contact_ids  bigint[] NOT NULL,
    recipients   text[],
    CONSTRAINT job_queue_status_known CHECK (status IN ('queued', 'locked', 'completed', 'partial', 'failed', 'dead')),
    CONSTRAINT job_queue_lock_has_owner CHECK (status <> 'locked' OR locked_by IS NOT NULL OR expanded_at IS NOT NULL),
    CONSTRAINT job_queue_intended_counted CHECK (intended = cardinality(coalesce(recipients, contact_ids::text[])))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
-- Compressing the ids took two thirds of a deployment's time: 0.4 seconds of a million contacts.
ALTER TABLE dispatcher.job_queue ALTER contact_ids SET STORAGE EXTERNAL;
COMMENT ON COLUMN dispatcher.job_queue.locked_by IS 'the epoch of the instance that expands it';
COMMENT ON COLUMN dispatcher.job_queue.discarded_at IS 'since when its failed deliveries are no dead letter';
COMMENT ON COLUMN dispatcher.job_queue.given_up IS 'it could not be expanded';
COMMENT ON COLUMN dispatcher.job_queue.recipients IS 'of a test: the addresses';
CREATE INDEX job_queue_of_run ON dispatcher.job_queue (run_id, id);
CREATE INDEX job_queue_waiting ON dispatcher.job_queue (run_id, id) WHERE status = 'queued';
CREATE INDEX job_queue_locked ON dispatcher.job_queue (locked_at) WHERE status = 'locked' AND expanded_at IS NULL;
CREATE INDEX job_queue_dead ON dispatcher.job_queue (id) WHERE failed > 0 AND discarded_at IS NULL;
CALL dispatcher.isolate('dispatcher.job_queue');

CREATE TABLE dispatcher.campaign_run_reasons (
    run_id bigint NOT NULL,
    count  bigint NOT NULL,
    class  text NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (run_id, class, reason)
);
CALL dispatcher.isolate('dispatcher.campaign_run_reasons', 'run_id', 'dispatcher.campaign_runs');

CREATE TABLE dispatcher.campaign_events (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id        bigint NOT NULL,
    job_id        bigint,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor         text NOT NULL CHECK (actor <> ''),
    event         text NOT NULL,
    status_before text,
    status        text,
    reason        text NOT NULL DEFAULT ''
);
COMMENT ON COLUMN dispatcher.campaign_events.event IS 'status (a transition), or what an operator did: pause, resume, cancel, rate, replay, discard';
CREATE INDEX campaign_events_of_run ON dispatcher.campaign_events (run_id, id);
CREATE INDEX campaign_events_replays ON dispatcher.campaign_events (job_id) WHERE event = 'replay' AND job_id IS NOT NULL;
CREATE INDEX campaign_events_by_people ON dispatcher.campaign_events (at, id)
    WHERE event <> 'status' OR status_before IS NULL AND job_id IS NULL;
CALL dispatcher.isolate('dispatcher.campaign_events', 'run_id', 'dispatcher.campaign_runs');

-- What a job is called in the contract, by its channel.
CREATE FUNCTION dispatcher.job_type(p_channel text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE p_channel WHEN 'voice' THEN 'voice_call_batch' WHEN 'social' THEN 'social_post_batch'
                ELSE p_channel || '_send_batch' END
$$;

-- Which address of a contact a channel writes to.
CREATE FUNCTION dispatcher.address_kind(p_channel text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_channel IN ('email', 'push', 'social') THEN p_channel
                WHEN p_channel IN ('sms', 'whatsapp', 'voice') THEN 'phone'
                ELSE 'chat' END
$$;

-- The key of a delivery, as the contract has it: the run, the contact (or address), the version of the template, the time.
CREATE FUNCTION dispatcher.campaign_key(p_run_id bigint, p_item text, p_version bigint, p_scheduled_for timestamptz)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
        p_run_id || '|' || p_item || '|' || p_version || '|' || extract(epoch FROM p_scheduled_for), 'UTF8')), 'hex')
$$;

-- How many seconds until a window opens; 0: it is open. Hours are on the wall in the window's zone.
CREATE FUNCTION dispatcher.window_wait(p_window jsonb, p_at timestamptz) RETURNS double precision
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_window IS NULL THEN 0 ELSE coalesce((
        SELECT min(greatest(0, extract(epoch FROM d.opens - p_at)))
          FROM (SELECT (l.day + (p_window ->> 'from')::time) AT TIME ZONE l.zone AS opens,
                       (l.day + (p_window ->> 'to')::time) AT TIME ZONE l.zone AS closes
                  FROM (SELECT z.zone, (p_at AT TIME ZONE z.zone)::date + n AS day
                          FROM (SELECT coalesce(p_window ->> 'time_zone', 'UTC') AS zone) AS z, generate_series(0, 7) AS n) AS l
                 WHERE p_window -> 'days' IS NULL OR p_window -> 'days' ? lower(to_char(l.day, 'dy'))) AS d
         WHERE d.closes > p_at), 86400) END
$$;

-- Write down what happened to a run or a job.
CREATE FUNCTION dispatcher.note_campaign(
    p_run_id bigint, p_job_id bigint, p_actor text, p_event text, p_before text, p_status text, p_reason text
) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO dispatcher.campaign_events (run_id, job_id, actor, event, status_before, status, reason)
    VALUES (p_run_id, p_job_id, p_actor, p_event, p_before, p_status, left(coalesce(p_reason, ''), 2000))
$$;

REVOKE ALL ON FUNCTION dispatcher.note_campaign FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.campaigns TO dispatcher_tenant;
GRANT SELECT ON dispatcher.campaign_runs, dispatcher.job_queue, dispatcher.campaign_run_reasons,
    dispatcher.campaign_events TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.window_wait TO dispatcher_tenant;
