-- name: put
-- Write contacts, in the order in which they are named.
SELECT asked.number, p.answer, p.contact_id, p.version, p.taken
  FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS asked (key, said, number),
       LATERAL dispatcher.put_contact($1, $2, asked.key, asked.said::jsonb, $5, $6, $7) AS p
 ORDER BY asked.number;

-- name: show
-- One by its key.
SELECT c.id, c.key, c.name, c.company, c.status, c.time_zone, c.locale, c.tags, c.attributes::text, c.version, c.created_at,
       c.updated_at, c.updated_by,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'address', a.written) ORDER BY a.position), '[]')
          FROM dispatcher.contact_addresses a WHERE a.contact_id = c.id)::text AS addresses
  FROM dispatcher.contacts c WHERE c.tenant_id = $1 AND c.workspace_id = $2 AND c.key = $3;

-- name: search
-- The ids of contacts of a workspace behind a key that match, in the order of their keys, $8 at most of $9 that are looked at.
SELECT id, key, matches FROM dispatcher.find_contacts($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: list
-- The contacts of a workspace among these, behind $3, that match, in the order of their keys.
SELECT c.id, c.key, c.name, c.company, c.status, c.time_zone, c.locale, c.tags, c.attributes::text, c.version, c.created_at,
       c.updated_at, c.updated_by,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'address', a.written) ORDER BY a.position), '[]')
          FROM dispatcher.contact_addresses a WHERE a.contact_id = c.id)::text AS addresses
  FROM unnest($4::bigint[]) AS asked (id), LATERAL (SELECT * FROM dispatcher.contacts WHERE id = asked.id LIMIT 1) AS c
 WHERE c.tenant_id = $1 AND c.workspace_id = $2 AND c.key > $3
   AND ($5::text IS NULL OR c.company = $5) AND ($6::text IS NULL OR c.status = $6)
   AND ($7::text IS NULL OR c.tags @> ARRAY[$7])
 ORDER BY c.key;

-- name: by_address
-- The contacts behind an address, of any of these kinds: one a kind at most.
SELECT a.contact_id FROM dispatcher.contact_addresses a
 WHERE a.tenant_id = $1 AND a.workspace_id = $2 AND a.kind = ANY ($3::text[]) AND a.address = $4
 ORDER BY array_position($3::text[], a.kind) LIMIT 1;

-- name: delete
-- Delete one with its addresses, where it is at version $4 still. No row where there is none; else whether it is gone.
WITH held AS (
    SELECT c.id, c.version FROM dispatcher.contacts c
     WHERE c.tenant_id = $1 AND c.workspace_id = $2 AND c.key = $3 FOR UPDATE
), gone AS (
    DELETE FROM dispatcher.contacts c USING held h WHERE c.id = h.id AND ($4::integer IS NULL OR h.version = $4) RETURNING 1
)
SELECT EXISTS (SELECT FROM gone) AS gone, h.version FROM held h;

-- name: audience_faults
-- What is wrong with an audience that stands at $3, as JSON.
SELECT dispatcher.audience_faults($1, $2, $3, $4::jsonb)::text;

-- name: audience_counts
-- How many contacts each of these audiences has, counted to $4, in their order.
SELECT dispatcher.audience_count($1, $2, a.said::jsonb, $4) AS count
  FROM unnest($3::text[]) WITH ORDINALITY AS a (said, place) ORDER BY a.place;

-- name: audience_sample
-- Up to $4 contacts of an audience.
SELECT c.id, c.key, c.name, c.company, c.status FROM dispatcher.contacts c
 WHERE c.tenant_id = $1 AND c.workspace_id = $2 AND c.id = ANY (ARRAY(SELECT dispatcher.audience($1, $2, $3::jsonb, $4)))
 ORDER BY c.id;
