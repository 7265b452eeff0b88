-- The doors of an application, completed: what became of a run or a delivery, and not sending one after all.
--
-- As the others they run with their owner's rights, are nobody's by default, and know nothing of another workspace.


-- Where a run stands; no row where there is none.
CREATE FUNCTION dispatcher.run_status_v1(
    p_run_id bigint, p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default'
) RETURNS TABLE (
    execution_id bigint, workflow_name text, version integer, status text, current_steps text[], total_steps integer,
    idempotency_key text, triggered_by text, retry_count integer, error text, error_step text, note text, input jsonb,
    context jsonb, held bigint, deliveries_total bigint, available_at timestamptz, created_at timestamptz,
    started_at timestamptz, finished_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.id, r.workflow, v.number, r.status, ARRAY(SELECT jsonb_object_keys(r.state -> 'cursor') ORDER BY 1),
           v.total_steps, r.idempotency_key, r.triggered_by, r.retries::integer, r.error, r.error_node, r.note, r.input,
           r.input || coalesce(r.state -> 'vars', '{}'), coalesce(c.held, 0), coalesce(c.deliveries, 0), r.available_at,
           r.created_at, r.started_at, r.finished_at
      FROM dispatcher.runs r
      JOIN dispatcher.plan_versions v ON v.id = r.version_id
      LEFT JOIN dispatcher.run_deliveries c ON c.run_id = r.id
     WHERE r.id = p_run_id AND r.tenant_id = coalesce(p_tenant_id, 'default')
       AND r.workspace_id = coalesce(p_workspace_id, 'default')
$$;

CREATE FUNCTION dispatcher.run_status(
    run_id bigint, tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default'
) RETURNS TABLE (
    execution_id bigint, workflow_name text, version integer, status text, current_steps text[], total_steps integer,
    idempotency_key text, triggered_by text, retry_count integer, error text, error_step text, note text, input jsonb,
    context jsonb, held bigint, deliveries_total bigint, available_at timestamptz, created_at timestamptz,
    started_at timestamptz, finished_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM dispatcher.run_status_v1(run_id, tenant_id, workspace_id)
$$;


-- The delivery of an id or a key, or of both where they agree.
CREATE FUNCTION dispatcher.find_delivery_v1(
    p_delivery_id bigint, p_idempotency_key text, p_tenant_id text, p_workspace_id text
) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF p_delivery_id IS NULL AND p_idempotency_key IS NULL THEN
        PERFORM dispatcher.refuse_v1('delivery_id: expected the id of a delivery, or its idempotency_key',
            dispatcher.fault_v1('$.delivery_id', 'expected the id of a delivery, or its idempotency_key'));
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

-- Where a delivery stands; no row where there is none.
CREATE FUNCTION dispatcher.delivery_status_v1(
    p_delivery_id bigint DEFAULT NULL, p_idempotency_key text DEFAULT NULL, p_tenant_id text DEFAULT 'default',
    p_workspace_id text DEFAULT 'default'
) RETURNS TABLE (
    id bigint, idempotency_key text, channel text, recipient text, lane text, life text, status text, attempt integer,
    max_attempts integer, run_at timestamptz, finished_at timestamptz, provider_message_id text, error text
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.id, l.idempotency_key, l.channel, d.recipient, (ARRAY['transactional', 'normal', 'bulk'])[l.lane + 1], l.life,
           l.status, l.attempt::integer, l.max_attempts::integer, l.run_at, l.finished_at, l.provider_message_id, l.error
      FROM dispatcher.delivery_life l JOIN dispatcher.deliveries d USING (id)
     WHERE l.id = dispatcher.find_delivery_v1(p_delivery_id, p_idempotency_key, p_tenant_id, p_workspace_id)
$$;

CREATE FUNCTION dispatcher.delivery_status(
    delivery_id bigint DEFAULT NULL, idempotency_key text DEFAULT NULL, tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default'
) RETURNS TABLE (
    id bigint, idempotency_key text, channel text, recipient text, lane text, life text, status text, attempt integer,
    max_attempts integer, run_at timestamptz, finished_at timestamptz, provider_message_id text, error text
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM dispatcher.delivery_status_v1(delivery_id, idempotency_key, tenant_id, workspace_id)
$$;


-- Cancel a delivery until it is marked, by its id or its key. Answers what cancel_delivery_v1 does.
CREATE FUNCTION dispatcher.cancel_delivery_v2(
    p_delivery_id bigint DEFAULT NULL, p_idempotency_key text DEFAULT NULL, p_reason text DEFAULT '',
    p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default', p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.cancel_delivery_v1(
        dispatcher.find_delivery_v1(p_delivery_id, p_idempotency_key, p_tenant_id, p_workspace_id),
        coalesce(nullif(p_actor, ''), session_user), coalesce(p_reason, ''))
$$;

CREATE FUNCTION dispatcher.cancel_delivery(
    delivery_id bigint DEFAULT NULL, idempotency_key text DEFAULT NULL, reason text DEFAULT '',
    tenant_id text DEFAULT 'default', workspace_id text DEFAULT 'default', actor text DEFAULT session_user
) RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT dispatcher.cancel_delivery_v2(delivery_id, idempotency_key, reason, tenant_id, workspace_id, actor)
$$;


REVOKE ALL ON FUNCTION dispatcher.run_status_v1, dispatcher.run_status, dispatcher.find_delivery_v1,
    dispatcher.delivery_status_v1, dispatcher.delivery_status, dispatcher.cancel_delivery_v2, dispatcher.cancel_delivery
    FROM PUBLIC;
