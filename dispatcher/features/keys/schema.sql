-- Keys of the HTTP API: their rights, each in a workspace of a tenant.
--
-- The map
--   api_keys         one row a key: whose it is, its role, until when it holds
--   api_secrets      what its holders show: a prefix that finds it and the hash of the whole; two while it is rotated
--   api_key_actions  actor and reason of each creation, rotation and revocation
--   api_answers      what was answered to a request that came with an Idempotency-Key
--
-- A key has its name to itself as long as it is not revoked. Nothing here can be turned back into a secret.

CREATE TABLE dispatcher.api_keys (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    -- To the minute: knowing it better would cost a write for each request.
    last_used_at timestamptz,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    name         text NOT NULL,
    role         text NOT NULL,
    CONSTRAINT api_keys_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT api_keys_name_form CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._@/-]{0,99}$'),
    CONSTRAINT api_keys_role_known
        CHECK (role IN ('workflowManager', 'triggerOperator', 'systemAdmin', 'workerService')),
    CONSTRAINT api_keys_expiry_finite CHECK (isfinite(expires_at))
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX api_keys_live ON dispatcher.api_keys (tenant_id, workspace_id, name) WHERE revoked_at IS NULL;
ALTER TABLE dispatcher.api_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON dispatcher.api_keys USING (true) WITH CHECK (true);
CREATE POLICY tenant ON dispatcher.api_keys AS RESTRICTIVE TO dispatcher_tenant
    USING (tenant_id = nullif(current_setting('dispatcher.tenant', true), '')
       AND workspace_id = nullif(current_setting('dispatcher.workspace', true), '')
        OR current_setting('dispatcher.operators', true) = 'yes');

-- Operators have keys in every cell, where their own tenant may be listed nowhere.
CREATE TRIGGER stay_in_cell AFTER INSERT ON dispatcher.api_keys REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.stay_in_cell('listed');
ALTER TABLE dispatcher.api_keys DISABLE TRIGGER stay_in_cell;

CREATE TABLE dispatcher.api_secrets (
    prefix     text PRIMARY KEY,
    key_id     bigint NOT NULL REFERENCES dispatcher.api_keys ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    ends_at    timestamptz,
    hash       bytea NOT NULL,
    CONSTRAINT api_secrets_prefix_form CHECK (prefix ~ '^dsp_[A-Za-z0-9]{12}$'),
    CONSTRAINT api_secrets_hash_length CHECK (octet_length(hash) = 32)
);
COMMENT ON COLUMN dispatcher.api_secrets.hash IS 'SHA-256 of all that its holder shows';
COMMENT ON COLUMN dispatcher.api_secrets.ends_at IS 'of one that was rotated: it is good until then';
-- The one that holds, and one that it replaces.
CREATE UNIQUE INDEX api_secrets_new ON dispatcher.api_secrets (key_id) WHERE ends_at IS NULL;
CREATE UNIQUE INDEX api_secrets_old ON dispatcher.api_secrets (key_id) WHERE ends_at IS NOT NULL;
CALL dispatcher.isolate('dispatcher.api_secrets', 'key_id', 'dispatcher.api_keys');

CREATE TABLE dispatcher.api_key_actions (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key_id bigint NOT NULL REFERENCES dispatcher.api_keys ON DELETE CASCADE,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor  text NOT NULL CHECK (actor <> ''),
    action text NOT NULL CHECK (action IN ('create', 'rotate', 'revoke')),
    prefix text,
    reason text NOT NULL
);
COMMENT ON COLUMN dispatcher.api_key_actions.prefix IS 'of the secret that was handed out';
CREATE INDEX api_key_actions_by_key ON dispatcher.api_key_actions (key_id);
CREATE INDEX api_key_actions_by_time ON dispatcher.api_key_actions (at, id);
CALL dispatcher.isolate('dispatcher.api_key_actions', 'key_id', 'dispatcher.api_keys');

