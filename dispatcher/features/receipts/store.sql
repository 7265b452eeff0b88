-- name: remember
-- Store an event's id for $3 seconds; no row where it is stored already. A second request with the
-- same waits for the first one's end.
INSERT INTO dispatcher.receipt_events (provider, event, keep_until)
SELECT $1, $2, statement_timestamp() + make_interval(secs => $3)
  FROM (SELECT set_config('synchronous_commit', 'on', true)) AS durable
ON CONFLICT (provider, event) DO NOTHING RETURNING event;

-- name: by_name
-- The delivery with this number, and the one with this key.
SELECT d.id, d.tenant_id, d.workspace_id, d.idempotency_key, d.channel, d.recipient,
       extract(epoch FROM least(greatest(d.created_at, d.scheduled_for, 'epoch'), '9999-01-01Z'))::bigint AS dated,
       s.provider_message_id
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
 WHERE d.id IN (SELECT $1::bigint UNION ALL
                SELECT k.id FROM dispatcher.deliveries k
                 WHERE k.tenant_id = $2 AND k.workspace_id = $3 AND k.idempotency_key = $4);

-- name: in_order
-- For the rest of this transaction nothing is sorted that an index has in order: what follows depends on it.
SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true);

-- name: by_address
-- The newest deliveries to each of these forms of an address. An index has what is equal in the order of its place, so
-- that whoever reads it backwards from there meets the newest first, and needs not read on: one address may have had
-- millions. (`=` in place of `<=` would make all of them equal to the planner, and the order nobody's.)
SELECT d.id, d.tenant_id, d.workspace_id, d.idempotency_key, d.channel, d.recipient,
       extract(epoch FROM least(greatest(d.created_at, d.scheduled_for, 'epoch'), '9999-01-01Z'))::bigint AS dated,
       s.provider_message_id
  FROM (SELECT dispatcher.address_hash(form) AS hash FROM unnest($1::text[]) AS form) AS asked
 CROSS JOIN LATERAL (SELECT b.*, dispatcher.address_hash(b.recipient) AS hash FROM dispatcher.deliveries b
                      WHERE dispatcher.address_hash(b.recipient) <= asked.hash
                      ORDER BY dispatcher.address_hash(b.recipient) DESC LIMIT $2) AS d
  JOIN dispatcher.delivery_state s USING (id)
 WHERE d.hash = asked.hash;

-- name: record
SELECT dispatcher.record_receipt($1, $2, $3, $4, $5, $6, $7);

-- name: suppress
-- Suppress an address. An entry that exists stays, with its first reason; one whose time would
-- be over has none any more. What was known of delivery $7 already, a kind $8 of receipt no older than $9, is no reason:
-- providers repeat themselves, and somebody may have lifted it since.
INSERT INTO dispatcher.suppressions AS s (tenant_id, kind, address, channel, source, actor, reason)
SELECT $1, $2, $3, $4, $5, 'dispatcher', $6
 WHERE NOT EXISTS (SELECT FROM dispatcher.delivery_receipts r
                    WHERE r.delivery_id = $7 AND r.kind = $8 AND r.said_at >= $9::timestamptz)
ON CONFLICT ON CONSTRAINT suppressions_pkey DO UPDATE
   SET added_at = statement_timestamp(), expires_at = NULL, actor = excluded.actor, reason = excluded.reason
 WHERE s.expires_at IS NOT NULL;

-- name: suppress_erased
-- The same for an erased person: by the hash of the address, and without a word ($6) why.
INSERT INTO dispatcher.erased_suppressions AS s (tenant_id, kind, hash, channel, source, topic, added_at)
SELECT $1, $2, sha256(convert_to($3, 'UTF8')), $4, $5, '', statement_timestamp()
 WHERE $6::text IS NOT NULL
   AND NOT EXISTS (SELECT FROM dispatcher.delivery_receipts r
                    WHERE r.delivery_id = $7 AND r.kind = $8 AND r.said_at >= $9::timestamptz)
ON CONFLICT (tenant_id, kind, hash, channel, source, topic) DO UPDATE SET expires_at = NULL WHERE s.expires_at IS NOT NULL;

-- name: wait
-- Keep a receipt whose delivery is not known for $3 seconds, and look again in $4; not where $5 wait already. (The numbers
-- tell, give or take: to count them each time would cost more than it is worth.) Answers whether it waits.
INSERT INTO dispatcher.waiting_receipts (provider, receipt, keep_until, look_at)
SELECT $1, $2::jsonb, statement_timestamp() + make_interval(secs => $3), statement_timestamp() + make_interval(secs => $4)
 WHERE coalesce((SELECT w.id FROM dispatcher.waiting_receipts w ORDER BY w.id DESC LIMIT 1)
              - (SELECT w.id FROM dispatcher.waiting_receipts w ORDER BY w.id LIMIT 1), 0) < $5
RETURNING id;

-- name: due
-- Waiting receipts that are to be looked at.
SELECT id, provider, looks, receipt::text FROM dispatcher.waiting_receipts
 WHERE look_at <= statement_timestamp() ORDER BY look_at LIMIT $1;

-- name: take
-- Delete one; no row where another transaction has.
DELETE FROM dispatcher.waiting_receipts WHERE id = $1 RETURNING id;

-- name: put_off
-- Look at one again in $2 seconds, or let it go where its time is over by then.
WITH over AS (
    DELETE FROM dispatcher.waiting_receipts WHERE id = $1 AND keep_until <= statement_timestamp() + make_interval(secs => $2)
)
UPDATE dispatcher.waiting_receipts SET looks = looks + 1, look_at = statement_timestamp() + make_interval(secs => $2)
 WHERE id = $1 AND keep_until > statement_timestamp() + make_interval(secs => $2)
RETURNING id;

-- name: settle
-- Settle up to $1 held deliveries of which there are receipts that decide.
SELECT count(*) FILTER (WHERE dispatcher.settle_by_receipt(h.id)) AS settled
  FROM (SELECT s.id FROM dispatcher.delivery_state s
         WHERE s.held AND EXISTS (SELECT FROM dispatcher.delivery_receipts r
                                   WHERE r.delivery_id = s.id AND r.seen_at >= coalesce(s.key_used_at, s.held_at)
                                     AND (r.kind <> 'failed'
                                          OR s.resend_until IS NULL AND NOT dispatcher.unknown_elsewhere(s.id, s.provider)))
         ORDER BY s.id LIMIT $1) AS h;

-- name: forget
-- Forget up to $1 of what was heard long enough ago; says how many.
WITH over AS (
    SELECT provider, event FROM dispatcher.receipt_events WHERE keep_until <= statement_timestamp()
     ORDER BY keep_until LIMIT $1 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM dispatcher.receipt_events e USING over o WHERE e.provider = o.provider AND e.event = o.event RETURNING 1
)
SELECT count(*) FROM gone;

-- name: waiting
-- How many wait, counted to $1.
SELECT count(*) FROM (SELECT FROM dispatcher.waiting_receipts LIMIT $1) AS counted;
