-- Rules: who is told what about an event, by which channel.
--
-- The map
--   event_triggers   the operator's own entries of the catalogue; those that come with the program: catalogue.sql
--   rules            one row a (trigger, channel, audience)
--   rule_steps       the messages of a rule: a template, when, and to whom
--   rule_actions     who saved, switched or deleted what
--   events           the inbox: one row an event, by its source and message id
--   event_decisions  what was decided for each (channel, audience) of an event, and why: the answer
--
-- An event's life
--   notify writes the row of the inbox first: a rival with the same message id waits for the end of that transaction, and
--   then answers what the first has answered. Then everything is checked and decided by one statement, which writes the
--   deliveries and the decisions. What a decision says is one of a closed set:
--
--   scheduled   the rule's messages are written
--   skipped     there was nothing to write: no step is enabled, no recipient, or every time has passed
--   suppressed  the rule is disabled: nothing is sent, and no fallback runs
--   fallback    no rule, or the rule failed: the built-in message is written, or the caller runs its own code
--   none        no rule, and no fallback
--
--   A pair whose rule fails and that has no fallback refuses the whole event, so that nothing is lost in silence: the caller
--   learns of every fault, and may try the same message id again.
--
-- Nobody's address is kept in a decision: a reason names the field (lead.phone), not what stands in it.
--
-- Lock order: rules by name; then rows of the inbox by source and message id, then deliveries. notify locks no rule: what it
-- has looked at is what was committed when its statement began.

CREATE TABLE dispatcher.event_triggers (
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    version      integer NOT NULL DEFAULT 1,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    name         text COLLATE "C" NOT NULL,
    description  text NOT NULL DEFAULT '',
    updated_by   text NOT NULL CHECK (updated_by <> ''),
    variables    text[] NOT NULL,
    sample       jsonb NOT NULL DEFAULT '{}',
    pairs        jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, workspace_id, name),
    CONSTRAINT event_triggers_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT event_triggers_name_form CHECK (name ~ '^[a-z][a-z0-9_]{0,63}$'),
    CONSTRAINT event_triggers_objects CHECK (jsonb_typeof(sample) = 'object' AND jsonb_typeof(pairs) = 'object')
);
COMMENT ON COLUMN dispatcher.event_triggers.variables IS 'what each event promises to bring; rules are checked against it';
COMMENT ON COLUMN dispatcher.event_triggers.pairs IS 'what happens without a rule: {"email/lead": "message", "caller" or "none"}';
CALL dispatcher.isolate('dispatcher.event_triggers');

CREATE TABLE dispatcher.rules (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    version       integer NOT NULL DEFAULT 1,
    enabled       boolean NOT NULL,
    tenant_id     text NOT NULL,
    workspace_id  text NOT NULL,
    event_trigger text COLLATE "C" NOT NULL,
    channel       text COLLATE "C" NOT NULL,
    audience      text COLLATE "C" NOT NULL,
    updated_by    text NOT NULL CHECK (updated_by <> ''),
    CONSTRAINT rules_name UNIQUE (tenant_id, workspace_id, event_trigger, channel, audience),
    CONSTRAINT rules_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT rules_trigger_form CHECK (event_trigger ~ '^[a-z][a-z0-9_]{0,63}$'),
    CONSTRAINT rules_channel_known CHECK (channel IN ('email', 'sms', 'voice', 'whatsapp')),
    CONSTRAINT rules_audience_form CHECK (audience ~ '^[a-z][a-z0-9_]{0,24}$')
);
CALL dispatcher.isolate('dispatcher.rules');

CREATE TABLE dispatcher.rule_steps (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule_id         bigint NOT NULL REFERENCES dispatcher.rules ON DELETE CASCADE,
    offset_seconds  bigint NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    step_order      integer NOT NULL,
    enabled         boolean NOT NULL DEFAULT true,
    include_lead    boolean NOT NULL DEFAULT false,
    include_partner boolean NOT NULL DEFAULT false,
    include_agent   boolean NOT NULL DEFAULT false,
    template_name   text NOT NULL,
    custom          text[] NOT NULL DEFAULT '{}',
    -- Ten years.
    CONSTRAINT rule_steps_offset_bounded CHECK (abs(offset_seconds) <= 315360000),
    CONSTRAINT rule_steps_custom_bounded CHECK (cardinality(custom) <= 1000)
);
COMMENT ON COLUMN dispatcher.rule_steps.custom IS 'further addresses, of the kind that the rule''s channel has';
CREATE INDEX rule_steps_of_rule ON dispatcher.rule_steps (rule_id, step_order, created_at, id);
CALL dispatcher.isolate('dispatcher.rule_steps', 'rule_id', 'dispatcher.rules');

CREATE TABLE dispatcher.rule_actions (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT statement_timestamp(),
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    subject      text NOT NULL,
    action       text NOT NULL CHECK (action IN ('put', 'enable', 'disable', 'delete')),
    actor        text NOT NULL CHECK (actor <> ''),
    version      integer NOT NULL
);
COMMENT ON COLUMN dispatcher.rule_actions.subject IS 'a rule (trigger/channel/audience), or the name of a trigger';
CREATE INDEX rule_actions_by_time ON dispatcher.rule_actions (tenant_id, workspace_id, at, id);
CALL dispatcher.isolate('dispatcher.rule_actions', p_records => true);

CREATE SEQUENCE dispatcher.event_ids;
CREATE TABLE dispatcher.events (
    id            bigint PRIMARY KEY DEFAULT nextval('dispatcher.event_ids'),
    event_at      timestamptz,
    created_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    tenant_id     text NOT NULL,
    workspace_id  text NOT NULL,
    source        text COLLATE "C" NOT NULL,
    message_id    text COLLATE "C" NOT NULL,
    event_trigger text NOT NULL,
    CONSTRAINT events_message UNIQUE (tenant_id, workspace_id, source, message_id)
);
ALTER SEQUENCE dispatcher.event_ids OWNED BY dispatcher.events.id;
CALL dispatcher.isolate('dispatcher.events');

CREATE TABLE dispatcher.event_decisions (
    event_id     bigint NOT NULL REFERENCES dispatcher.events ON DELETE CASCADE,
    noted_at     timestamptz,
    failed       boolean NOT NULL,
    channel      text COLLATE "C" NOT NULL,
    audience     text COLLATE "C" NOT NULL,
    decision     text NOT NULL CHECK (decision IN ('scheduled', 'skipped', 'suppressed', 'fallback', 'none')),
    reason       text NOT NULL,
    fallback     text CHECK (fallback IN ('message', 'caller')),
    outcome      text CHECK (outcome IN ('done', 'failed')),
    error        text,
    steps        jsonb NOT NULL,
    delivery_ids bigint[] NOT NULL,
    PRIMARY KEY (event_id, channel, audience)
);
COMMENT ON COLUMN dispatcher.event_decisions.failed IS 'its rule failed, as the reason says';
COMMENT ON COLUMN dispatcher.event_decisions.outcome IS 'what became of the caller''s own code; null: it has not been told';
CALL dispatcher.isolate('dispatcher.event_decisions', 'event_id', 'dispatcher.events');

GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.event_triggers, dispatcher.rules, dispatcher.rule_steps TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.rule_actions TO dispatcher_tenant;
GRANT SELECT ON dispatcher.events, dispatcher.event_decisions TO dispatcher_tenant;