-- Written in the transaction of what was asked for, so that either both are there or none is, and a second request with the
-- same key waits for the first one's end.
CREATE TABLE dispatcher.api_answers (
    created_at   timestamptz NOT NULL DEFAULT now(),
    status       smallint NOT NULL,
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    key          text NOT NULL,
    asked        bytea NOT NULL,
    answer       bytea NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, key)
);
COMMENT ON TABLE dispatcher.api_answers IS 'what was answered to a request that came with an Idempotency-Key';
COMMENT ON COLUMN dispatcher.api_answers.asked IS 'SHA-256 of who asked for what';
CREATE INDEX api_answers_age ON dispatcher.api_answers (created_at);
CALL dispatcher.isolate('dispatcher.api_answers', p_records => true);

-- Make a key. Answers its id, or null where the name is taken.
CREATE FUNCTION dispatcher.create_api_key(
    p_tenant_id text, p_workspace_id text, p_name text, p_role text, p_expires_at timestamptz, p_prefix text, p_hash bytea,
    p_actor text, p_reason text
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made bigint;
BEGIN
    INSERT INTO dispatcher.api_keys (tenant_id, workspace_id, name, role, expires_at)
    VALUES (p_tenant_id, p_workspace_id, p_name, p_role, p_expires_at)
    ON CONFLICT (tenant_id, workspace_id, name) WHERE revoked_at IS NULL DO NOTHING RETURNING id INTO made;
    IF made IS NULL THEN RETURN NULL; END IF;
    INSERT INTO dispatcher.api_secrets (prefix, key_id, hash) VALUES (p_prefix, made, p_hash);
    INSERT INTO dispatcher.api_key_actions (key_id, actor, action, prefix, reason)
    VALUES (made, p_actor, 'create', p_prefix, p_reason);
    RETURN made;
END $$;

-- Give a key another secret. The one that it had is good for so much longer, one before that not any more. Answers rotated,
-- expired or unknown.
CREATE FUNCTION dispatcher.rotate_api_key(
    p_tenant_id text, p_workspace_id text, p_name text, p_overlap interval, p_prefix text, p_hash bytea, p_actor text,
    p_reason text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dispatcher.api_keys;
BEGIN
    SELECT k.* INTO held FROM dispatcher.api_keys k
     WHERE k.tenant_id = p_tenant_id AND k.workspace_id = p_workspace_id AND k.name = p_name AND k.revoked_at IS NULL
       FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF held.expires_at <= statement_timestamp() THEN RETURN 'expired'; END IF;
    DELETE FROM dispatcher.api_secrets WHERE key_id = held.id AND ends_at IS NOT NULL;
    UPDATE dispatcher.api_secrets SET ends_at = statement_timestamp() + p_overlap WHERE key_id = held.id;
    INSERT INTO dispatcher.api_secrets (prefix, key_id, hash) VALUES (p_prefix, held.id, p_hash);
    INSERT INTO dispatcher.api_key_actions (key_id, actor, action, prefix, reason)
    VALUES (held.id, p_actor, 'rotate', p_prefix, p_reason);
    RETURN 'rotated';
END $$;

-- Take a key back, with all its secrets. Answers revoked or unknown.
CREATE FUNCTION dispatcher.revoke_api_key(
    p_tenant_id text, p_workspace_id text, p_name text, p_actor text, p_reason text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held bigint;
BEGIN
    UPDATE dispatcher.api_keys SET revoked_at = statement_timestamp()
     WHERE tenant_id = p_tenant_id AND workspace_id = p_workspace_id AND name = p_name AND revoked_at IS NULL
    RETURNING id INTO held;
    IF held IS NULL THEN RETURN 'unknown'; END IF;
    INSERT INTO dispatcher.api_key_actions (key_id, actor, action, reason) VALUES (held, p_actor, 'revoke', p_reason);
    RETURN 'revoked';
END $$;

REVOKE ALL ON FUNCTION dispatcher.create_api_key, dispatcher.rotate_api_key, dispatcher.revoke_api_key FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON dispatcher.api_keys, dispatcher.api_answers TO dispatcher_tenant;
GRANT SELECT, INSERT, UPDATE, DELETE ON dispatcher.api_secrets TO dispatcher_tenant;
GRANT SELECT, INSERT ON dispatcher.api_key_actions TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.create_api_key, dispatcher.rotate_api_key,
    dispatcher.revoke_api_key TO dispatcher_tenant;
