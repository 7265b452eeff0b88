-- What operators do to one delivery: cancel, move, reopen, and settle what is held.

-- Cancel until it is marked. Answers cancelled, sending, held, unknown, or the terminal status that it had already; or
-- stopped: it is not sent again, but an earlier attempt may have gone out, so it is held now.
CREATE FUNCTION dispatcher.cancel_delivery_by_id(p_id bigint, p_actor text, p_reason text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was    dispatcher.delivery_state;
    became text;
BEGIN
    SELECT * INTO was FROM dispatcher.delivery_state WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF was.status <> 'queued' THEN RETURN was.status; END IF;
    IF was.held THEN RETURN 'held'; END IF;
    IF was.marked THEN RETURN 'sending'; END IF;
    UPDATE dispatcher.delivery_state
       SET status = 'skipped', ready = false, token = NULL, finished_at = statement_timestamp(),
           error = 'cancelled: ' || p_reason
     WHERE id = p_id RETURNING status INTO became;
    INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
    VALUES (p_id, p_actor, 'cancel', 'queued', p_reason);
    RETURN CASE became WHEN 'skipped' THEN 'cancelled' ELSE 'stopped' END;
END $$;

-- Move to another time until it is marked. Answers moved, sending, held, unknown, or the terminal status.
CREATE FUNCTION dispatcher.move_delivery(p_id bigint, p_run_at timestamptz, p_actor text, p_reason text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was dispatcher.delivery_state;
BEGIN
    SELECT * INTO was FROM dispatcher.delivery_state WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF was.status <> 'queued' THEN RETURN was.status; END IF;
    IF was.held THEN RETURN 'held'; END IF;
    IF was.marked THEN RETURN 'sending'; END IF;
    UPDATE dispatcher.delivery_state SET ready = true, token = NULL, run_at = p_run_at WHERE id = p_id;
    INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
    VALUES (p_id, p_actor, 'move', 'queued', p_reason);
    PERFORM pg_notify('dispatcher_work', '');
    RETURN 'moved';
END $$;

-- The delivery that was written in place of another one; null where there is none. (Looked up one by one: a plain join under row
-- security read all of a workspace, 13 s where there are a million.)
CREATE FUNCTION dispatcher.repair_of(p_id bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.id
      FROM dispatcher.deliveries d,
           LATERAL (SELECT k.id, k.retry_of FROM dispatcher.deliveries k
                     WHERE k.tenant_id = d.tenant_id AND k.workspace_id = d.workspace_id
                       AND k.idempotency_key = 'retry-of-' || d.id LIMIT 1) AS r
     WHERE d.id = p_id AND r.retry_of = d.id
$$;

-- Write a failed or skipped delivery anew, with variables that it lacked: what it says never changes. The new one is due now
-- under the key retry-of-ID, so that there is one however often this is asked for; its run and its job do not count it.
-- Answers repaired, with the new delivery; unknown, queued, or a status that means that the message has gone out; erased;
-- never queued; ordered: a run waits for it, and decides; other: that key is taken by delivery_id, with other variables.
CREATE FUNCTION dispatcher.repair_delivery(
    p_id bigint, p_variables jsonb, p_actor text, p_reason text, OUT answer text, OUT delivery_id bigint, OUT duplicate boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was    dispatcher.delivery_state;
    origin dispatcher.deliveries;
    there  dispatcher.deliveries;
BEGIN
    SELECT * INTO was FROM dispatcher.delivery_state WHERE id = p_id FOR UPDATE;
    SELECT * INTO origin FROM dispatcher.deliveries WHERE id = p_id;
    answer := CASE WHEN was.id IS NULL OR origin.id IS NULL THEN 'unknown'
                   WHEN was.status NOT IN ('failed', 'skipped') THEN was.status
                   WHEN was.error = 'erased' THEN 'erased'
                   WHEN origin.ended IS NOT NULL THEN 'never queued'
                   WHEN origin.node IS NOT NULL THEN 'ordered' END;
    IF answer IS NOT NULL THEN RETURN; END IF;
    origin.variables := origin.variables || p_variables;
    INSERT INTO dispatcher.deliveries
           (tenant_id, workspace_id, idempotency_key, channel, recipient, lane, max_attempts, expires_at, template, template_name,
            template_version, locale, variables, options, topic, traceparent, retry_of)
    VALUES (origin.tenant_id, origin.workspace_id, 'retry-of-' || p_id, origin.channel, origin.recipient, origin.lane,
            origin.max_attempts, origin.expires_at, origin.template, origin.template_name, origin.template_version,
            origin.locale, origin.variables, origin.options, origin.topic, origin.traceparent, p_id)
    ON CONFLICT ON CONSTRAINT deliveries_key DO NOTHING RETURNING id INTO delivery_id;
    duplicate := delivery_id IS NULL;
    IF duplicate THEN
        SELECT d.* INTO there FROM dispatcher.deliveries d
         WHERE d.tenant_id = origin.tenant_id AND d.workspace_id = origin.workspace_id
           AND d.idempotency_key = 'retry-of-' || p_id;
        delivery_id := there.id;
        answer := CASE WHEN there.id IS NULL THEN 'erased'
                       WHEN there.retry_of = p_id AND there.variables = origin.variables THEN 'repaired'
                       ELSE 'other' END;
        RETURN;
    END IF;
    answer := 'repaired';
    INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
    VALUES (p_id, p_actor, 'repair', was.status, p_reason);
    UPDATE dispatcher.dead_deliveries l
       SET discarded_at = statement_timestamp(), note = 'written anew as delivery ' || repair_delivery.delivery_id
     WHERE l.delivery_id = p_id AND l.discarded_at IS NULL;
END $$;

-- Send a failed or skipped one again: its end is kept, the last attempt goes to the earlier ones, the attempts are counted
-- anew, and so is the life of its key. It is the same key: a provider that still knows it sends nothing twice, and one that has forgotten
-- it begins to know it with the first attempt from now on. Either way it is sent once more at most, as was asked for.
-- Answers reopened, unknown, queued, or a status that means that the message has gone out.
-- What was erased cannot be sent again, nor what was written as ended: it may lack its address, or what it says. What was
-- repaired goes out by the delivery that was written in its place.
CREATE FUNCTION dispatcher.reopen_delivery(p_id bigint, p_actor text, p_reason text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was dispatcher.delivery_state;
BEGIN
    SELECT * INTO was FROM dispatcher.delivery_state WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF was.status NOT IN ('failed', 'skipped') THEN RETURN was.status; END IF;
    IF was.error = 'erased' THEN RETURN 'erased'; END IF;
    IF EXISTS (SELECT FROM dispatcher.deliveries d WHERE d.id = p_id AND d.ended IS NOT NULL) THEN RETURN 'never queued'; END IF;
    IF dispatcher.repair_of(p_id) IS NOT NULL THEN RETURN 'repaired'; END IF;
    IF was.marked THEN
        INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, ended_at, reason, provider)
        VALUES (p_id, was.token, was.attempt, was.status, was.finished_at, was.error, was.provider)
        ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO dispatcher.reopened_ends (delivery_id, ended_at, attempt, called, status, error)
    VALUES (p_id, was.finished_at, was.attempt, was.marked, was.status, was.error);
    PERFORM set_config('dispatcher.reopening', p_id::text, true);
    UPDATE dispatcher.delivery_state
       SET status = 'queued', ready = true, marked = false, token = NULL, finished_at = NULL, error = NULL,
           attempt_base = attempt, key_used_at = NULL, resend_until = NULL, recoveries = 0,
           run_at = statement_timestamp()
     WHERE id = p_id;
    PERFORM set_config('dispatcher.reopening', '', true);
    INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
    VALUES (p_id, p_actor, 'reopen', was.status, p_reason);
    PERFORM pg_notify('dispatcher_work', '');
    RETURN 'reopened';
END $$;

-- Settle a held delivery. Answers settled, unknown, early (a call of its dead owner may still be going on), or what it is.
CREATE FUNCTION dispatcher.settle_held(
    p_id bigint, p_as text, p_actor text, p_reason text, p_provider_message_id text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was     dispatcher.delivery_state;
    allowed smallint;
BEGIN
    IF p_as NOT IN ('sent', 'failed', 'requeue') THEN
        RAISE EXCEPTION 'a held delivery is settled as sent, failed or requeue, not %', quote_literal(p_as)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO was FROM dispatcher.delivery_state WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF was.status <> 'queued' THEN RETURN was.status; END IF;
    IF NOT was.held THEN RETURN 'not held'; END IF;
    IF was.settle_after > statement_timestamp() THEN RETURN 'early'; END IF;
    IF p_as = 'requeue' THEN
        SELECT max_attempts INTO allowed FROM dispatcher.deliveries WHERE id = p_id;
        INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, next_at, reason, resent_by, provider)
        SELECT p_id, was.token, was.attempt, 'unknown', statement_timestamp(), was.error, 'operator', was.provider
         WHERE was.marked;
        UPDATE dispatcher.delivery_state
           SET ready = true, marked = false, held = false, token = NULL, held_at = NULL, settle_after = NULL,
               key_used_at = NULL, resend_until = NULL, recoveries = 0, run_at = greatest(run_at, statement_timestamp()),
               attempt_base = CASE WHEN attempt - attempt_base >= allowed THEN attempt ELSE attempt_base END
         WHERE id = p_id;
        PERFORM pg_notify('dispatcher_work', '');
    ELSE
        UPDATE dispatcher.delivery_state
           SET status = CASE WHEN p_as = 'failed' THEN 'failed'
                             WHEN channel = 'voice' THEN 'called'
                             WHEN channel = 'social' THEN 'posted'
                             ELSE 'sent' END,
               held = false, held_at = NULL, settle_after = NULL, resend_until = NULL,
               finished_at = statement_timestamp(), provider_message_id = coalesce(p_provider_message_id, provider_message_id),
               error = CASE WHEN p_as = 'failed' THEN 'settled as failed: ' || p_reason END
         WHERE id = p_id;
    END IF;
    INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
    VALUES (p_id, p_actor, 'settle_' || p_as, 'held', p_reason);
    RETURN 'settled';
END $$;
