-- What people read of a delivery beside its rows: why it waits; and for applications where it stands.

-- Why nothing goes out now of a workspace's deliveries of one kind; null: nothing that is known here stops them. It runs
-- with its owner's rights, since a workspace does not see the instances.
CREATE FUNCTION dispatcher.standstill(
    p_tenant_id text, p_workspace_id text, p_channel text, p_template_name text DEFAULT NULL, p_run_id bigint DEFAULT NULL,
    p_campaign_run_id bigint DEFAULT NULL, p_sequence_id bigint DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words text;
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    SELECT format('%s %s is paused by %s', replace(p.scope, '_', ' '),
                  coalesce((SELECT q.name FROM dispatcher.sequences q WHERE p.scope = 'sequence' AND q.id::text = p.name), p.name),
                  concat_ws(': ', p.actor, nullif(p.reason, '')))
      INTO words
      FROM dispatcher.pauses p
     WHERE p.ended_at IS NULL
       AND (p.tenant_id IS NULL OR p.tenant_id = p_tenant_id AND p.workspace_id = p_workspace_id)
       AND p.name = CASE p.scope WHEN 'channel' THEN p_channel
                                 WHEN 'tenant' THEN p_tenant_id
                                 WHEN 'moved' THEN p_tenant_id
                                 WHEN 'workspace' THEN p_workspace_id
                                 WHEN 'template' THEN p_template_name
                                 WHEN 'run' THEN p_run_id::text
                                 WHEN 'campaign_run' THEN p_campaign_run_id::text
                                 WHEN 'sequence' THEN p_sequence_id::text END
     ORDER BY p.id LIMIT 1;
    IF FOUND THEN RETURN words; END IF;
    -- An instance that has not beaten for its lease is dead, or as good as that.
    WITH serving AS MATERIALIZED (
        -- One that has just joined yields every channel, and has said nothing of its providers.
        SELECT c.channel IS NOT NULL AS serves, c.channel = ANY (i.yielded) AND c.provider IS NOT NULL AS yields,
               string_to_array(split_part(c.provider, ':', 1), '+') AS providers,
               -- Of several providers it may be one alone.
               c.channel = ANY (i.unready) AND strpos(c.provider, '+') = 0 AS unready
          FROM dispatcher.instances i
          LEFT JOIN unnest(i.channels, i.providers) AS c (channel, provider) ON c.channel = p_channel
         WHERE i.beat_at > statement_timestamp() - make_interval(secs => i.lease_seconds)
    )
    SELECT CASE WHEN count(*) = 0 THEN 'no dispatcher is running'
                WHEN count(*) FILTER (WHERE serves) = 0 THEN format('channel %s is served by no dispatcher', p_channel)
                WHEN bool_and(yields) FILTER (WHERE serves)
                THEN format('channel %s has different providers in different dispatchers', p_channel)
                WHEN bool_and(NOT EXISTS (
                         SELECT FROM unnest(s.providers) AS one (name)
                          WHERE NOT EXISTS (SELECT FROM dispatcher.pauses p
                                             WHERE p.ended_at IS NULL AND p.scope = 'provider' AND p.name = one.name)))
                     FILTER (WHERE serves AND cardinality(providers) > 0)
                THEN format('the provider of channel %s is paused', p_channel)
                WHEN bool_and(unready) FILTER (WHERE serves AND NOT yields)
                THEN format('channel %s has no connection to its provider', p_channel) END
      INTO words
      FROM serving s;
    IF words IS NOT NULL OR p_campaign_run_id IS NULL THEN RETURN words; END IF;
    SELECT CASE WHEN dispatcher.window_wait(r.send_window, statement_timestamp()) > 0
                THEN format('the window of campaign run %s is closed', r.id)
                WHEN r.rate IS NOT NULL THEN format('campaign run %s has a rate: %s a second', r.id, r.rate) END
      INTO words
      FROM dispatcher.campaign_runs r
     WHERE r.id = p_campaign_run_id AND r.tenant_id = p_tenant_id AND r.workspace_id = p_workspace_id;
    RETURN words;
END $$;

-- Why a delivery waits, as far as it is known; null also for one that does not, or that is not due yet by its own time.
-- What is put back without an attempt (no connection, a limit) is due again within seconds.
CREATE FUNCTION dispatcher.waits_for(p_id bigint) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    put_back CONSTANT interval := '5 seconds';
    one      record;
    words    text;
BEGIN
    SELECT d.*, s.ready, s.run_at, s.attempt - s.attempt_base AS used, s.error, s.throttled_since, s.job_id IS NOT NULL AS of_job
      INTO one
      FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
     WHERE s.id = p_id AND s.status = 'queued' AND s.token IS NULL;
    IF NOT FOUND THEN RETURN NULL; END IF;
    IF one.run_at > statement_timestamp() THEN
        SELECT m.reason INTO words FROM dispatcher.moved_deliveries m WHERE m.delivery_id = p_id AND m.run_at = one.run_at;
        IF FOUND THEN RETURN words; END IF;
        IF one.used > 0 AND one.error IS NOT NULL THEN RETURN format('attempt %s failed: %s', one.used, one.error); END IF;
        IF one.throttled_since IS NOT NULL THEN RETURN 'its provider asked to wait'; END IF;
        -- Of a campaign it may wait for the window of its run.
        IF one.ready AND NOT one.of_job AND (one.run_at <= one.scheduled_for OR one.run_at > statement_timestamp() + put_back) THEN
            RETURN NULL;
        END IF;
    END IF;
    words := dispatcher.standstill(
        one.tenant_id, one.workspace_id, one.channel, one.template_name, CASE WHEN one.node IS NOT NULL THEN one.run_id END,
        CASE WHEN one.of_job THEN one.run_id END, one.sequence_id);
    RETURN CASE WHEN one.ready THEN words ELSE coalesce(words, 'its pause has ended: it goes on in a moment') END;
END $$;

-- When a delivery was claimed, and whether it was marked since; nulls where it is not under way. As the owner, since a workspace
-- does not see claims.
CREATE FUNCTION dispatcher.claim_of(
    p_tenant_id text, p_workspace_id text, p_id bigint, OUT claimed_at timestamptz, OUT marked boolean
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.stay_within(p_tenant_id, p_workspace_id);
    SELECT c.claimed_at, s.marked INTO claim_of.claimed_at, claim_of.marked
      FROM dispatcher.deliveries d
      JOIN dispatcher.delivery_state s ON s.id = d.id
      JOIN dispatcher.claims c ON c.token = s.token
     WHERE d.id = p_id AND d.tenant_id = p_tenant_id AND d.workspace_id = p_workspace_id AND s.status = 'queued';
END $$;

-- Where a delivery stands; no row where there is none.
CREATE FUNCTION dispatcher.delivery_status(
    delivery_id bigint DEFAULT NULL, idempotency_key text DEFAULT NULL, tenant_id text DEFAULT 'default',
    workspace_id text DEFAULT 'default'
) RETURNS TABLE (
    id bigint, idempotency_key text, channel text, recipient text, lane text, life text, status text, attempt integer,
    max_attempts integer, run_at timestamptz, finished_at timestamptz, provider_message_id text, error text, waits text
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.id, l.idempotency_key, l.channel, d.recipient, (ARRAY['transactional', 'normal', 'bulk'])[l.lane + 1], l.life,
           l.status, l.attempt::integer, l.max_attempts::integer, l.run_at, l.finished_at, l.provider_message_id, l.error,
           CASE WHEN l.status = 'queued' THEN dispatcher.waits_for(l.id) END
      FROM dispatcher.delivery_life l JOIN dispatcher.deliveries d USING (id)
     WHERE l.id = dispatcher.find_delivery(delivery_status.delivery_id, delivery_status.idempotency_key, delivery_status.tenant_id, delivery_status.workspace_id)
$$;

REVOKE ALL ON FUNCTION dispatcher.standstill, dispatcher.waits_for, dispatcher.claim_of, dispatcher.delivery_status FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.standstill, dispatcher.waits_for, dispatcher.claim_of TO dispatcher_tenant;
