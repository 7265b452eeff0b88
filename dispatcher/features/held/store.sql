-- name: list
-- Held deliveries, the longest held first, behind a time and an id and before a time where given. Each leads to its
-- delivery, and is not looked for among all deliveries of a workspace, whatever the planner holds these to be.
SELECT s.id, d.tenant_id, d.workspace_id, d.idempotency_key, s.channel, d.recipient, s.attempt, s.held_at, s.settle_after,
       s.error
  FROM dispatcher.delivery_state s,
       LATERAL (SELECT tenant_id, workspace_id, idempotency_key, recipient FROM dispatcher.deliveries WHERE id = s.id LIMIT 1) AS d
 WHERE s.held AND ($1::text IS NULL OR d.tenant_id = $1) AND ($2::text IS NULL OR d.workspace_id = $2)
   AND ($4::text IS NULL OR s.channel = $4) AND ($5::timestamptz IS NULL OR (s.held_at, s.id) > ($5, $6::bigint))
   AND ($7::timestamptz IS NULL OR s.held_at < $7)
   AND ($8::text IS NULL OR position(lower($8) IN lower(s.error)) > 0)
 ORDER BY s.held_at, s.id LIMIT $3;

-- name: groups
-- The longest held, $3 at most, counted by channel and error; the largest groups first.
SELECT few.channel, few.error, count(*) AS deliveries, min(few.held_at) AS oldest, max(few.held_at) AS newest,
       (sum(count(*)) OVER ())::bigint AS counted
  FROM (SELECT s.channel, left(coalesce(s.error, ''), 255) AS error, s.held_at
          FROM dispatcher.delivery_state s,
               LATERAL (SELECT tenant_id, workspace_id FROM dispatcher.deliveries WHERE id = s.id LIMIT 1) AS d
         WHERE s.held AND ($1::text IS NULL OR d.tenant_id = $1) AND ($2::text IS NULL OR d.workspace_id = $2)
           AND ($4::text IS NULL OR s.channel = $4)
           AND ($5::text IS NULL OR position(lower($5) IN lower(s.error)) > 0)
         ORDER BY s.held_at LIMIT $3) AS few
 GROUP BY few.channel, few.error ORDER BY deliveries DESC, oldest LIMIT $6;

-- name: settle
-- Settle a page in one transaction; in the order of ids, as everybody takes locks.
SELECT asked.id, dispatcher.settle_held(asked.id, $2, $3, $4, $5) AS answer
  FROM (SELECT id FROM unnest($1::bigint[]) AS r (id) ORDER BY id) AS asked;

-- name: state
-- Where deliveries stand now, and which operator settled them last.
SELECT s.id, l.life, s.held_at, s.settle_after, s.error,
       greatest(extract(epoch FROM s.settle_after - statement_timestamp()), 0)::float8 AS wait_seconds,
       o.actor, o.action, o.at, o.reason
  FROM dispatcher.delivery_state s JOIN dispatcher.visible_delivery_life l USING (id)
  LEFT JOIN LATERAL (SELECT actor, substr(action, 8) AS action, at, reason FROM dispatcher.operator_actions
                      WHERE delivery_id = s.id AND action LIKE 'settle%' ORDER BY id DESC LIMIT 1) AS o ON true
 WHERE s.id = ANY ($1::bigint[]);
