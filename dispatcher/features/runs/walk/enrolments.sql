-- name: pauses
-- The pauses of sequences, by the sequence, oldest first; an open one has no end.
SELECT name::bigint AS sequence_id, id, extract(epoch FROM since)::float8 AS since, extract(epoch FROM ended_at)::float8 AS ended
  FROM dispatcher.pauses WHERE scope = 'sequence' AND name = ANY ($1::text[]) ORDER BY since;

-- name: park
-- Park enrolments that are due while their sequence is paused, by the pause of each.
UPDATE dispatcher.runs r SET available_at = NULL, parked_by = p.pause_id
  FROM unnest($1::bigint[], $2::bigint[]) AS p (run_id, pause_id) WHERE r.id = p.run_id;

-- name: free
-- Make up to $1 enrolments due whose pause is over; answers how many. One that somebody has paused by itself stays so.
WITH over AS (
    SELECT r.id FROM dispatcher.runs r
     WHERE r.parked_by IS NOT NULL
       AND NOT EXISTS (SELECT FROM dispatcher.pauses p WHERE p.id = r.parked_by AND p.ended_at IS NULL)
     ORDER BY r.parked_by, r.id LIMIT $1 FOR UPDATE OF r SKIP LOCKED
), freed AS (
    UPDATE dispatcher.runs r
       SET parked_by = NULL, available_at = CASE WHEN r.status <> 'paused' AND r.finished_at IS NULL THEN statement_timestamp() END
      FROM over WHERE r.id = over.id RETURNING r.id
)
SELECT count(*) FROM freed;

-- name: keep_contacts
-- Until the end of this walk no erasure of these workspaces looks for what it has to erase: what we write is found by it.
SELECT pg_advisory_xact_lock_shared(hashtextextended('dispatcher.contacts ' || w.tenant_id || ' ' || w.workspace_id, 0))
  FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS a (tenant_id, workspace_id) ORDER BY 1, 2) AS w;

-- name: contacts
-- Contacts, with the first address of each kind, as it is written to.
SELECT c.id, c.time_zone, c.locale,
       (jsonb_strip_nulls(jsonb_build_object('key', c.key, 'name', c.name, 'company', c.company, 'status', c.status,
                                             'locale', c.locale, 'time_zone', c.time_zone))
        || jsonb_build_object('tags', c.tags, 'attributes', c.attributes))::text AS fields, a.kinds, a.addresses
  FROM dispatcher.contacts c,
       LATERAL (SELECT array_agg(h.kind ORDER BY h.kind, h.position DESC) AS kinds,
                       array_agg(h.written ORDER BY h.kind, h.position DESC) AS addresses
                  FROM dispatcher.contact_addresses h WHERE h.contact_id = c.id) AS a
 WHERE c.id = ANY ($1::bigint[]);
