-- name: current
-- The caps of all workspaces, as one value.
SELECT coalesce(json_agg(c ORDER BY c.id), '[]')::text
  FROM (SELECT id, tenant_id, workspace_id, channels, topics FROM dispatcher.caps) AS c;

-- name: mark
-- Mark a batch, and let those of it that are capped take their places; those without one are skipped.
SELECT id, attempt FROM dispatcher.mark_capped($1, $2, $3, $4, $5, $6, $7, $8, $9::text::bigint[], $10::text::text[]);

-- name: list
-- The caps of a workspace by name, or one of them.
SELECT name, messages, period, channels, topics, updated_at, updated_by FROM dispatcher.caps
 WHERE tenant_id = $1 AND workspace_id = $2 AND ($3::text IS NULL OR name = $3) ORDER BY name;

-- name: put
SELECT dispatcher.put_cap($1, $2, $3, $4::integer::smallint, make_interval(secs => $5), $6, $7, $8);

-- name: delete
SELECT dispatcher.delete_cap($1, $2, $3, $4);

-- name: sweep
-- Delete counters whose last message counts no more, or whose cap is gone, among the $3 behind a place; answers the end of
-- these. What a mark has locked is in use.
WITH seen AS MATERIALIZED (
    SELECT cap_id, person FROM dispatcher.cap_counters WHERE (cap_id, person) > ($1, $2) ORDER BY cap_id, person LIMIT $3
), over AS MATERIALIZED (
    SELECT k.cap_id, k.person FROM seen s,
           LATERAL (SELECT k.cap_id, k.person FROM dispatcher.cap_counters k
                     WHERE k.cap_id = s.cap_id AND k.person = s.person
                       AND (coalesce(k.marked_at[cardinality(k.marked_at)] + k.period < statement_timestamp(), true)
                            OR NOT EXISTS (SELECT FROM dispatcher.caps c WHERE c.id = k.cap_id))
                       FOR UPDATE SKIP LOCKED) AS k
), gone AS (
    DELETE FROM dispatcher.cap_counters k USING over o WHERE k.cap_id = o.cap_id AND k.person = o.person
)
SELECT cap_id, person FROM seen ORDER BY cap_id DESC, person DESC LIMIT 1;

-- name: erase
SELECT dispatcher.erase_counters($1, $2, $3, $4, $5);
