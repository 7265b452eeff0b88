-- Sequences: messages to a contact, one after another, over days.
--
-- The map
--   sequences             one row a sequence: its settings, whether it is active, and the version that contacts are enrolled in
--   sequence_steps        the steps of its draft; their ids stay, so that a step that was sent is known in later versions
--   workflows             one row a sequence too, of kind 'sequence': its versions are plan_versions (workflows)
--   runs                  an enrolment is a run with contact_id and anchor (runs)
--   deliveries            what a step has sent, or why not: its log; sequence_id, and the step's id as node (engine)
--   sequence_enrollments, sequence_step_logs  views
--
-- A sequence's life
--   It is a draft until it is first published. Its draft may be changed at any time; what is published never changes, and
--   contacts stay in the version in which they were enrolled, or to which somebody has moved them. A pause is one row in
--   `pauses`: enrolments are not touched by it. Walkers park those that become due, and what is on its way waits at the mark.
--
-- A step's time
--   The day of the anchor, plus its days, at its hour on the wall of the zone; without an hour, at the anchor's time of day.
--   The anchor is the time of the enrolment, or that of the step before; pauses move it.
--
-- Lock order: sequences, then runs by id. An enrolment locks no sequence: it shares an advisory lock with others, which only
-- a deletion takes alone, so that no application's transaction keeps a pause waiting.

CREATE TABLE dispatcher.sequences (
    id           bigint PRIMARY KEY,
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    paused_at    timestamptz,
    current      bigint,
    version      integer NOT NULL DEFAULT 0,
    revision     integer NOT NULL DEFAULT 1,
    lane         smallint NOT NULL DEFAULT 2 CHECK (lane BETWEEN 0 AND 2),
    is_changed   boolean NOT NULL DEFAULT true,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    name         text COLLATE "C" NOT NULL,
    status       text NOT NULL DEFAULT 'draft',
    user_id      text NOT NULL CHECK (user_id <> ''),
    updated_by   text NOT NULL CHECK (updated_by <> ''),
    settings     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(settings) = 'object'),
    entry        jsonb,
    CONSTRAINT sequences_name UNIQUE (tenant_id, workspace_id, name),
    CONSTRAINT sequences_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    CONSTRAINT sequences_status_known CHECK (status IN ('draft', 'active', 'paused')),
    CONSTRAINT sequences_published CHECK ((status = 'draft') = (current IS NULL)),
    CONSTRAINT sequences_pause_has_time CHECK ((status = 'paused') = (paused_at IS NOT NULL))
);
COMMENT ON COLUMN dispatcher.sequences.id IS 'that of its row in workflows';
COMMENT ON COLUMN dispatcher.sequences.current IS 'the version that contacts are enrolled in';
COMMENT ON COLUMN dispatcher.sequences.revision IS 'it is another one after each change';
COMMENT ON COLUMN dispatcher.sequences.is_changed IS 'its draft says something else than its current version';
COMMENT ON COLUMN dispatcher.sequences.user_id IS 'who has made it';
COMMENT ON COLUMN dispatcher.sequences.entry IS
    'the first day of the current version: {"node": "day-17", "days": 0, "hour": 9, "zone": "UTC", "contact_zone": false}';
CALL dispatcher.isolate('dispatcher.sequences');

CREATE TABLE dispatcher.sequence_steps (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sequence_id bigint NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    day_offset  integer NOT NULL CHECK (day_offset BETWEEN 0 AND 3660),
    step_order  integer NOT NULL CHECK (step_order BETWEEN 0 AND 100000),
    send_hour   smallint CHECK (send_hour BETWEEN 0 AND 23),
    channel     text NOT NULL CHECK (channel ~ '^[a-z][a-z0-9_]{0,31}$'),
    name        text CHECK (length(name) BETWEEN 1 AND 200),
    template    text,
    content     jsonb CHECK (jsonb_typeof(content) IN ('string', 'object')),
    CONSTRAINT sequence_steps_order UNIQUE (sequence_id, step_order) DEFERRABLE,
    CONSTRAINT sequence_steps_say_something CHECK ((template IS NULL) <> (content IS NULL))
);
COMMENT ON COLUMN dispatcher.sequence_steps.content IS 'a text, or one for each part: {"subject": …, "text": …}';
CALL dispatcher.isolate('dispatcher.sequence_steps', 'sequence_id', 'dispatcher.sequences');

