-- Restores: a database that came out of a backup holds what it may have sent since.

-- One row: where this database was last seen. Anywhere else means that it was restored, copied or failed over. A second row
-- came with data from elsewhere.
CREATE TABLE dispatcher.clusters (
    seen_at           timestamptz NOT NULL DEFAULT statement_timestamp(),
    system_identifier bigint NOT NULL,
    timeline          integer NOT NULL,
    database_oid      oid NOT NULL,
    schema_oid        oid NOT NULL,
    PRIMARY KEY (system_identifier, timeline, database_oid, schema_oid)
);

-- A state row that is inserted by itself comes out of a dump too. It takes the place of the one that the trigger above
-- has made; what is finished stays finished, what was queued may have been sent since and is held. The counters of a job came
-- out of the same dump: of them, what is held now was not, and what was held by the trigger above is not any more.
CREATE FUNCTION dispatcher.state_restored() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    suspect  CONSTANT boolean := NEW.status = 'queued' AND NOT NEW.held;
    replaced boolean;
BEGIN
    IF suspect THEN
        NEW.ready := false;
        NEW.held := true;
        NEW.token := 0;
        NEW.held_at := statement_timestamp();
        NEW.settle_after := statement_timestamp();
        NEW.error := 'quarantined: it was restored, and may have been sent since';
    END IF;
    DELETE FROM dispatcher.delivery_state WHERE id = NEW.id AND held AND token = 0;
    replaced := FOUND;
    IF NEW.job_id IS NOT NULL AND replaced <> suspect THEN
        INSERT INTO dispatcher.job_results (job_id, id, class, count)
        VALUES (NEW.job_id, -nextval('dispatcher.job_results_id_seq'), 'held', CASE WHEN suspect THEN 1 ELSE -1 END);
    END IF;
    -- One that was written as ended has ended there as well.
    DELETE FROM dispatcher.delivery_state s USING dispatcher.deliveries d
     WHERE s.id = NEW.id AND d.id = NEW.id AND d.ended IS NOT NULL AND s.status = NEW.status;
    IF EXISTS (SELECT FROM dispatcher.delivery_state WHERE id = NEW.id) THEN
        RAISE EXCEPTION 'delivery % has a state of its own', NEW.id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER state_restored BEFORE INSERT ON dispatcher.delivery_state
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION dispatcher.state_restored();

-- A restore with several jobs brings both tables at the same time. Each would wait for rows of the other's: so the states
-- wait until no transaction is inserting deliveries, and none begins to before they are there.
CREATE FUNCTION dispatcher.states_wait() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOCK TABLE dispatcher.deliveries IN SHARE MODE;
    RETURN NULL;
END $$;

CREATE TRIGGER states_wait BEFORE INSERT ON dispatcher.delivery_state
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION dispatcher.states_wait();

-- A state row goes with its delivery, and in no other way: without it the sending of a message would be forgotten.
CREATE TRIGGER state_stays BEFORE DELETE OR TRUNCATE ON dispatcher.delivery_state
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION dispatcher.refuse_statement(
        'where deliveries stand is not deleted by itself', 'Delete from dispatcher.deliveries.');

-- Where this database lives: which server, on which timeline; and which database and schema of it, since a copy within
-- one server, or a restore into it, makes others. The timeline is the one that is written now: the control file has that
-- of the last checkpoint, and the first one after a promotion may take minutes. A standby has no such place: it raises.
CREATE FUNCTION dispatcher.here(
    OUT system_identifier bigint, OUT timeline integer, OUT database_oid oid, OUT schema_oid oid
)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer, d.oid,
           'dispatcher'::regnamespace::oid
      FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()
$$;

CREATE FUNCTION dispatcher.cluster_is_known() RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*) = 1 AND bool_and((c.system_identifier, c.timeline, c.database_oid, c.schema_oid)
                                     = (h.system_identifier, h.timeline, h.database_oid, h.schema_oid))
      FROM dispatcher.clusters c, dispatcher.here() h
$$;

-- Data that is restored into a database of its own life does not say where that is: its deliveries are held one by one.
-- (Only with its triggers switched off it does, and then every one that is due must be.)
CREATE FUNCTION dispatcher.clusters_are_seen() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM dispatcher.clusters) OR NOT EXISTS (
        SELECT FROM dispatcher.here() h
         WHERE (h.system_identifier, h.timeline, h.database_oid, h.schema_oid)
               = (NEW.system_identifier, NEW.timeline, NEW.database_oid, NEW.schema_oid)) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER clusters_are_seen BEFORE INSERT ON dispatcher.clusters
    FOR EACH ROW EXECUTE FUNCTION dispatcher.clusters_are_seen();

-- Runs that may have come further in another life of this database. One that does nothing but wait for a time after p_due has
-- come nowhere.
CREATE FUNCTION dispatcher.suspect_runs(p_before timestamptz, p_due timestamptz) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.id FROM dispatcher.runs r
     WHERE r.finished_at IS NULL AND r.status <> 'paused' AND r.created_at < p_before
       AND NOT (r.status = 'waiting' AND coalesce(r.available_at > p_due, false)
                AND NOT jsonb_path_exists(r.state, '$.cursor.* ? (@.standing != "delaying")'))
