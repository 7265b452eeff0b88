-- Receivers that de-duplicate by key, each for itself; and what a restored database does to runs.


-- As before; a delivery whose receiver honours its key is sent again though its channel promises nothing.
CREATE FUNCTION dispatcher.recover_v3(p_page integer)
RETURNS TABLE (claims bigint, requeued bigint, retried bigint, held bigint, poisoned bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    orphan record;
    moved  bigint;
BEGIN
    claims := 0; requeued := 0; retried := 0; held := 0; poisoned := 0;
    FOR orphan IN
        SELECT c.token, c.ids, c.resend_by, c.key_seconds, c.settle_seconds FROM dispatcher.claims c
         WHERE NOT EXISTS (SELECT FROM dispatcher.instances i WHERE i.epoch = c.epoch)
           AND EXISTS (SELECT FROM dispatcher.delivery_state s
                        WHERE s.id = ANY (c.ids) AND s.token = c.token AND s.status = 'queued' AND NOT s.held)
         ORDER BY c.token LIMIT p_page FOR UPDATE SKIP LOCKED
    LOOP
        claims := claims + 1;
        WITH poison AS (
            UPDATE dispatcher.delivery_state s
               SET status = 'failed', finished_at = statement_timestamp(), recoveries = s.recoveries + 1,
                   error = 'poison: whoever worked on it died, the last times with it alone'
             WHERE s.id = ANY (orphan.ids) AND s.token = orphan.token AND s.status = 'queued' AND NOT s.marked
               AND NOT s.held AND s.recoveries >= 5
            RETURNING s.held AS unknown
        )
        SELECT poisoned + count(*) FILTER (WHERE NOT p.unknown), held + count(*) FILTER (WHERE p.unknown)
          INTO poisoned, held FROM poison p;

        UPDATE dispatcher.delivery_state s SET ready = true, token = NULL, recoveries = s.recoveries + 1
         WHERE s.id = ANY (orphan.ids) AND s.token = orphan.token AND s.status = 'queued' AND NOT s.marked;
        GET DIAGNOSTICS moved = ROW_COUNT;
        requeued := requeued + moved;

        WITH again AS (
            SELECT s.id, s.attempt, coalesce(orphan.resend_by, 'key') AS resent_by
              FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
             WHERE (orphan.resend_by IS NOT NULL OR d.key_honoured) AND s.id = ANY (orphan.ids) AND s.token = orphan.token
               AND s.status = 'queued' AND s.marked AND NOT s.held AND s.attempt - s.attempt_base < d.max_attempts
             ORDER BY s.id FOR UPDATE OF s
        ), freed AS (
            UPDATE dispatcher.delivery_state s
               SET ready = true, token = NULL, marked = false, error = 'unknown: the owner died during the call',
                   settle_after = statement_timestamp() + make_interval(secs => orphan.settle_seconds),
                   resend_until = least(s.resend_until, coalesce(
                       s.key_used_at + make_interval(secs => orphan.key_seconds), 'infinity'))
              FROM again WHERE s.id = again.id
        ), kept AS (
            INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, next_at, reason, resent_by)
            SELECT id, orphan.token, attempt, 'unknown', statement_timestamp(), 'the owner died during the call',
                   resent_by
              FROM again
        )
        SELECT count(*) INTO moved FROM again;
        retried := retried + moved;

        UPDATE dispatcher.delivery_state s
           SET held = true, held_at = statement_timestamp(), error = 'unknown: the owner died during the call',
               settle_after = statement_timestamp() + make_interval(secs => orphan.settle_seconds)
         WHERE s.id = ANY (orphan.ids) AND s.token = orphan.token AND s.status = 'queued' AND s.marked AND NOT s.held;
        GET DIAGNOSTICS moved = ROW_COUNT;
        held := held + moved;
    END LOOP;
    IF requeued + retried > 0 THEN PERFORM pg_notify('dispatcher_work', ''); END IF;
    RETURN NEXT;
END $$;


-- Runs that may have come further in another life of this database rest until somebody looks at them.
CREATE FUNCTION dispatcher.quarantine_runs_v1(p_before timestamptz, p_actor text, p_reason text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one     bigint;
    resting bigint := 0;
BEGIN
    FOR one IN
        SELECT id FROM dispatcher.runs
         WHERE finished_at IS NULL AND status <> 'paused' AND created_at < p_before ORDER BY id FOR UPDATE
    LOOP
        UPDATE dispatcher.runs
           SET status = 'paused', available_at = NULL, paused_at = statement_timestamp(), note = 'quarantined: ' || p_reason
         WHERE id = one;
        PERFORM dispatcher.note_run_v1(one, 'paused', p_actor, 'quarantined: ' || p_reason);
        resting := resting + 1;
    END LOOP;
    RETURN resting;
END $$;

-- As before, with the runs. They go first: runs are locked before state rows.
CREATE FUNCTION dispatcher.quarantine_v2(p_before timestamptz, p_actor text, p_reason text)
RETURNS TABLE (deliveries bigint, runs bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    runs := dispatcher.quarantine_runs_v1(p_before, p_actor, p_reason);
    deliveries := dispatcher.quarantine_v1(p_before, p_actor, p_reason);
    RETURN NEXT;
END $$;

-- As before, with the runs; answers how many deliveries and runs were quarantined.
CREATE FUNCTION dispatcher.see_cluster_v2() RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    quarantined bigint := dispatcher.see_cluster_v1();
BEGIN
    IF quarantined IS NULL THEN RETURN NULL; END IF;
    RETURN quarantined + dispatcher.quarantine_runs_v1('infinity', 'dispatcher',
        'the database was restored, copied or failed over, and it may have come further there');
END $$;
