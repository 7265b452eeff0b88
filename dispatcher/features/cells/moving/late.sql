-- name: since
-- When the tenant of a move was stopped.
SELECT stopped_at FROM dispatcher.tenant_moves WHERE id = $1;

-- name: suppressions
-- Suppressions of a tenant since a time, as JSON.
SELECT coalesce(jsonb_agg(to_jsonb(s)), '[]')::text FROM dispatcher.suppressions s WHERE s.tenant_id = $1 AND s.added_at >= $2;

-- name: bring_suppressions
INSERT INTO dispatcher.suppressions SELECT r.* FROM jsonb_populate_recordset(NULL::dispatcher.suppressions, $1::jsonb) AS r
ON CONFLICT DO NOTHING;

-- name: preferences
-- Preferences of a tenant since a time, as JSON.
SELECT coalesce(jsonb_agg(to_jsonb(p)), '[]')::text FROM dispatcher.topic_preferences p WHERE p.tenant_id = $1 AND p.changed_at >= $2;

-- name: bring_preferences
INSERT INTO dispatcher.topic_preferences AS p
SELECT r.* FROM jsonb_populate_recordset(NULL::dispatcher.topic_preferences, $1::jsonb) AS r
ON CONFLICT ON CONSTRAINT topic_preferences_pkey DO UPDATE
   SET subscribed = excluded.subscribed, changed_at = excluded.changed_at, actor = excluded.actor, reason = excluded.reason
 WHERE p.changed_at < excluded.changed_at;

-- name: receipts
-- Receipts of a tenant's deliveries since a time, as JSON.
SELECT coalesce(jsonb_agg(to_jsonb(r)), '[]')::text
  FROM dispatcher.delivery_receipts r JOIN dispatcher.deliveries d ON d.id = r.delivery_id
 WHERE d.tenant_id = $1 AND r.seen_at >= $2;

-- name: bring_receipts
SELECT dispatcher.record_receipt(r.delivery_id, r.kind, r.rank, r.provider, r.provider_message_id, r.said_at, r.reason)
  FROM jsonb_populate_recordset(NULL::dispatcher.delivery_receipts, $1::jsonb) AS r;
