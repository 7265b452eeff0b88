-- name: list
-- The quiet hours of a workspace, or of one channel ($3), by channel.
SELECT q.channel, q.quiet::text, q.windows::text, q.version, q.updated_at, q.updated_by FROM dispatcher.quiet_hours q
 WHERE q.tenant_id = $1 AND q.workspace_id = $2 AND ($3::text IS NULL OR q.channel = $3) ORDER BY q.channel;

-- name: put
-- Save the quiet hours of a channel.
SELECT dispatcher.put_quiet_hours($1, $2, $3, $4::text::jsonb, $5::text::jsonb, $6);

-- name: delete
-- Delete the quiet hours of a channel.
SELECT dispatcher.delete_quiet_hours($1, $2, $3, $4);

-- name: standing
-- All quiet hours there are, with the time zones of their workspaces, as one value.
SELECT coalesce(json_agg(s), '[]')::text
  FROM (SELECT q.tenant_id, q.workspace_id, q.channel, q.version, q.quiet::text, q.windows::text,
               coalesce(w.time_zone, 'UTC') AS time_zone
          FROM dispatcher.quiet_hours q LEFT JOIN dispatcher.workspace_settings w USING (tenant_id, workspace_id)) AS s;

-- name: zones
-- The time now; and of the contacts behind the addresses $4, of which each group (a tenant, a workspace and a kind) has those
-- from `first` to `last`, the time zones that are known. By arrays, as suppressions are looked up.
WITH asked AS MATERIALIZED (
    SELECT tenant_id, workspace_id, kind, ($4::text::text[])[first:last] AS addresses
      FROM unnest($1::text[], $2::text[], $3::text[], $5::int[], $6::int[]) AS r (tenant_id, workspace_id, kind, first, last)
)
SELECT NULL AS tenant_id, NULL AS workspace_id, NULL AS kind, NULL AS address, NULL AS time_zone, statement_timestamp() AS now
UNION ALL
SELECT a.tenant_id, a.workspace_id, a.kind, h.address, c.time_zone, statement_timestamp()
  FROM asked a
  JOIN dispatcher.contact_addresses h ON h.tenant_id = a.tenant_id AND h.workspace_id = a.workspace_id AND h.kind = a.kind
                                     AND h.address = ANY (a.addresses)
  JOIN dispatcher.contacts c ON c.id = h.contact_id
 WHERE c.time_zone IS NOT NULL;

-- name: limits
-- When claimed deliveries expire, and until when their providers know their keys.
SELECT s.id, s.expires_at, s.resend_until FROM dispatcher.delivery_state s
 WHERE s.id = ANY ($1::bigint[]);

-- name: move
-- Move claimed deliveries. Answers those that are moved, and those that are not ours any more.
SELECT delivery_id FROM dispatcher.move_for_quiet_hours($1, $2, $3, $4, $5);

-- name: free
-- Make up to $1 deliveries due again that quiet hours have moved which hold no more.
SELECT dispatcher.free_moved($1);