$$;

-- They rest until an operator resumes them. (What a walk changes meanwhile is locked, and rests as it is then.)
CREATE FUNCTION dispatcher.quarantine_runs(
    p_before timestamptz, p_actor text, p_reason text, p_due timestamptz DEFAULT statement_timestamp()
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    resting bigint;
BEGIN
    WITH suspect AS (
        SELECT r.id FROM dispatcher.runs r
         WHERE r.finished_at IS NULL AND r.status <> 'paused' AND r.id IN (SELECT dispatcher.suspect_runs(p_before, p_due))
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

-- Hold what may have been attempted in another life of this database: created before p_before, and due by p_due or claimed.
CREATE FUNCTION dispatcher.quarantine_deliveries(
    p_before timestamptz, p_actor text, p_reason text, p_due timestamptz DEFAULT statement_timestamp()
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    quarantined bigint;
BEGIN
    WITH suspect AS (
        SELECT s.id FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
         WHERE s.status = 'queued' AND NOT s.held AND (s.run_at <= p_due OR s.token IS NOT NULL)
           AND d.created_at < p_before
         ORDER BY s.id FOR UPDATE OF s
    ), kept AS (
        -- A call may be going on at this very moment: as long as it can, its delivery is not settled.
        UPDATE dispatcher.delivery_state s
           SET ready = false, held = true, token = 0, held_at = statement_timestamp(),
               settle_after = greatest(s.settle_after, statement_timestamp() + make_interval(
                   secs => CASE WHEN s.marked THEN coalesce(
                       (SELECT c.settle_seconds FROM dispatcher.claims c WHERE c.token = s.token), 60) ELSE 0 END)),
               error = 'quarantined: ' || p_reason
          FROM suspect WHERE s.id = suspect.id
        RETURNING s.id
    ), noted AS (
        INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
        SELECT id, p_actor, 'quarantine', 'queued', p_reason FROM kept
    )
    SELECT count(*) INTO quarantined FROM kept;
    RETURN quarantined;
END $$;

-- All of them. Runs go first: they are locked before state rows.
CREATE FUNCTION dispatcher.quarantine(
    p_before timestamptz, p_actor text, p_reason text, p_due timestamptz DEFAULT statement_timestamp()
) RETURNS TABLE (deliveries bigint, runs bigint, campaign_runs bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    runs := dispatcher.quarantine_runs(p_before, p_actor, p_reason, p_due);
    campaign_runs := dispatcher.quarantine_campaign_runs(p_before, p_actor, p_reason, p_due);
    deliveries := dispatcher.quarantine_deliveries(p_before, p_actor, p_reason, p_due);
    RETURN NEXT;
END $$;

-- See where this database lives now; anywhere else than before means a restore, a copy or a failover, after which marks
-- may have been forgotten. Returns how many deliveries and runs of both kinds were quarantined, together; null where nothing has changed.
-- The other server's clock may have been ahead of ours: what is due within a minute may have been attempted there.
CREATE FUNCTION dispatcher.see_cluster() RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_first    boolean;
    quarantined bigint;
BEGIN
    IF dispatcher.cluster_is_known() THEN RETURN NULL; END IF;
    LOCK TABLE dispatcher.clusters IN EXCLUSIVE MODE;
    IF dispatcher.cluster_is_known() THEN RETURN NULL; END IF;
    DELETE FROM dispatcher.clusters;
    is_first := NOT FOUND;
    INSERT INTO dispatcher.clusters (system_identifier, timeline, database_oid, schema_oid) SELECT h.* FROM dispatcher.here() h;
    IF is_first THEN RETURN NULL; END IF;
    SELECT q.deliveries + q.runs + q.campaign_runs INTO quarantined FROM dispatcher.quarantine('infinity', 'dispatcher',
        'the database was restored, copied or failed over, and marks may have been forgotten',
        statement_timestamp() + interval '1 minute') AS q;
    RETURN quarantined;
END $$;

-- A place is deleted only when the database is seen at another one. Ticks that may have run there have no run here. The other
-- server's clock may have been ahead of ours.
CREATE FUNCTION dispatcher.clusters_move() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    until timestamptz := statement_timestamp() + interval '1 minute';
BEGIN
    PERFORM FROM dispatcher.schedules s WHERE s.next_at <= until ORDER BY s.id FOR UPDATE;
    UPDATE dispatcher.schedules s SET doubted_until = greatest(s.doubted_until, until) WHERE s.next_at <= until;
    RETURN NULL;
END $$;

CREATE TRIGGER clusters_move AFTER DELETE ON dispatcher.clusters
    FOR EACH ROW EXECUTE FUNCTION dispatcher.clusters_move();

REVOKE ALL ON FUNCTION dispatcher.states_wait, dispatcher.suspect_runs, dispatcher.quarantine_runs,
    dispatcher.quarantine, dispatcher.see_cluster FROM PUBLIC;
