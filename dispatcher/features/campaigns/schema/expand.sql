-- Expansion: a job is locked in one transaction, and becomes deliveries in another.
--
-- An application may keep the row of a run or a job locked. That run or job waits for it, and no other.

-- Lock a run, waiting a moment for whoever has it; false: it is still taken.
CREATE FUNCTION dispatcher.reach_campaign_run(p_run_id bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
BEGIN
    PERFORM FROM dispatcher.campaign_runs r WHERE r.id = p_run_id FOR NO KEY UPDATE;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- How many deliveries of a run may wait: a minute of its rate at most.
CREATE FUNCTION dispatcher.campaign_ahead(p_rate double precision, p_ahead bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_rate IS NULL THEN p_ahead ELSE least(p_ahead, greatest(1, p_rate * 60)) END
$$;

-- Lock a job for an instance, of the run that has the fewest deliveries; answers its id, null where no run has room. What is
-- written of a run and has neither ended nor is deferred is p_ahead deliveries at most, or a minute of its rate.
CREATE FUNCTION dispatcher.lock_job(p_epoch bigint, p_ahead bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dispatcher.campaign_runs;
    job bigint;
BEGIN
    PERFORM FROM dispatcher.instances i WHERE i.epoch = p_epoch FOR KEY SHARE;
    IF NOT FOUND THEN RETURN NULL; END IF;
    -- One that it has already: the answer was lost, or its expansion was.
    SELECT q.id INTO job FROM dispatcher.job_queue q JOIN dispatcher.campaign_runs r ON r.id = q.run_id
     WHERE q.status = 'locked' AND q.expanded_at IS NULL AND q.locked_by = p_epoch
       AND NOT EXISTS (SELECT FROM dispatcher.tenant_placements t WHERE t.tenant_id = q.tenant_id AND t.state <> 'here') LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN RETURN job; END IF;
    FOR run IN
        SELECT r.* FROM dispatcher.campaign_runs r
         WHERE r.finished_at IS NULL
           AND NOT EXISTS (SELECT FROM dispatcher.tenant_placements t WHERE t.tenant_id = r.tenant_id AND t.state <> 'here')
           AND (r.cancelled_at IS NOT NULL
                OR r.paused_at IS NULL AND r.scheduled_for <= statement_timestamp()
                   AND r.expanded - r.sent - r.failed - r.skipped - r.cancelled - r.expired - r.held - r.deferred
                       < dispatcher.campaign_ahead(r.rate, p_ahead)
                   AND dispatcher.window_wait(r.send_window, statement_timestamp()) = 0)
           AND EXISTS (SELECT FROM dispatcher.job_queue w
                        WHERE w.run_id = r.id AND w.status = 'queued' AND w.available_at <= statement_timestamp())
         ORDER BY r.expanded
    LOOP
        CONTINUE WHEN NOT dispatcher.reach_campaign_run(run.id);
        UPDATE dispatcher.job_queue q
           SET status = 'locked', locked_at = statement_timestamp(), locked_by = p_epoch, attempts = attempts + 1
         WHERE q.id = (SELECT w.id FROM dispatcher.job_queue w
                        WHERE w.run_id = run.id AND w.status = 'queued' AND w.available_at <= statement_timestamp()
                        ORDER BY w.id LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING q.id INTO job;
        CONTINUE WHEN NOT FOUND;
        PERFORM dispatcher.note_campaign(run.id, job, 'dispatcher', 'status', 'queued', 'locked', '');
        UPDATE dispatcher.campaign_runs r SET status = 'running', started_at = statement_timestamp()
         WHERE r.id = run.id AND r.status = 'queued';
        IF FOUND THEN PERFORM dispatcher.note_campaign(run.id, NULL, 'dispatcher', 'status', 'queued', 'running', ''); END IF;
        RETURN job;
    END LOOP;
    RETURN NULL;
END $$;

-- What paths read of a contact, as an expression over `c`: an object without what the contact lacks. (A function of the contact
-- takes 30 microseconds a row, the expression 5.)
CREATE FUNCTION dispatcher.contact_expression(p_reads text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' || ', '''{}''::jsonb',
               (SELECT string_agg(format('CASE WHEN c.%1$I IS NULL THEN ''{}'' ELSE jsonb_build_object(%1$L, c.%1$I) END', f.name),
                                  ' || ' ORDER BY f.name)
                  FROM unnest('{key,name,company,status,locale,time_zone,tags}'::text[]) AS f (name)
                 WHERE EXISTS (SELECT FROM unnest(p_reads) AS r WHERE r = 'contact' OR r = 'contact.' || f.name
                                  OR starts_with(r, 'contact.' || f.name || '.') OR starts_with(r, 'contact.' || f.name || '['))),
               CASE WHEN EXISTS (SELECT FROM unnest(p_reads) AS r WHERE r = 'contact' OR r ~ '^contact(\.attributes($|\[)|\[)')
                    THEN 'jsonb_build_object(''attributes'', c.attributes)'
                    ELSE (SELECT format('jsonb_build_object(''attributes'', %s)', string_agg(format(
                                     'CASE WHEN c.attributes ? %1$L THEN jsonb_build_object(%1$L, c.attributes -> %1$L) ELSE ''{}'' END', a.name),
                                     ' || ' ORDER BY a.name))
                            FROM (SELECT DISTINCT substring(r FROM '^contact\.attributes\.([^.\[]+)') AS name FROM unnest(p_reads) AS r) AS a
                           WHERE a.name IS NOT NULL HAVING count(*) > 0) END)
$$;

-- Write the deliveries of a job that an instance has locked: one for each of its contacts, also for those that get no message,
-- with the reason. All of them or none. Answers how many; null where the job is not this instance's any more, or somebody keeps
-- it or its run locked. (The run's row is locked: expansions of a run come one behind another, so that each sees to whom the
-- others have written.)
-- Its commit waits for no disk. What it writes is marked before anything is sent, and the commit of a mark writes all that was
-- committed before it. An expansion that a crash of the server takes along leaves its job locked and not expanded, without a row
-- of it and without a counter: its owner, or who takes the job back, expands it again, under the same keys.
CREATE FUNCTION dispatcher.expand_job(p_job_id bigint, p_epoch bigint, p_dead text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run     dispatcher.campaign_runs;
    job     dispatcher.job_queue;
    version dispatcher.template_versions;
    first   timestamptz;
    step    interval;
    why     text;
    items   text;
    kind    text;
BEGIN
    PERFORM FROM dispatcher.instances i WHERE i.epoch = p_epoch FOR KEY SHARE;
    IF NOT FOUND THEN RETURN NULL; END IF;
    IF NOT dispatcher.reach_campaign_run((SELECT q.run_id FROM dispatcher.job_queue q WHERE q.id = p_job_id)) THEN RETURN NULL; END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT r.* INTO run FROM dispatcher.campaign_runs r JOIN dispatcher.job_queue q ON q.run_id = r.id
     WHERE q.id = p_job_id FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN NULL; END IF;
    -- Its tenant is being moved to another cell: it stays locked, and is expanded there.
    IF EXISTS (SELECT FROM dispatcher.tenant_placements t WHERE t.tenant_id = run.tenant_id AND t.state <> 'here') THEN RETURN NULL; END IF;
    UPDATE dispatcher.job_queue q SET expanded_at = statement_timestamp()
     WHERE q.id = p_job_id AND q.status = 'locked' AND q.locked_by = p_epoch AND q.expanded_at IS NULL
    RETURNING q.* INTO job;
    IF NOT FOUND THEN RETURN NULL; END IF;
    -- Against an erasure, which deletes contacts first and waits for us then: what we write is erased by it.
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('dispatcher.contacts ' || run.tenant_id || ' ' || run.workspace_id, 0));
    SELECT v.* INTO STRICT version FROM dispatcher.template_versions v WHERE v.id = run.template_version;
    first := greatest(run.scheduled_for, run.next_at, statement_timestamp());
    step := make_interval(secs => coalesce(1 / run.rate, 0));
    why := CASE WHEN p_dead IS NOT NULL THEN 'failed: job dead: ' || p_dead
                WHEN run.cancelled_at IS NOT NULL THEN 'skipped: cancelled: its run was cancelled' END;
    kind := dispatcher.address_kind(run.channel);
    items := format($items$
        WITH written AS (
            INSERT INTO dispatcher.deliveries (run_id, job_id, contact_id, scheduled_for, lane, tenant_id, workspace_id, idempotency_key,
                                               channel, recipient, template_name, template_version, locale, topic, variables, ended)
            SELECT $1.id, $2.id, coalesce(c.id, i.contact_id, 0), $4 + (i.place - 1) * $5, $1.lane, $1.tenant_id, $1.workspace_id,
                   CASE WHEN k.taken_by IS NULL THEN k.key ELSE k.key || '.' || $2.id END, $1.channel,
                   coalesce(i.recipient, a.written, ''), $1.template_name, $1.template_version,
                   CASE WHEN cardinality($3.locales) = 1 THEN $3.default_locale
                        ELSE dispatcher.nearest_locale(c.locale, $3.locales, $3.default_locale) END,
                   $1.topic,
                   CASE WHEN $6 IS NOT NULL OR c.id IS NULL THEN $1.variables
                        ELSE $1.variables || jsonb_build_object('contact', %s) END,
                   CASE WHEN $6 IS NOT NULL THEN $6
                        WHEN k.taken_by IS NOT NULL THEN 'skipped: duplicate: delivery ' || k.taken_by || ' has its key'
                        -- An address that was erased is its hash.
                        WHEN i.recipient ~ '^sha256:[0-9a-f]{64}$' THEN 'skipped: contact is gone'
                        WHEN i.recipient IS NOT NULL THEN NULL
                        WHEN c.id IS NULL THEN 'skipped: contact is gone'
                        WHEN a.written IS NULL THEN 'skipped: no address'
                        -- Only a contact that has changed since can have an address that was another's.
                        WHEN age(c.xmin) <= age($1.frozen_at::xid) AND EXISTS (
                            SELECT FROM dispatcher.deliveries d
                             WHERE dispatcher.address_hash(d.recipient) = dispatcher.address_hash(a.written) AND d.run_id = $1.id
                               AND d.ended IS NULL AND lower(d.recipient COLLATE "C") IN (a.address, lower(a.written COLLATE "C")))
                        THEN 'skipped: duplicate: the run has already written to this address' END
              FROM (SELECT j.contact_id, NULL::text AS recipient, j.place FROM unnest($2.contact_ids) WITH ORDINALITY AS j (contact_id, place)
                     WHERE $2.recipients IS NULL
                     UNION ALL
                    SELECT $2.contact_ids[1], t.recipient, t.place FROM unnest($2.recipients) WITH ORDINALITY AS t (recipient, place)) AS i
             CROSS JOIN LATERAL (
                   SELECT n.key, CASE WHEN $8 THEN (SELECT d.id FROM dispatcher.deliveries d
                                                     WHERE d.tenant_id = $1.tenant_id AND d.workspace_id = $1.workspace_id
                                                       AND d.idempotency_key = n.key) END AS taken_by
                     FROM (SELECT dispatcher.campaign_key($1.id, coalesce(i.recipient, i.contact_id::text), $1.template_version,
                                                          $1.scheduled_for) AS key OFFSET 0) AS n) AS k
              LEFT JOIN dispatcher.contacts c ON c.id = i.contact_id
              LEFT JOIN LATERAL (SELECT h.written, h.address FROM dispatcher.contact_addresses h
                                  WHERE h.contact_id = c.id AND h.kind = $7 ORDER BY h.position LIMIT 1) AS a ON true
            RETURNING id, ended
        ), counted AS (
            INSERT INTO dispatcher.job_results (job_id, class, reason, count)
            SELECT $2.id, dispatcher.result_class(w.status, false, w.reason), dispatcher.result_reason(w.reason), count(*)
              FROM (SELECT split_part(ended, ': ', 1) AS status, substr(ended, strpos(ended, ': ') + 2) AS reason
                      FROM written WHERE ended IS NOT NULL) AS w
             GROUP BY 2, 3
        )
        UPDATE dispatcher.job_queue q SET first_id = w.first_id, last_id = w.last_id
          FROM (SELECT min(id) AS first_id, max(id) AS last_id FROM written) AS w WHERE q.id = $2.id
        $items$, dispatcher.contact_expression(run.reads));
    BEGIN
        EXECUTE items USING run, job, version, first, step, why, kind, false;
    EXCEPTION WHEN unique_violation THEN
        -- Somebody else has the key of one of them. Which of them it is, is looked up only now: it costs a tenth of the time.
        EXECUTE items USING run, job, version, first, step, why, kind, true;
    END;
    UPDATE dispatcher.campaign_runs r
       SET expanded = r.expanded + job.intended, next_at = CASE WHEN r.rate IS NOT NULL THEN first + job.intended * step END
     WHERE r.id = run.id;
    RETURN job.intended;
END $$;

-- Give up on a job: its deliveries are written as failed, and then the closer makes it dead. Answers dead; busy where somebody
-- keeps its run locked, and nothing is done; or why its deliveries cannot even be written as failed.
CREATE FUNCTION dispatcher.bury_job(p_job_id bigint, p_epoch bigint, p_reason text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT dispatcher.reach_campaign_run((SELECT q.run_id FROM dispatcher.job_queue q WHERE q.id = p_job_id)) THEN RETURN 'busy'; END IF;
    UPDATE dispatcher.job_queue q SET locked_by = p_epoch, given_up = true, error = p_reason WHERE q.id = p_job_id;
    IF dispatcher.expand_job(p_job_id, p_epoch, p_reason) IS NULL THEN
        RAISE EXCEPTION 'its instance has ended' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN 'dead';
EXCEPTION
    WHEN serialization_failure OR deadlock_detected OR lock_not_available THEN RAISE;
    WHEN others THEN RETURN SQLERRM;
END $$;

-- Let a job be locked again, or give it up behind its third attempt. One that cannot be given up either (a trigger of an
-- application refuses its deliveries) is tried again from time to time.
CREATE FUNCTION dispatcher.retry_job(p_job dispatcher.job_queue, p_epoch bigint, p_reason text, p_delay_seconds double precision)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    attempts_max    CONSTANT integer := 3;
    put_off_seconds CONSTANT double precision := 60;
    delay           double precision := p_delay_seconds;
    reason          text := p_reason;
    became          text;
BEGIN
    IF p_job.attempts >= attempts_max THEN
        became := dispatcher.bury_job(p_job.id, p_epoch, p_reason);
        IF became IN ('dead', 'busy') THEN RETURN became; END IF;
        reason := left('cannot be given up: ' || became || '; ' || p_reason, 2000);
        delay := put_off_seconds;
    END IF;
    UPDATE dispatcher.job_queue q
       SET status = 'queued', locked_by = NULL, locked_at = NULL, error = reason,
           available_at = statement_timestamp() + make_interval(secs => delay)
     WHERE q.id = p_job.id;
    PERFORM dispatcher.note_campaign(p_job.run_id, p_job.id, 'dispatcher', 'status', 'locked', 'queued', reason);
    RETURN 'queued';
END $$;

-- Take back jobs whose owner is dead and has held them for so long without expanding them. Answers how many are queued again,
-- and how many are dead.
CREATE FUNCTION dispatcher.take_back_jobs(p_epoch bigint, p_lock_seconds double precision, p_page integer, OUT queued bigint, OUT dead bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stale  dispatcher.job_queue;
    became text;
BEGIN
    queued := 0;
    dead := 0;
    FOR stale IN
        SELECT q.* FROM dispatcher.job_queue q
         WHERE q.status = 'locked' AND q.expanded_at IS NULL
           AND q.locked_at < statement_timestamp() - make_interval(secs => p_lock_seconds)
           AND NOT EXISTS (SELECT FROM dispatcher.instances i WHERE i.epoch = q.locked_by)
           AND EXISTS (SELECT FROM dispatcher.campaign_runs r WHERE r.id = q.run_id)
           AND NOT EXISTS (SELECT FROM dispatcher.tenant_placements t WHERE t.tenant_id = q.tenant_id AND t.state <> 'here')
         ORDER BY q.id LIMIT p_page FOR UPDATE OF q SKIP LOCKED
    LOOP
        became := dispatcher.retry_job(stale, p_epoch, 'its worker died', 0);
        queued := queued + (became = 'queued')::int;
        dead := dead + (became = 'dead')::int;
    END LOOP;
END $$;

-- An instance ends: what it has locked and not expanded is free again, as if it had not been locked.
CREATE FUNCTION dispatcher.release_jobs(p_epoch bigint) RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    WITH freed AS (
        UPDATE dispatcher.job_queue q SET status = 'queued', locked_by = NULL, locked_at = NULL, attempts = q.attempts - 1
         WHERE q.id IN (SELECT w.id FROM dispatcher.job_queue w
                         WHERE w.status = 'locked' AND w.expanded_at IS NULL AND w.locked_by = p_epoch FOR UPDATE SKIP LOCKED)
        RETURNING q.id, q.run_id
    ), noted AS (
        INSERT INTO dispatcher.campaign_events (run_id, job_id, actor, event, status_before, status, reason)
        SELECT f.run_id, f.id, 'dispatcher', 'status', 'locked', 'queued', 'its worker ended' FROM freed f
    )
    SELECT count(*) FROM freed
$$;

-- An expansion of this instance's has failed on what its rows say. Answers queued, dead, busy or lost.
CREATE FUNCTION dispatcher.fail_job(p_job_id bigint, p_epoch bigint, p_reason text, p_delay_seconds double precision) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job dispatcher.job_queue;
BEGIN
    SELECT q.* INTO job FROM dispatcher.job_queue q
     WHERE q.id = p_job_id AND q.status = 'locked' AND q.locked_by = p_epoch AND q.expanded_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN RETURN 'lost'; END IF;
    RETURN dispatcher.retry_job(job, p_epoch, p_reason, p_delay_seconds);
END $$;

REVOKE ALL ON FUNCTION dispatcher.reach_campaign_run, dispatcher.lock_job, dispatcher.expand_job, dispatcher.bury_job, dispatcher.retry_job,
    dispatcher.take_back_jobs, dispatcher.release_jobs, dispatcher.fail_job FROM PUBLIC;
