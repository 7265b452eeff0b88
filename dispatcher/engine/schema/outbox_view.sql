-- The outbox as its contract has it, writable, and the life of a delivery by name.
--
-- A role that may insert into channel_outbox needs no other right: its triggers write with the rights of their owner, and number the
-- rows, since a default would be computed with the rights of the role that inserts.

CREATE VIEW dispatcher.channel_outbox AS
SELECT d.id, d.tenant_id, d.workspace_id, d.run_id, d.job_id, d.channel, d.lane, d.recipient,
       d.template, d.variables, d.options, d.idempotency_key,
       s.status, (s.status = 'skipped') AS skipped, s.attempt AS attempts, d.max_attempts,
       s.run_at, d.scheduled_for, d.expires_at, s.provider_message_id, s.error, d.created_at, s.finished_at,
       d.template_name, d.template_version, d.locale, d.traceparent
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id);
COMMENT ON VIEW dispatcher.channel_outbox IS
    'The outbox as its contract has it. A duplicate key raises 23505; ON CONFLICT works on dispatcher.deliveries.';
ALTER TABLE dispatcher.channel_outbox
    ALTER tenant_id SET DEFAULT 'default', ALTER workspace_id SET DEFAULT 'default', ALTER lane SET DEFAULT 1,
    ALTER variables SET DEFAULT '{}', ALTER options SET DEFAULT '{}', ALTER status SET DEFAULT 'queued',
    ALTER skipped SET DEFAULT false, ALTER max_attempts SET DEFAULT 5, ALTER created_at SET DEFAULT now();

-- Through the view a row is queued, or it is skipped from the start: with its reason in error, and never sent. What has no
-- template is born failed, whatever else was asked for.
CREATE FUNCTION dispatcher.channel_outbox_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within(NEW.tenant_id, NEW.workspace_id);
    IF NEW.status IS NULL OR NEW.status NOT IN ('queued', 'sent', 'called', 'posted', 'failed', 'skipped') THEN
        RAISE EXCEPTION 'unknown status %', coalesce(quote_literal(NEW.status), 'null')
            USING ERRCODE = 'check_violation', CONSTRAINT = 'delivery_state_status_known', COLUMN = 'status';
    END IF;
    IF NEW.skipped AND NEW.status <> 'skipped' THEN
        RAISE EXCEPTION 'skipped is true and status is %, not skipped', quote_literal(NEW.status)
            USING ERRCODE = 'check_violation', CONSTRAINT = 'skipped_means_skipped', COLUMN = 'skipped';
    END IF;
    IF NEW.status NOT IN ('queued', 'skipped') THEN
        RAISE EXCEPTION 'a delivery is born queued or skipped, not %', NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'born_queued_or_skipped', COLUMN = 'status';
    END IF;
    IF NEW.created_at <> now() THEN
        RAISE EXCEPTION 'created_at is the time of the transaction, and cannot be given'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'created_by_its_transaction', COLUMN = 'created_at',
                  HINT = 'Leave it out. What comes out of a backup goes into dispatcher.deliveries, and is held there.';
    END IF;
    NEW.id := coalesce(NEW.id, nextval('dispatcher.deliveries_id_seq'));
    NEW.scheduled_for := coalesce(NEW.scheduled_for, NEW.run_at, now());
    INSERT INTO dispatcher.deliveries (id, tenant_id, workspace_id, run_id, job_id, channel, lane, recipient, template,
        variables, options, idempotency_key, max_attempts, scheduled_for, expires_at, created_at, template_name,
        template_version, locale, traceparent)
    VALUES (NEW.id, NEW.tenant_id, NEW.workspace_id, NEW.run_id, NEW.job_id, NEW.channel, NEW.lane, NEW.recipient,
        NEW.template, NEW.variables, NEW.options, NEW.idempotency_key, NEW.max_attempts, NEW.scheduled_for,
        NEW.expires_at, NEW.created_at, NEW.template_name, NEW.template_version, NEW.locale, NEW.traceparent)
    RETURNING template_version, locale INTO NEW.template_version, NEW.locale;
    IF NEW.template IS NULL AND NEW.template_version IS NULL THEN
        SELECT s.status, s.finished_at, s.error INTO NEW.status, NEW.finished_at, NEW.error
          FROM dispatcher.delivery_state s WHERE s.id = NEW.id;
    ELSIF NEW.status = 'skipped' THEN
        NEW.finished_at := statement_timestamp();
        UPDATE dispatcher.delivery_state
           SET status = 'skipped', ready = false, finished_at = NEW.finished_at, error = NEW.error WHERE id = NEW.id;
    ELSIF NEW.run_at IS DISTINCT FROM NEW.scheduled_for AND NEW.run_at IS NOT NULL THEN
        UPDATE dispatcher.delivery_state SET run_at = NEW.run_at WHERE id = NEW.id;
    END IF;
    NEW.run_at := coalesce(NEW.run_at, NEW.scheduled_for);
    NEW.skipped := NEW.status = 'skipped';
    NEW.attempts := 0;
    RETURN NEW;
