-- name: deliveries
-- The newest $6 deliveries of a workspace to addresses that look like these, before a moment and, within it, a number. Which
-- of them are meant, the form of the address decides.
SELECT d.id, d.created_at AS at, d.id * 2 AS place, d.idempotency_key, d.channel, d.recipient, d.template_name, d.topic, d.lane,
       l.life, l.status, l.attempt, l.run_at, l.finished_at, l.error, d.run_id, d.retry_of, d.node, r.workflow, r.triggered_by,
       k.campaign, k.created_by AS deployed_by,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('attempt', a.attempt, 'outcome', a.outcome, 'ended_at', a.ended_at,
                                                     'reason', a.reason) ORDER BY a.attempt), '[]')
          FROM dispatcher.delivery_attempts a WHERE a.delivery_id = d.id)::text AS attempts,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('kind', c.kind, 'at', c.said_at, 'reason', c.reason) ORDER BY c.rank), '[]')
          FROM dispatcher.delivery_receipts c WHERE c.delivery_id = d.id)::text AS receipts,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('at', o.at, 'actor', o.actor, 'action', o.action, 'reason', o.reason)
                                  ORDER BY o.id), '[]')
          FROM dispatcher.operator_actions o WHERE o.delivery_id = d.id)::text AS actions,
       (SELECT jsonb_build_object('at', m.moved_at, 'from', m.due_at, 'to', m.run_at, 'reason', m.reason)
          FROM dispatcher.moved_deliveries m WHERE m.delivery_id = d.id)::text AS moved
  FROM (SELECT b.* FROM dispatcher.sent_to($1, $2, $3::text[]) AS asked (id),
                        LATERAL (SELECT * FROM dispatcher.deliveries WHERE id = asked.id LIMIT 1) AS b
         WHERE (b.created_at, b.id * 2) < ($4, $5)
         ORDER BY b.created_at DESC, b.id DESC LIMIT $6) AS d
  JOIN dispatcher.visible_delivery_life l USING (id)
  LEFT JOIN dispatcher.runs r ON r.id = d.run_id AND (d.job_id IS NULL OR d.contact_id IS NULL)
  LEFT JOIN dispatcher.campaign_runs k ON k.id = d.run_id AND d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
 ORDER BY d.created_at DESC, d.id DESC;

-- name: said
-- What was said last about an address, before a moment and a number within it: suppressions, and preferences.
SELECT l.id, l.at, l.id * 2 + 1 AS place, l.actor, l.action, l.channel, l.source, l.topic, l.expires_at, l.reason
  FROM dispatcher.suppression_log l
 WHERE l.tenant_id = $1 AND l.kind = $2 AND l.address = $3 AND (l.at, l.id * 2 + 1) < ($4, $5)
 ORDER BY l.at DESC, l.id DESC LIMIT $6;

-- name: written
-- Of the next $5 deliveries of a workspace to addresses that look like these, behind a number, the oldest first, with all that
-- they say: as many as come before $6 bytes are full. And how many there were of them.
WITH next AS MATERIALIZED (
    SELECT d.id, d.idempotency_key, d.channel, d.recipient, d.template_name, d.locale, d.template::text, d.variables::text,
           d.options::text, d.topic, d.run_id, d.node, d.job_id,
           CASE WHEN d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
                THEN (SELECT k.campaign FROM dispatcher.campaign_runs k WHERE k.id = d.run_id) END AS campaign,
           d.scheduled_for, d.expires_at, d.created_at, l.status, l.life, l.attempt,
           l.finished_at, l.provider_message_id, l.error
      FROM dispatcher.sent_to($1, $2, $3::text[]) AS asked (id),
           LATERAL (SELECT * FROM dispatcher.deliveries WHERE id = asked.id LIMIT 1) AS d,
           LATERAL (SELECT * FROM dispatcher.visible_delivery_life WHERE id = asked.id LIMIT 1) AS l
     WHERE asked.id > $4
     ORDER BY d.id LIMIT $5
), sized AS (
    SELECT n.id, count(*) OVER () AS found,
           sum(octet_length(concat(n.template, n.variables, n.options)) + (
                   SELECT coalesce(sum(octet_length(m.parts::text)), 0) FROM dispatcher.captured_messages m WHERE m.delivery_id = n.id)
              ) OVER (ORDER BY n.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far
      FROM next n
)
SELECT n.*, s.found FROM next n JOIN sized s USING (id) WHERE coalesce(s.so_far, 0) < $6 ORDER BY n.id;

-- name: runs
-- Of the next $7 runs behind a number those of this workspace that may concern somebody: what they were given or have come to
-- mentions an address, or they have ordered deliveries to addresses that look like theirs: as many as come before $8 bytes are
-- full. And how many there were of them, and how far that led.
WITH span AS MATERIALIZED (
    SELECT r.* FROM dispatcher.runs r WHERE r.id > $6 ORDER BY r.id LIMIT $7
), of_here AS (
    SELECT s.*,
           EXISTS (SELECT FROM unnest($4::text[]) AS term WHERE strpos(lower(s.input::text || ' ' || s.state::text), term) > 0)
               AND lower(s.input::text || ' ' || s.state::text) ~ $5 AS mentions,
           (SELECT coalesce(jsonb_agg(jsonb_build_array(d.channel, d.recipient)), '[]') FROM dispatcher.deliveries d
             WHERE d.run_id = s.id AND (d.job_id IS NULL OR d.contact_id IS NULL) AND dispatcher.address_hash(d.recipient) IN (
                       SELECT dispatcher.address_hash(form) FROM unnest($3::text[]) AS form)) AS sent_to
      FROM span s WHERE s.tenant_id = $1 AND s.workspace_id = $2
), sized AS (
    SELECT h.*, count(*) OVER () AS found,
           sum(octet_length(concat(h.input, h.state))) OVER (ORDER BY h.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS so_far
      FROM of_here h WHERE h.mentions OR h.sent_to <> '[]'
)
SELECT r.id, r.workflow, r.status, r.idempotency_key, r.triggered_by, r.input::text, r.state::text, r.error, r.note,
       r.created_at, r.finished_at, r.mentions, r.sent_to::text, coalesce(r.found, 0) AS found, last.id AS upto
  FROM (SELECT max(id) AS id FROM span) AS last LEFT JOIN sized r ON coalesce(r.so_far, 0) < $8
 WHERE last.id IS NOT NULL
 ORDER BY r.id;
