-- Receipts: what providers say about deliveries that they have taken.
--
-- The map
--   delivery_receipts  the last receipt of each kind about a delivery; what it has come to is the one of the highest rank
--   receipt_events     what was heard lately, by the name that its provider gave it: so that a repetition says nothing
--   waiting_receipts   receipts whose delivery was not found yet: they are looked for again, for a day
--   delivery_receipt   a view: what each delivery has come to
--
-- How a receipt finds its delivery
--   By our own number or key, which the provider echoes. Else by what the provider calls the message: but no index leads
--   from there, since the flush writes that name, and an index over a column that it writes would cost the flush its HOT
--   updates. Instead the deliveries to the same address are looked through, newest first, by the index that suppressions
--   have already. A receipt may come before the flush has written the name, and then waits.
--
-- Lock order: a receipt locks the state row of one delivery, and nothing else that others lock.

CREATE TABLE dispatcher.delivery_receipts (
    delivery_id         bigint NOT NULL,
    said_at             timestamptz NOT NULL,
    seen_at             timestamptz NOT NULL DEFAULT statement_timestamp(),
    rank                smallint NOT NULL,
    kind                text NOT NULL CHECK (kind IN ('sent', 'bounced_soft', 'failed', 'delivered', 'opened', 'clicked',
                                                      'bounced_hard', 'complained')),
    provider            text NOT NULL,
    provider_message_id text,
    reason              text NOT NULL DEFAULT '',
    PRIMARY KEY (delivery_id, kind)
);
COMMENT ON COLUMN dispatcher.delivery_receipts.said_at IS 'when it happened, as its provider says; never later than seen_at';
CALL dispatcher.isolate('dispatcher.delivery_receipts', 'delivery_id', 'dispatcher.deliveries');

CREATE TABLE dispatcher.receipt_events (
    keep_until timestamptz NOT NULL,
    provider   text NOT NULL,
    event      text COLLATE "C" NOT NULL CHECK (length(event) BETWEEN 1 AND 255),
    PRIMARY KEY (provider, event)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX receipt_events_over ON dispatcher.receipt_events (keep_until);

CREATE TABLE dispatcher.waiting_receipts (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    look_at    timestamptz NOT NULL,
    keep_until timestamptz NOT NULL,
    looks      smallint NOT NULL DEFAULT 0,
    provider   text NOT NULL,
    receipt    jsonb NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX waiting_receipts_due ON dispatcher.waiting_receipts (look_at);

CREATE VIEW dispatcher.delivery_receipt AS
SELECT DISTINCT ON (delivery_id) delivery_id, kind, said_at, provider, provider_message_id, reason
  FROM dispatcher.delivery_receipts ORDER BY delivery_id, rank DESC;
COMMENT ON VIEW dispatcher.delivery_receipt IS 'what each delivery has come to, as its provider says';

-- Receipts go with their delivery.
CREATE FUNCTION dispatcher.receipts_go_too() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM dispatcher.delivery_receipts r USING gone g WHERE r.delivery_id = g.id;
    RETURN NULL;
END $$;

CREATE TRIGGER receipts_go_too AFTER DELETE ON dispatcher.deliveries
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION dispatcher.receipts_go_too();

-- Whether an attempt of a delivery is unknown that was another provider's.
CREATE FUNCTION dispatcher.unknown_elsewhere(p_id bigint, p_provider text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM dispatcher.delivery_attempts a
                    WHERE a.delivery_id = p_id AND a.outcome = 'unknown' AND a.provider IS DISTINCT FROM p_provider)
$$;

-- What receipts prove of a delivery that waits because nobody knows how an attempt of it ended: whatever happened to a
-- message, its provider has taken it, but for one that says that it failed. True where that settled it.
-- Only receipts count that came since its provider can know it: one that was reopened had an end before, with receipts of
-- its own.
CREATE FUNCTION dispatcher.settle_by_receipt(p_id bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was     dispatcher.delivery_state;
    said    dispatcher.delivery_receipts;
    attempt bigint;
BEGIN
    SELECT * INTO was FROM dispatcher.delivery_state WHERE id = p_id FOR UPDATE;
    IF NOT FOUND OR was.status <> 'queued' THEN RETURN false; END IF;
    SELECT * INTO said FROM dispatcher.delivery_receipts r
     WHERE r.delivery_id = p_id AND r.seen_at >= coalesce(was.key_used_at, was.held_at) ORDER BY r.rank DESC LIMIT 1;
    IF NOT FOUND THEN RETURN false; END IF;
    -- That one provider's message failed says nothing of another's, and which one it speaks of is not known for certain.
    IF said.kind = 'failed' AND dispatcher.unknown_elsewhere(p_id, was.provider) THEN RETURN false; END IF;
    attempt := was.token;
    IF NOT was.held THEN
        SELECT a.token INTO attempt FROM dispatcher.delivery_attempts a
         WHERE a.delivery_id = p_id AND a.outcome = 'unknown' ORDER BY a.attempt DESC LIMIT 1;
        IF NOT FOUND THEN RETURN false; END IF;
    END IF;
    RETURN dispatcher.late_result(
        p_id, attempt,
        CASE said.kind WHEN 'failed' THEN 'refused' ELSE 'accepted' END,
        CASE WHEN said.kind = 'failed' THEN 'failed'
             WHEN was.channel = 'voice' THEN 'called'
             WHEN was.channel = 'social' THEN 'posted'
             ELSE 'sent' END,
        coalesce(said.provider_message_id, ''),
        CASE said.kind WHEN 'failed' THEN 'a receipt says so: ' || said.reason END) = 'resolved';
END $$;

-- Keep a receipt. Answers settled (a held delivery has its end by it), recorded, known, or gone (there is no such delivery).
CREATE FUNCTION dispatcher.record_receipt(
    p_id bigint, p_kind text, p_rank smallint, p_provider text, p_provider_message_id text, p_said_at timestamptz,
    p_reason text
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM dispatcher.delivery_state WHERE id = p_id FOR UPDATE;
    IF NOT FOUND THEN RETURN 'gone'; END IF;
    INSERT INTO dispatcher.delivery_receipts AS r
           (delivery_id, kind, rank, provider, provider_message_id, said_at, reason)
    VALUES (p_id, p_kind, p_rank, p_provider, p_provider_message_id,
            least(coalesce(p_said_at, statement_timestamp()), statement_timestamp()), p_reason)
    ON CONFLICT (delivery_id, kind) DO UPDATE
       SET said_at = excluded.said_at, seen_at = excluded.seen_at, provider = excluded.provider,
           provider_message_id = excluded.provider_message_id, reason = excluded.reason
     WHERE r.said_at < excluded.said_at;
    IF NOT FOUND THEN RETURN 'known'; END IF;
    RETURN CASE WHEN dispatcher.settle_by_receipt(p_id) THEN 'settled' ELSE 'recorded' END;
END $$;

REVOKE ALL ON FUNCTION dispatcher.receipts_go_too FROM PUBLIC;
GRANT SELECT ON dispatcher.delivery_receipts TO dispatcher_tenant;
