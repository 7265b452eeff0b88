-- Results of jobs: what has become of deliveries of campaigns, until the closer has counted it (features/campaigns).
--
-- A flush appends one row a job. Every other change of a delivery's status, or of its being held, appends rows by a trigger:
-- one takes away what the delivery was, one adds what it is. Rows are only ever inserted here, so that no flush waits for
-- another transaction.

CREATE TABLE dispatcher.job_results (
    id     bigint GENERATED ALWAYS AS IDENTITY (CACHE 50) PRIMARY KEY,
    job_id bigint NOT NULL,
    count  bigint NOT NULL,
    class  text NOT NULL,
    reason text NOT NULL DEFAULT ''
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX job_results_of_job ON dispatcher.job_results (job_id);

-- How a delivery counts: sent, failed, skipped (for a good reason), cancelled, expired, held; null: not at all yet.
CREATE FUNCTION dispatcher.result_class(p_status text, p_held boolean, p_error text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_status = 'queued' THEN CASE WHEN p_held THEN 'held' END
                WHEN p_status = 'failed' THEN 'failed'
                WHEN p_status <> 'skipped' THEN 'sent'
                WHEN p_error LIKE 'cancelled%' THEN 'cancelled'
                WHEN p_error LIKE 'expired%' THEN 'expired'
                ELSE 'skipped' END
$$;

-- A reason without what differs from one delivery to the next, so that reasons can be counted.
CREATE FUNCTION dispatcher.result_reason(p_error text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.left(pg_catalog.regexp_replace(pg_catalog.regexp_replace(
        coalesce(p_error, ''), '[^\s<>,;:]+@[^\s<>,;:]+', '<address>', 'g'), '\+?[0-9][0-9-]{2,}', '<number>', 'g'), 200)
$$;

CREATE FUNCTION dispatcher.job_counts() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO dispatcher.job_results (job_id, class, reason, count)
    SELECT NEW.job_id, c.class, CASE WHEN c.class IN ('sent', 'held') THEN '' ELSE dispatcher.result_reason(c.error) END, c.count
      FROM (VALUES (dispatcher.result_class(OLD.status, OLD.held, OLD.error), OLD.error, -1),
                   (dispatcher.result_class(NEW.status, NEW.held, NEW.error), NEW.error, 1)) AS c (class, error, count)
     WHERE c.class IS NOT NULL;
    RETURN NEW;
END $$;

-- It comes after all that may turn an end into a hold, by its name. A flush counts itself.
CREATE TRIGGER z_job_counts BEFORE UPDATE OF status, held ON dispatcher.delivery_state
    FOR EACH ROW WHEN (NEW.job_id IS NOT NULL AND (OLD.status <> NEW.status OR OLD.held <> NEW.held)
                       AND current_setting('dispatcher.flushing', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION dispatcher.job_counts();

REVOKE ALL ON FUNCTION dispatcher.job_counts FROM PUBLIC;
