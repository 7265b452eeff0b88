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
-- All quiet hours there are, with the time zones of their workspaces.
SELECT q.tenant_id, q.workspace_id, q.channel, q.version, q.quiet::text, q.windows::text,
       coalesce(w.time_zone, 'UTC') AS time_zone
  FROM dispatcher.quiet_hours q LEFT JOIN dispatcher.workspace_settings w USING (tenant_id, workspace_id);

-- name: looked_up
-- Of claimed deliveries: the time zone of the contact behind each address, when it expires, until when its provider knows
-- its key, and the time now.
SELECT a.id, c.time_zone, s.expires_at, s.resend_until, statement_timestamp() AS now
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[])
    AS a (id, tenant_id, workspace_id, kind, address)
  JOIN dispatcher.delivery_state s ON s.id = a.id
  LEFT JOIN dispatcher.contact_addresses h
    ON h.tenant_id = a.tenant_id AND h.workspace_id = a.workspace_id AND h.kind = a.kind AND h.address = a.address
  LEFT JOIN dispatcher.contacts c ON c.id = h.contact_id;

-- name: move
-- Move claimed deliveries. Answers those that are moved, and those that are not ours any more.
SELECT delivery_id FROM dispatcher.move_for_quiet_hours($1, $2, $3, $4, $5);

-- name: free
-- Make up to $1 deliveries due again that quiet hours have moved which hold no more.
SELECT dispatcher.free_moved($1);