END $$;

CREATE TRIGGER channel_outbox_insert INSTEAD OF INSERT ON dispatcher.channel_outbox
    FOR EACH ROW EXECUTE FUNCTION dispatcher.channel_outbox_insert();

-- Through the view a waiting delivery can be cancelled (status skipped, the reason in error) or moved (run_at). One of
-- which an earlier attempt may have gone out is only stopped: it stays queued, and is held.
CREATE FUNCTION dispatcher.channel_outbox_update() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer text;
BEGIN
    IF (to_jsonb(NEW) - '{status,skipped,error,run_at}'::text[]) IS DISTINCT FROM
       (to_jsonb(OLD) - '{status,skipped,error,run_at}'::text[]) THEN
        RAISE EXCEPTION 'delivery % is immutable: only its status (to skipped) and its run_at can be changed', OLD.id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF NEW.status IS DISTINCT FROM OLD.status OR NEW.skipped IS DISTINCT FROM OLD.skipped THEN
        IF NEW.status IS DISTINCT FROM 'skipped' THEN
            RAISE EXCEPTION 'delivery % cannot be made % by hand', OLD.id, coalesce(NEW.status, 'null')
                USING ERRCODE = 'check_violation', CONSTRAINT = 'skipped_means_skipped', COLUMN = 'status';
        END IF;
        answer := dispatcher.cancel_delivery_by_id(OLD.id, session_user, coalesce(NEW.error, 'through channel_outbox'));
    ELSIF NEW.run_at IS DISTINCT FROM OLD.run_at THEN
        answer := dispatcher.move_delivery(OLD.id, NEW.run_at, session_user, 'through channel_outbox');
    ELSE
        RETURN NULL;
    END IF;
    IF answer = 'stopped' THEN
        NEW.status := 'queued';
        NEW.skipped := false;
        SELECT error INTO NEW.error FROM dispatcher.delivery_state WHERE id = OLD.id;
    ELSIF answer NOT IN ('cancelled', 'moved') THEN
        RAISE EXCEPTION 'delivery % is %: too late', OLD.id, answer USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NEW;
END $$;

-- Fires first, by its name.
CREATE TRIGGER channel_outbox_stays_in_cell INSTEAD OF UPDATE ON dispatcher.channel_outbox
    FOR EACH ROW EXECUTE FUNCTION dispatcher.row_stays_in_cell();

CREATE TRIGGER channel_outbox_update INSTEAD OF UPDATE ON dispatcher.channel_outbox
    FOR EACH ROW EXECUTE FUNCTION dispatcher.channel_outbox_update();

CREATE VIEW dispatcher.delivery_life AS
SELECT s.id, d.tenant_id, d.workspace_id, d.idempotency_key, s.channel, s.lane, s.status,
       CASE WHEN s.status <> 'queued' THEN s.status
            WHEN s.held THEN 'held'
            WHEN s.marked THEN 'sending'
            WHEN s.token IS NOT NULL THEN 'claimed'
            WHEN s.ready THEN 'pending'
            ELSE 'parked' END AS life,
       s.run_at, s.attempt, d.max_attempts, s.token, c.epoch, i.name AS owner, s.recoveries, s.error,
       s.provider_message_id, s.finished_at
  FROM dispatcher.delivery_state s
  JOIN dispatcher.deliveries d USING (id)
  LEFT JOIN dispatcher.claims c ON c.token = s.token AND s.status = 'queued'
  LEFT JOIN dispatcher.instances i ON i.epoch = c.epoch;
COMMENT ON VIEW dispatcher.delivery_life IS
    'pending, claimed, sending, held (a call was begun, its outcome is unknown), parked, or the terminal status';

-- The same with the rights of the caller's role, and without the claim's owner. `tries` are the attempts that count toward
-- max_attempts: those since an operator sent it again.
CREATE VIEW dispatcher.visible_delivery_life WITH (security_invoker = true) AS
SELECT s.id, d.tenant_id, d.workspace_id, d.idempotency_key, s.channel, s.lane, d.recipient, s.status,
       CASE WHEN s.status <> 'queued' THEN s.status
            WHEN s.held THEN 'held'
            WHEN s.marked THEN 'sending'
            WHEN s.token IS NOT NULL THEN 'claimed'
            WHEN s.ready THEN 'pending'
            ELSE 'parked' END AS life,
       s.run_at, s.attempt, d.max_attempts, s.recoveries, s.error, s.provider_message_id, s.finished_at, d.run_id, d.job_id,
       d.contact_id, s.provider, s.attempt - s.attempt_base AS tries
  FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id);

REVOKE ALL ON FUNCTION dispatcher.channel_outbox_insert FROM PUBLIC;
GRANT SELECT ON dispatcher.visible_delivery_life TO dispatcher_tenant;
