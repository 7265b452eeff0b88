-- The functions of an application for deliveries: send one, ask what became of it, and cancel it. They run with their
-- owner's rights, are granted to no role by default, and reach no other workspace than the caller's.

-- What is wrong with a template's parts; null: nothing. Their Liquid is read by whoever renders them.
CREATE FUNCTION dispatcher.parts_fault(p_template jsonb, p_bytes_max integer) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN jsonb_typeof(p_template) <> 'object' THEN 'expected an object of texts, such as {"body": "Hello"}'
                WHEN p_template = '{}' THEN 'has no parts'
                WHEN octet_length(p_template::text) > p_bytes_max THEN format('larger than %s bytes', p_bytes_max)
                ELSE (SELECT format('the part %s is no text', quote_literal(left(e.key, 100)))
                        FROM jsonb_each(p_template) AS e WHERE jsonb_typeof(e.value) <> 'string' LIMIT 1) END
$$;

-- What is wrong with a delivery that is asked for, all of it.
CREATE FUNCTION dispatcher.delivery_faults(
    p_channel text, p_recipient text, p_idempotency_key text, p_template jsonb, p_template_name text, p_variables jsonb,
    p_options jsonb, p_lane text, p_scheduled_for timestamptz, p_expires_at timestamptz, p_max_attempts integer,
    p_locale text, p_topic text, p_tenant_id text, p_workspace_id text, p_traceparent text
) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bytes_max      CONSTANT integer := 262144;
    -- As long as an e-mail address with a name may become.
    recipient_max  CONSTANT integer := 2000;
    stored         CONSTANT boolean := p_template IS NULL AND p_template_name IS NOT NULL;
    faults         jsonb := '[]';
    found          text;
