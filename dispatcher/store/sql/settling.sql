-- name: count
-- How many of a filter are held now, and the time that `page` is told, so that what is held later is left alone.
SELECT count(*) AS deliveries, statement_timestamp() AS asked_at
  FROM dispatcher.delivery_state s,
       LATERAL (SELECT tenant_id, workspace_id FROM dispatcher.deliveries WHERE id = s.id LIMIT 1) AS d
 WHERE s.held AND ($1::text IS NULL OR s.channel = $1) AND ($2::text IS NULL OR d.tenant_id = $2)
   AND ($3::text IS NULL OR d.workspace_id = $3);

-- name: page
-- A page of them, the longest held first, behind a time and an id: one that cannot be settled yet does not come again.
SELECT s.id, s.held_at
  FROM dispatcher.delivery_state s,
       LATERAL (SELECT tenant_id, workspace_id FROM dispatcher.deliveries WHERE id = s.id LIMIT 1) AS d
 WHERE s.held AND ($1::text IS NULL OR s.channel = $1) AND ($2::text IS NULL OR d.tenant_id = $2)
   AND ($7::text IS NULL OR d.workspace_id = $7) AND s.held_at <= $3 AND (s.held_at, s.id) > ($4, $5)
 ORDER BY s.held_at, s.id LIMIT $6;

-- name: settle
-- Settle a page in one transaction; in the order of ids, as everybody takes locks.
SELECT asked.id, dispatcher.settle_held(asked.id, $2, $3, $4, $5) AS answer
  FROM (SELECT id FROM unnest($1::bigint[]) AS r (id) ORDER BY id) AS asked;

-- name: standing
-- Where deliveries stand now, and which operator settled them last.
SELECT s.id, l.life, s.held_at, s.settle_after, s.error,
       greatest(extract(epoch FROM s.settle_after - statement_timestamp()), 0)::float8 AS wait_seconds,
       o.actor, o.action, o.at, o.reason
  FROM dispatcher.delivery_state s JOIN dispatcher.visible_delivery_life l USING (id)
  LEFT JOIN LATERAL (SELECT actor, substr(action, 8) AS action, at, reason FROM dispatcher.operator_actions
                      WHERE delivery_id = s.id AND action LIKE 'settle%' ORDER BY id DESC LIMIT 1) AS o ON true
 WHERE s.id = ANY ($1::bigint[]);

-- name: suspects
-- How many deliveries a quarantine would hold, and how many runs it would pause.
SELECT (SELECT count(*) FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
         WHERE s.status = 'queued' AND NOT s.held AND (s.run_at <= statement_timestamp() OR s.token IS NOT NULL)
           AND d.created_at < $1) AS deliveries,
       (SELECT count(*) FROM dispatcher.suspect_runs($1, statement_timestamp())) AS runs;
