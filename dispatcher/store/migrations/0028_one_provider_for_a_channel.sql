-- Two replicas with different providers for one channel never claim from it side by side: of deliveries for a function
-- half would be captured, and all be `sent`.
--
-- An instance claims from a channel unless it has yielded it. It yields when it joins or changes its provider while
-- another that may claim has a different one, and never because of what others do: who claims goes on, who comes or
-- changes waits. It asks again while it waits, and gets the channel once nobody with a different provider may claim from
-- it. Of several that wait with different providers, none of which any claims with, the one that joined first gets it.

ALTER TABLE dispatcher.instances
    ADD COLUMN providers text[] NOT NULL DEFAULT '{}',
    ADD COLUMN yielded   text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN dispatcher.instances.providers IS
    'of each of its channels, in their order: the provider, and a hash of where and how it delivers';
COMMENT ON COLUMN dispatcher.instances.yielded IS
    'the channels from which it may not claim, since another instance has another provider for them';

-- Write what an instance has for its channels, and decide which of them it yields; answers those, each with the name and
-- the provider of an instance that it yields to.
CREATE FUNCTION dispatcher.agree_v1(p_epoch bigint, p_providers text[])
RETURNS TABLE (channel text, instance text, provider text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    -- What a crash of Postgres forgot would let others claim beside us.
    PERFORM set_config('synchronous_commit', 'on', true);
    -- One decides at a time, and sees what was decided before: in a VOLATILE function each statement looks anew.
    PERFORM pg_advisory_xact_lock(hashtextextended('dispatcher.instances', 0));
    RETURN QUERY
    WITH others AS MATERIALIZED (
        SELECT i.epoch, i.name, i.started_at, c.channel, c.provider, c.channel <> ALL (i.yielded) AS claims
          FROM dispatcher.instances i, unnest(i.channels, i.providers) AS c (channel, provider)
         WHERE i.epoch <> p_epoch AND c.provider IS NOT NULL
    ), yields AS MATERIALIZED (
        SELECT DISTINCT ON (mine.channel) mine.channel, o.name, o.provider
          FROM dispatcher.instances me, unnest(me.channels, me.providers, p_providers) AS mine (channel, before, provider),
               others o
         WHERE me.epoch = p_epoch AND o.channel = mine.channel AND o.provider <> mine.provider
           AND (mine.channel = ANY (me.yielded) OR mine.before IS DISTINCT FROM mine.provider)
           AND (o.claims
                OR (o.started_at, o.epoch) < (me.started_at, me.epoch)
                   AND NOT EXISTS (SELECT FROM others a WHERE a.channel = mine.channel AND a.claims))
         ORDER BY mine.channel, o.claims DESC, o.started_at, o.epoch
    ), written AS (
        UPDATE dispatcher.instances
           SET providers = p_providers, yielded = ARRAY(SELECT y.channel FROM yields y ORDER BY 1)
         WHERE epoch = p_epoch
    )
    SELECT y.channel, y.name, y.provider FROM yields y ORDER BY 1;
END $$;