-- The end of the gap that clocks of a zone make at a time on the wall, to the minute: they change on one.
CREATE FUNCTION dispatcher.gap_end(p_local timestamp, p_zone text) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    high timestamptz := date_trunc('minute', p_local AT TIME ZONE p_zone);
    low  timestamptz := high - (high AT TIME ZONE p_zone - date_trunc('minute', p_local));
    far  CONSTANT interval := high AT TIME ZONE p_zone - high AT TIME ZONE 'UTC';
    half timestamptz;
BEGIN
    -- Clocks have not changed at `low`, and have at `high`.
    WHILE high - low > interval '1 minute' LOOP
        half := date_trunc('minute', low + (high - low) / 2);
        IF half AT TIME ZONE p_zone - half AT TIME ZONE 'UTC' = far THEN high := half; ELSE low := half; END IF;
    END LOOP;
    RETURN high;
END $$;

-- When clocks show an hour so many days after the day of a time; without an hour, the time of day of that time. An hour that
-- they skip comes when they have skipped it, one that they show twice the second time. The walk says the same.
CREATE FUNCTION dispatcher.step_time(p_start timestamptz, p_days integer, p_hour integer, p_zone text) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    local timestamp := p_start AT TIME ZONE p_zone;
    found timestamptz;
BEGIN
    IF p_days = 0 AND p_hour IS NULL THEN RETURN p_start; END IF;
    local := local + make_interval(days => p_days);
    IF p_hour IS NOT NULL THEN local := date_trunc('day', local) + make_interval(hours => p_hour); END IF;
    -- Of two, this is the second.
    found := local AT TIME ZONE p_zone;
    IF found AT TIME ZONE p_zone <> local THEN found := dispatcher.gap_end(local, p_zone); END IF;
    RETURN found;
END $$;

-- Whether Postgres knows a time zone.
CREATE FUNCTION dispatcher.is_time_zone(p_zone text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM statement_timestamp() AT TIME ZONE p_zone;
    RETURN p_zone ~ '^[A-Za-z]';
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN false;
END $$;

-- A run's status, as that of an enrolment.
CREATE FUNCTION dispatcher.enrollment_status(p_status text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_status IN ('pending', 'running', 'waiting') THEN 'active' WHEN p_status = 'failed' THEN 'cancelled'
                ELSE p_status END
$$;

-- A step as it is given and shown.
CREATE FUNCTION dispatcher.step_as_json(p_step dispatcher.sequence_steps) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('id', p_step.id, 'name', p_step.name, 'dayOffset', p_step.day_offset, 'stepOrder', p_step.step_order,
                              'sendHour', p_step.send_hour, 'channel', p_step.channel, 'template', p_step.template,
                              'content', p_step.content)
$$;

-- Steps as they are stored.
CREATE FUNCTION dispatcher.steps_of_json(p_sequence_id bigint, p_steps jsonb) RETURNS SETOF dispatcher.sequence_steps
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (e.value ->> 'id')::bigint, p_sequence_id, statement_timestamp(), (e.value ->> 'dayOffset')::integer,
           (e.value ->> 'stepOrder')::integer, (e.value ->> 'sendHour')::smallint, e.value ->> 'channel', e.value ->> 'name',
           e.value ->> 'template', nullif(e.value -> 'content', 'null')
      FROM jsonb_array_elements(p_steps) AS e
$$;

-- The sequence of a name; it stays until the transaction has ended, and no lock of its row keeps others waiting.
CREATE FUNCTION dispatcher.sequence_of(p_tenant_id text, p_workspace_id text, p_name text) RETURNS dispatcher.sequences
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    said dispatcher.sequences;
BEGIN
    SELECT s.* INTO said FROM dispatcher.sequences s
     WHERE s.tenant_id = p_tenant_id AND s.workspace_id = p_workspace_id AND s.name = p_name;
    IF FOUND THEN
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('dispatcher.workflow', said.id));
        SELECT s.* INTO said FROM dispatcher.sequences s WHERE s.id = said.id;
    END IF;
    IF NOT FOUND THEN
        PERFORM dispatcher.refuse(format('there is no sequence %s', coalesce(quote_literal(left(p_name, 101)), 'null')),
            dispatcher.fault('$.sequence', 'there is no such sequence'), 'P0002');
    END IF;
    RETURN said;
END $$;

REVOKE ALL ON FUNCTION dispatcher.step_as_json, dispatcher.steps_of_json, dispatcher.gap_end, dispatcher.step_time, dispatcher.is_time_zone, dispatcher.sequence_of FROM PUBLIC;
GRANT SELECT ON dispatcher.sequences, dispatcher.sequence_steps TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.enrollment_status, dispatcher.step_as_json TO dispatcher_tenant;
