-- Receivers that de-duplicate by key, each for itself; and what a restored database does to runs.


-- As before; a delivery whose receiver honours its key is sent again though its channel promises nothing, and none is that
-- belongs to a run that has failed or was cancelled. (They are locked before it is asked what has become of their runs.)
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
        PERFORM FROM dispatcher.delivery_state s
          WHERE s.id = ANY (orphan.ids) AND s.token = orphan.token AND s.status = 'queued' ORDER BY s.id FOR UPDATE;
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
               AND NOT EXISTS (SELECT FROM dispatcher.runs r WHERE r.id = s.wakes AND r.status IN ('failed', 'cancelled'))
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


-- Runs that may have come further in another life of this database. One that does nothing but wait for a time after p_due has
-- come nowhere.
CREATE FUNCTION dispatcher.suspect_runs_v1(p_before timestamptz, p_due timestamptz) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.id FROM dispatcher.runs r
     WHERE r.finished_at IS NULL AND r.status <> 'paused' AND r.created_at < p_before
       AND NOT (r.status = 'waiting' AND coalesce(r.available_at > p_due, false)
                AND NOT jsonb_path_exists(r.state, '$.cursor.* ? (@.standing != "delaying")'))
$$;

-- They rest until somebody looks at them. (What a walk changes meanwhile is locked, and rests as it is then.)
CREATE FUNCTION dispatcher.quarantine_runs_v1(
    p_before timestamptz, p_actor text, p_reason text, p_due timestamptz DEFAULT statement_timestamp()
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    resting bigint;
BEGIN
    WITH suspect AS (
        SELECT r.id FROM dispatcher.runs r
         WHERE r.finished_at IS NULL AND r.status <> 'paused' AND r.id IN (SELECT dispatcher.suspect_runs_v1(p_before, p_due))
         ORDER BY r.id FOR UPDATE
    ), rested AS (
        UPDATE dispatcher.runs r
           SET status = 'paused', available_at = NULL, paused_at = statement_timestamp(), note = 'quarantined: ' || p_reason,
               state = jsonb_set(r.state, '{entries}', to_jsonb(coalesce((r.state ->> 'entries')::integer, 0) + 1))
          FROM suspect WHERE r.id = suspect.id
        RETURNING r.id, (r.state ->> 'entries')::integer - 1 AS number
    ), noted AS (
        INSERT INTO dispatcher.run_entries (run_id, number, event, error)
        SELECT id, number, 'paused', concat_ws(': ', p_actor, 'quarantined', p_reason) FROM rested
    )
    SELECT count(*) INTO resting FROM rested;
    RETURN resting;
END $$;

-- As before, with the runs. They go first: runs are locked before state rows.
CREATE FUNCTION dispatcher.quarantine_v2(
    p_before timestamptz, p_actor text, p_reason text, p_due timestamptz DEFAULT statement_timestamp()
) RETURNS TABLE (deliveries bigint, runs bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    runs := dispatcher.quarantine_runs_v1(p_before, p_actor, p_reason, p_due);
    deliveries := dispatcher.quarantine_v1(p_before, p_actor, p_reason, p_due);
    RETURN NEXT;
END $$;

-- As before, with the runs; answers how many deliveries and runs were quarantined, together.
CREATE FUNCTION dispatcher.see_cluster_v2() RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_first    boolean;
    quarantined bigint;
BEGIN
    IF dispatcher.cluster_is_known_v1() THEN RETURN NULL; END IF;
    LOCK TABLE dispatcher.clusters IN EXCLUSIVE MODE;
    IF dispatcher.cluster_is_known_v1() THEN RETURN NULL; END IF;
    DELETE FROM dispatcher.clusters;
    is_first := NOT FOUND;
    INSERT INTO dispatcher.clusters (system_identifier, timeline, database_oid, schema_oid)
    SELECT h.system_identifier, h.timeline, h.database_oid, h.schema_oid FROM dispatcher.here_v1() h;
    IF is_first THEN RETURN NULL; END IF;
    SELECT q.deliveries + q.runs INTO quarantined FROM dispatcher.quarantine_v2('infinity', 'dispatcher',
        'the database was restored, copied or failed over, and marks may have been forgotten',
        statement_timestamp() + interval '1 minute') AS q;
    RETURN quarantined;
END $$;


REVOKE ALL ON FUNCTION dispatcher.recover_v3, dispatcher.suspect_runs_v1, dispatcher.quarantine_runs_v1,
    dispatcher.quarantine_v2, dispatcher.see_cluster_v2 FROM PUBLIC;
