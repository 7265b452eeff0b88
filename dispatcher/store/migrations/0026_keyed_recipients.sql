-- Which recipients honour their keys is noted with the claim, by the configuration of the process that claims and marks.
--
-- What was wrong
--   A delivery said itself whether its receiver honours its key, and only runs wrote that: a function that is `idempotent`,
--   called in any other way, was held after a kill. A run went by the configuration of the process that had saved its
--   workflow, whatever became of that until the call.
--
-- How it is right
--   The claim carries the names of those recipients. What was claimed before a reload changes them is claimed again before it
--   is called, so the note says what counts at the mark.

ALTER TABLE dispatcher.claims ADD COLUMN keyed_recipients text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN dispatcher.claims.keyed_recipients IS
    'recipients that de-duplicate by the key though their channel does not promise it: what is unknown is sent again';
ALTER TABLE dispatcher.deliveries DROP COLUMN key_honoured;

-- Recover up to p_page claims that have no live owner. What was not marked is ready again, and poison after its sixth owner;
-- what was marked is sent again where its claim allows that, and held otherwise. None is sent again that belongs to a run that
-- has failed or was cancelled. (They are locked before it is asked what has become of their runs.)
CREATE OR REPLACE FUNCTION dispatcher.recover_v3(p_page integer)
RETURNS TABLE (claims bigint, requeued bigint, retried bigint, held bigint, poisoned bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    orphan record;
    moved  bigint;
BEGIN
    claims := 0; requeued := 0; retried := 0; held := 0; poisoned := 0;
    FOR orphan IN
        SELECT c.token, c.ids, c.resend_by, c.key_seconds, c.settle_seconds, c.keyed_recipients FROM dispatcher.claims c
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
            SELECT s.id, s.attempt,
                   CASE WHEN d.recipient = ANY (orphan.keyed_recipients) THEN 'key' ELSE orphan.resend_by END AS resent_by
              FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
             WHERE (orphan.resend_by IS NOT NULL OR d.recipient = ANY (orphan.keyed_recipients))
               AND s.id = ANY (orphan.ids) AND s.token = orphan.token
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
