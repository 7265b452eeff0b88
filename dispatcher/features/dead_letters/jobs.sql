-- Dead letters of campaigns: a job of which deliveries have failed is one line, however many they are.

-- Send the failed deliveries of a job again. Answers replayed, partly replayed (others were erased or written as ended, which
-- cannot be sent), never queued (all were), cancelled (its run was), none (nothing of it has failed), or unknown.
CREATE FUNCTION dispatcher.replay_dead_job(
    p_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    actor    CONSTANT text := coalesce(nullif(p_actor, ''), session_user);
    job      dispatcher.job_queue;
    one      bigint;
    replayed integer := 0;
    kept     integer := 0;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    SELECT q.* INTO job FROM dispatcher.job_queue q
     WHERE q.id = p_id AND q.tenant_id = p_tenant_id AND q.workspace_id = p_workspace_id;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF EXISTS (SELECT FROM dispatcher.campaign_runs r WHERE r.id = job.run_id AND r.cancelled_at IS NOT NULL) THEN
        RETURN 'cancelled';
    END IF;
    FOR one IN
        SELECT s.id FROM dispatcher.delivery_state s
         WHERE s.id BETWEEN job.first_id AND job.last_id AND s.job_id = job.id AND s.status = 'failed' ORDER BY s.id
    LOOP
        IF dispatcher.reopen_delivery(one, actor, coalesce(p_reason, '')) = 'reopened' THEN
            replayed := replayed + 1;
        ELSE
            kept := kept + 1;
        END IF;
    END LOOP;
    IF replayed > 0 THEN PERFORM dispatcher.note_campaign(job.run_id, job.id, actor, 'replay', NULL, NULL, p_reason); END IF;
    RETURN CASE WHEN replayed = 0 AND kept = 0 THEN 'none'
                WHEN replayed = 0 THEN 'never queued'
                WHEN kept > 0 THEN 'partly replayed'
                ELSE 'replayed' END;
END $$;

-- Discard a job: it is no dead letter any more, until another of its deliveries has failed. Answers discarded, same, none
-- (nothing of it has failed), or unknown.
CREATE FUNCTION dispatcher.discard_dead_job(
    p_id bigint, p_reason text DEFAULT '', p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default',
    p_actor text DEFAULT session_user
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job dispatcher.job_queue;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    SELECT q.* INTO job FROM dispatcher.job_queue q
     WHERE q.id = p_id AND q.tenant_id = p_tenant_id AND q.workspace_id = p_workspace_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN RETURN 'unknown'; END IF;
    IF job.failed = 0 THEN RETURN 'none'; END IF;
    IF job.discarded_at IS NOT NULL THEN RETURN 'same'; END IF;
    UPDATE dispatcher.job_queue q SET discarded_at = statement_timestamp() WHERE q.id = p_id;
    PERFORM dispatcher.note_campaign(job.run_id, p_id, coalesce(nullif(p_actor, ''), session_user), 'discard', NULL, NULL, p_reason);
    RETURN 'discarded';
END $$;

-- Two views of the same rows: with the rights of their owner, and with those of the role that asks.
DO $views$
DECLARE
    rights text;
BEGIN
    FOREACH rights IN ARRAY ARRAY['dead_letters', 'visible_dead_letters WITH (security_invoker = true)'] LOOP
        EXECUTE 'CREATE VIEW dispatcher.' || rights || $body$ AS
SELECT 'run' AS kind, r.id, r.tenant_id, r.workspace_id, r.workflow AS name, r.error_node AS node, NULL AS channel,
       NULL AS recipient, r.idempotency_key, r.error, r.created_at, r.finished_at AS failed_at, r.retries
  FROM dispatcher.runs r WHERE r.dead
UNION ALL
SELECT 'delivery', d.id, d.tenant_id, d.workspace_id, d.template_name, NULL, d.channel, d.recipient, d.idempotency_key,
       s.error, d.created_at, s.finished_at, (SELECT count(*) FROM dispatcher.reopened_ends e WHERE e.delivery_id = d.id)::smallint
  FROM dispatcher.dead_deliveries l JOIN dispatcher.deliveries d ON d.id = l.delivery_id
  JOIN dispatcher.delivery_state s ON s.id = l.delivery_id
 WHERE l.discarded_at IS NULL
UNION ALL
SELECT 'job', q.id, q.tenant_id, q.workspace_id, r.campaign, NULL, r.channel, NULL, r.idempotency_key,
       concat(q.failed, ' of ', q.intended, ' deliveries of run ', q.run_id, ' have failed', ': ' || q.error), q.created_at,
       coalesce(q.finished_at, r.counted_at, q.created_at),
       (SELECT count(*) FROM dispatcher.campaign_events e WHERE e.job_id = q.id AND e.event = 'replay')::smallint
  FROM dispatcher.job_queue q JOIN dispatcher.campaign_runs r ON r.id = q.run_id
 WHERE q.failed > 0 AND q.discarded_at IS NULL$body$;
    END LOOP;
END $views$;

REVOKE ALL ON FUNCTION dispatcher.replay_dead_job, dispatcher.discard_dead_job FROM PUBLIC;
GRANT SELECT ON dispatcher.visible_dead_letters TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.replay_dead_job, dispatcher.discard_dead_job TO dispatcher_tenant;