BEGIN
    SELECT faults || coalesce(jsonb_agg(jsonb_build_object('path', '$.' || f.name, 'words', f.words) ORDER BY f.place), '[]')
      INTO faults
      FROM (VALUES
        (1, 'channel', 'expected a channel''s name, such as email', coalesce(p_channel, '') !~ '^[a-z][a-z0-9_]{0,31}$'),
        (2, 'recipient', format('expected 1 to %s characters', recipient_max),
            coalesce(length(p_recipient), 0) NOT BETWEEN 1 AND recipient_max),
        (3, 'idempotency_key', 'expected 1 to 255 characters', coalesce(length(p_idempotency_key), 0) NOT BETWEEN 1 AND 255),
        (4, 'template', 'expected a template, or the template_name of a stored one', p_template IS NULL AND p_template_name IS NULL),
        (5, 'template_name', 'expected 1 to 100 characters', length(p_template_name) NOT BETWEEN 1 AND 100),
        (6, 'lane', 'expected transactional, normal or bulk',
            coalesce(p_lane, '') NOT IN ('transactional', 'normal', 'bulk')),
        (7, 'scheduled_for', 'expected a time that comes', NOT isfinite(p_scheduled_for)),
        (8, 'expires_at', 'expected a time that comes', NOT isfinite(p_expires_at)),
        (9, 'expires_at', 'is over already', isfinite(p_expires_at) AND p_expires_at <= statement_timestamp()),
        (10, 'expires_at', 'is not after scheduled_for', isfinite(p_expires_at) AND p_expires_at > statement_timestamp()
            AND isfinite(p_scheduled_for) AND p_expires_at <= p_scheduled_for),
        (11, 'max_attempts', 'expected a number from 1 to 100', coalesce(p_max_attempts, 0) NOT BETWEEN 1 AND 100),
        (12, 'locale', 'expected 1 to 100 characters', length(p_locale) NOT BETWEEN 1 AND 100),
        (13, 'topic', 'expected up to 64 of a to z, 0 to 9, ._- and no sign at the beginning',
            p_topic !~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
        (14, 'tenant_id', 'expected 1 to 100 characters', length(p_tenant_id) NOT BETWEEN 1 AND 100),
        (15, 'workspace_id', 'expected 1 to 100 characters', length(p_workspace_id) NOT BETWEEN 1 AND 100)
      ) AS f (place, name, words, is_wrong)
     WHERE f.is_wrong;
    IF p_template IS NOT NULL THEN
        found := dispatcher.parts_fault(p_template, bytes_max);
        IF found IS NOT NULL THEN faults := faults || dispatcher.fault('$.template', found); END IF;
    ELSIF stored AND length(p_template_name) BETWEEN 1 AND 100 AND p_channel IS NOT NULL THEN
        found := dispatcher.template_fault(p_tenant_id, p_workspace_id, p_template_name, left(p_channel, 32));
        IF found IS NOT NULL THEN faults := faults || dispatcher.fault('$.template_name', found); END IF;
    END IF;
    RETURN faults || dispatcher.object_faults('$.variables', p_variables, bytes_max)
                  || dispatcher.object_faults('$.options', p_options, bytes_max)
                  || dispatcher.traceparent_faults(p_traceparent);
END $$;

-- Write a delivery, or find the one that its key has written already, whatever else it is asked for now. Raises what is
-- wrong with it, all of it.
CREATE FUNCTION dispatcher.enqueue_delivery(
    channel text, recipient text, idempotency_key text, template jsonb DEFAULT NULL, template_name text DEFAULT NULL,
    variables jsonb DEFAULT '{}', options jsonb DEFAULT '{}', lane text DEFAULT 'normal',
    scheduled_for timestamptz DEFAULT NULL, expires_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 5,
    locale text DEFAULT NULL, topic text DEFAULT NULL, tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default', traceparent text DEFAULT NULL, OUT delivery_id bigint, OUT duplicate boolean,
    OUT status text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    tenant    CONSTANT text := coalesce(enqueue_delivery.tenant_id, 'default');
    workspace CONSTANT text := coalesce(enqueue_delivery.workspace_id, 'default');
    variables CONSTANT jsonb := coalesce(enqueue_delivery.variables, '{}');
    options   CONSTANT jsonb := coalesce(enqueue_delivery.options, '{}');
    lane      CONSTANT text := coalesce(enqueue_delivery.lane, 'normal');
    attempts  CONSTANT integer := coalesce(enqueue_delivery.max_attempts, 5);
    faults    jsonb;
    hash      text;
    known     text;
BEGIN
    PERFORM dispatcher.stay_within(tenant, workspace);
    LOOP
        FOREACH known IN ARRAY array_remove(ARRAY[enqueue_delivery.idempotency_key, hash], NULL) LOOP
            SELECT d.id, true, s.status INTO delivery_id, duplicate, status
              FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
             WHERE d.tenant_id = tenant AND d.workspace_id = workspace AND d.idempotency_key = known;
            IF FOUND THEN RETURN; END IF;
        END LOOP;
        IF faults IS NULL THEN
            faults := dispatcher.delivery_faults(enqueue_delivery.channel, enqueue_delivery.recipient, enqueue_delivery.idempotency_key, enqueue_delivery.template, enqueue_delivery.template_name,
                variables, options, lane, enqueue_delivery.scheduled_for, enqueue_delivery.expires_at, attempts, enqueue_delivery.locale, enqueue_delivery.topic, tenant, workspace,
                enqueue_delivery.traceparent);
            IF faults <> '[]' THEN
                PERFORM dispatcher.refuse('the delivery cannot be written: ' || dispatcher.faults_in_words(faults), faults);
            END IF;
        END IF;
        INSERT INTO dispatcher.deliveries (tenant_id, workspace_id, idempotency_key, channel, recipient, template,
               template_name, variables, options, lane, scheduled_for, expires_at, max_attempts, locale, topic,
               traceparent)
        VALUES (tenant, workspace, enqueue_delivery.idempotency_key, enqueue_delivery.channel, enqueue_delivery.recipient, enqueue_delivery.template, enqueue_delivery.template_name, variables, options,
                array_position(ARRAY['transactional', 'normal', 'bulk'], lane) - 1, coalesce(enqueue_delivery.scheduled_for, now()),
                enqueue_delivery.expires_at, attempts, enqueue_delivery.locale, enqueue_delivery.topic, enqueue_delivery.traceparent)
        ON CONFLICT ON CONSTRAINT deliveries_key DO NOTHING RETURNING id INTO delivery_id;
        EXIT WHEN FOUND;
        hash := dispatcher.erased(enqueue_delivery.idempotency_key);
    END LOOP;
    duplicate := false;
    SELECT s.status INTO status FROM dispatcher.delivery_state s WHERE s.id = delivery_id;
END $$;

-- The delivery of an id or a key, or of both where they agree.
CREATE FUNCTION dispatcher.find_delivery(
    p_delivery_id bigint, p_idempotency_key text, p_tenant_id text, p_workspace_id text
) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within(coalesce(p_tenant_id, 'default'), coalesce(p_workspace_id, 'default'));
    IF p_delivery_id IS NULL AND p_idempotency_key IS NULL THEN
        PERFORM dispatcher.refuse('delivery_id: expected the id of a delivery, or its idempotency_key',
            dispatcher.fault('$.delivery_id', 'expected the id of a delivery, or its idempotency_key'));
    END IF;
    IF p_delivery_id IS NULL THEN
        RETURN (SELECT d.id FROM dispatcher.deliveries d
                 WHERE d.tenant_id = coalesce(p_tenant_id, 'default') AND d.workspace_id = coalesce(p_workspace_id, 'default')
                   AND d.idempotency_key = p_idempotency_key);
    END IF;
    RETURN (SELECT d.id FROM dispatcher.deliveries d
             WHERE d.id = p_delivery_id AND d.tenant_id = coalesce(p_tenant_id, 'default')
               AND d.workspace_id = coalesce(p_workspace_id, 'default')
               AND (p_idempotency_key IS NULL OR d.idempotency_key = p_idempotency_key));
END $$;

-- Cancel a delivery until it is marked, by its id or its key. Answers what cancel_delivery_by_id does.
CREATE FUNCTION dispatcher.cancel_delivery(
    delivery_id bigint DEFAULT NULL, idempotency_key text DEFAULT NULL, reason text DEFAULT '',
    tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default', actor text DEFAULT session_user
) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.cancel_delivery_by_id(
        dispatcher.find_delivery(cancel_delivery.delivery_id, cancel_delivery.idempotency_key, cancel_delivery.tenant_id, cancel_delivery.workspace_id),
        coalesce(nullif(cancel_delivery.actor, ''), session_user), coalesce(cancel_delivery.reason, ''))
$$;

-- The first delivery that was written at a time or later, found by halving the ids, which are given out in about the order of
-- time; past all where there is none.
CREATE FUNCTION dispatcher.delivery_at(p_at timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    low   bigint := 0;
    high  bigint := (SELECT coalesce(max(d.id), 0) + 1 FROM dispatcher.deliveries d);
    found record;
BEGIN
    WHILE high - low > 1 LOOP
        SELECT d.id, d.created_at INTO found FROM dispatcher.deliveries d
         WHERE d.id >= low + (high - low) / 2 ORDER BY d.id LIMIT 1;
        IF found.id IS NULL OR found.created_at >= p_at THEN
            high := low + (high - low) / 2;
        ELSE
            low := found.id;
        END IF;
    END LOOP;
    RETURN high;
END $$;

REVOKE ALL ON FUNCTION dispatcher.parts_fault, dispatcher.delivery_faults, dispatcher.enqueue_delivery,
    dispatcher.find_delivery, dispatcher.cancel_delivery, dispatcher.delivery_at FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.delivery_at TO dispatcher_tenant;
