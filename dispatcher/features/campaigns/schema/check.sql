-- The check of a run: the contract's three sentences, proven from the items of its jobs and their rows alone.
--
--   1  the run is terminal
--   2  each intended item has a terminal row
--   3  there are no duplicates: an item has one row, by its key; no address is written to twice; no provider has given two
--      messages one id
--
-- Counters are not looked at: they say what was counted, and not what there is.

-- What is wrong with the items of a job, one row each. The key of an item is made anew from the job's array.
CREATE FUNCTION dispatcher.job_breaches(p_run dispatcher.campaign_runs, p_job dispatcher.job_queue)
RETURNS TABLE (sentence integer, job_id bigint, item text, delivery_id bigint, fault text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH items AS MATERIALIZED (
        SELECT i.item, count(*) AS times,
               dispatcher.campaign_key((p_run).id, i.item, (p_run).template_version, (p_run).scheduled_for) AS key
          FROM unnest(coalesce((p_job).recipients, (p_job).contact_ids::text[])) AS i (item)
         GROUP BY 1
    ), found AS MATERIALIZED (
        SELECT i.item, i.times, i.key, d.id, d.run_id, d.job_id, s.status, s.held, s.id IS NULL AS stateless
          FROM items i
          -- By the indexes, one by one: a plan that was made while the tables were small reads all of them for each job.
          LEFT JOIN LATERAL (SELECT o.id, o.run_id, o.job_id FROM dispatcher.deliveries o
                              WHERE o.tenant_id = (p_run).tenant_id AND o.workspace_id = (p_run).workspace_id
                                AND o.idempotency_key = i.key LIMIT 1) AS d ON true
          LEFT JOIN LATERAL (SELECT o.id, o.status, o.held FROM dispatcher.delivery_state o WHERE o.id = d.id LIMIT 1) AS s ON true
    )
    SELECT b.sentence, (p_job).id, f.item, f.id, b.fault
      FROM found f
      JOIN LATERAL (
           VALUES (2, CASE WHEN f.id IS NULL THEN 'has no row'
                           WHEN f.stateless THEN 'its row has no state'
                           WHEN f.held THEN 'is held: nobody knows whether it was sent'
                           WHEN f.status = 'queued' THEN 'its row is not terminal' END),
                  (3, CASE WHEN f.times > 1 THEN format('is in its job %s times', f.times)
                           WHEN (f.run_id, f.job_id) <> ((p_run).id, (p_job).id)
                           THEN format('its row belongs to job %s of run %s', f.job_id, f.run_id) END)
           ) AS b (sentence, fault) ON b.fault IS NOT NULL
    UNION ALL
    SELECT 3, (p_job).id, coalesce(nullif(d.contact_id, 0)::text, d.recipient), d.id, 'a row of no item of its job'
      FROM dispatcher.deliveries d
     WHERE d.id BETWEEN (p_job).first_id AND (p_job).last_id AND d.job_id = (p_job).id
       AND d.idempotency_key NOT IN (SELECT i.key FROM items i)
$$;

-- What is wrong with a run as a whole: its status, rows beyond its jobs, addresses and messages that are there twice. (It reads all
-- deliveries of the run, which the settings of the program's sessions are not made for.)
CREATE FUNCTION dispatcher.run_breaches(p_run dispatcher.campaign_runs)
RETURNS TABLE (sentence integer, job_id bigint, item text, delivery_id bigint, fault text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
SET enable_seqscan = on SET enable_hashjoin = on SET enable_mergejoin = on AS $$
    SELECT 1, NULL::bigint, NULL::text, NULL::bigint, format('the run is %s', (p_run).status)
     WHERE (p_run).status NOT IN ('completed', 'partial', 'failed')
    UNION ALL
    SELECT 3, d.job_id, coalesce(nullif(d.contact_id, 0)::text, d.recipient), d.id, 'a row of the run that no job has written'
      FROM dispatcher.deliveries d
     WHERE d.run_id = (p_run).id AND d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
       AND NOT EXISTS (SELECT FROM dispatcher.job_queue q
                        WHERE q.id = d.job_id AND q.run_id = (p_run).id AND d.id BETWEEN q.first_id AND q.last_id)
    UNION ALL
    SELECT 3, (array_agg(w.job_id ORDER BY w.id))[2], (array_agg(w.item ORDER BY w.id))[2], (array_agg(w.id ORDER BY w.id))[2],
           format('its address was written to by %s deliveries', count(*))
      FROM (SELECT d.id, d.job_id, coalesce(nullif(d.contact_id, 0)::text, d.recipient) AS item, lower(d.recipient COLLATE "C") AS address
              FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s ON s.id = d.id
             WHERE d.run_id = (p_run).id AND d.contact_id IS NOT NULL AND d.recipient <> 'erased'
               AND (s.held OR s.status IN ('sent', 'called', 'posted'))) AS w
     GROUP BY w.address HAVING count(*) > 1
    UNION ALL
    SELECT 3, (array_agg(d.job_id ORDER BY d.id))[2], (array_agg(coalesce(nullif(d.contact_id, 0)::text, d.recipient) ORDER BY d.id))[2],
           (array_agg(d.id ORDER BY d.id))[2], format('%s deliveries have its provider''s message id', count(*))
      FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s ON s.id = d.id
     WHERE d.run_id = (p_run).id AND d.contact_id IS NOT NULL AND s.provider_message_id <> ''
     GROUP BY s.provider_message_id HAVING count(*) > 1
$$;

-- Check a run, up to p_jobs of its jobs behind p_after (null: all of them); with the first ones also the run as a whole. Answers
-- its status, how many jobs and items were looked at, the last of the jobs (null: there are no more), how many break each
-- sentence, and the first of those that do. No row: there is no such run.
CREATE FUNCTION dispatcher.check_campaign_run(
    p_run_id bigint, p_tenant_id text DEFAULT 'default', p_workspace_id text DEFAULT 'default', p_after bigint DEFAULT 0,
    p_jobs integer DEFAULT NULL
) RETURNS TABLE (status text, jobs bigint, items bigint, last_job bigint, broken bigint[], breaches jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    breaches_max CONSTANT integer := 100;
    run  dispatcher.campaign_runs;
    job  dispatcher.job_queue;
    one  record;
    more boolean := false;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    SELECT r.* INTO run FROM dispatcher.campaign_runs r
     WHERE r.id = p_run_id AND r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id;
    IF NOT FOUND THEN RETURN; END IF;
    status := run.status;
    jobs := 0;
    items := 0;
    broken := '{0,0,0}';
    breaches := '[]';
    IF p_after = 0 THEN
        FOR one IN SELECT b.* FROM dispatcher.run_breaches(run) AS b ORDER BY b.sentence, b.delivery_id LOOP
            broken[one.sentence] := broken[one.sentence] + 1;
            IF jsonb_array_length(breaches) < breaches_max THEN breaches := breaches || to_jsonb(one); END IF;
        END LOOP;
    END IF;
    FOR job IN SELECT q.* FROM dispatcher.job_queue q WHERE q.run_id = run.id AND q.id > p_after ORDER BY q.id LOOP
        more := jobs >= p_jobs;
        EXIT WHEN more;
        FOR one IN SELECT b.* FROM dispatcher.job_breaches(run, job) AS b ORDER BY b.sentence, b.delivery_id NULLS FIRST, b.item LOOP
            broken[one.sentence] := broken[one.sentence] + 1;
            IF jsonb_array_length(breaches) < breaches_max THEN breaches := breaches || to_jsonb(one); END IF;
        END LOOP;
        jobs := jobs + 1;
        items := items + job.intended;
        last_job := job.id;
    END LOOP;
    IF more IS NOT TRUE THEN last_job := NULL; END IF;
    RETURN NEXT;
END $$;

REVOKE ALL ON FUNCTION dispatcher.job_breaches, dispatcher.run_breaches, dispatcher.check_campaign_run FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.check_campaign_run TO dispatcher_tenant;
