-- name: insert
-- Write deliveries; one whose key exists is left out. Answers position and id of each that was written.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::text::text[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::smallint[],
                         $6::text::text[], $7::text::jsonb[], $8::text::jsonb[], $9::text::jsonb[], $10::timestamptz[],
                         $11::timestamptz[], $12::text::smallint[], $13::text::text[], $14::text::text[],
                         $15::text::text[], $16::text::text[])
      AS r (tenant_id, workspace_id, idempotency_key, channel, lane, recipient, template, variables, options,
            scheduled_for, expires_at, max_attempts, template_name, locale, topic, traceparent)
)
INSERT INTO dispatcher.deliveries (tenant_id, workspace_id, idempotency_key, channel, lane, recipient, template,
                                   variables, options, scheduled_for, expires_at, max_attempts, template_name,
                                   locale, topic, traceparent)
SELECT tenant_id, workspace_id, idempotency_key, channel, lane, recipient, template, variables, options,
       coalesce(scheduled_for, now()), expires_at, max_attempts, template_name, locale, topic,
       traceparent
  FROM asked
ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING
RETURNING tenant_id, workspace_id, idempotency_key, id;

-- name: holders
-- Which delivery holds each of these keys, or what is left of it. (One by one, by the index: a join may read the whole table.)
SELECT asked.tenant_id, asked.workspace_id, asked.idempotency_key, d.id
  FROM unnest($1::text[], $2::text[], $3::text[]) AS asked (tenant_id, workspace_id, idempotency_key),
       unnest(ARRAY[asked.idempotency_key, dispatcher.erased(asked.idempotency_key)]) AS one (key),
       LATERAL (SELECT h.id FROM dispatcher.deliveries h
                 WHERE h.tenant_id = asked.tenant_id AND h.workspace_id = asked.workspace_id AND h.idempotency_key = one.key
                 LIMIT 1) AS d;

-- name: kinds
-- The time of the transaction, whether any address is suppressed, and why nothing goes out now of deliveries of these kinds.
SELECT now() AS now,
       EXISTS (SELECT FROM dispatcher.suppressions) OR EXISTS (SELECT FROM dispatcher.erased_suppressions)
           OR EXISTS (SELECT FROM dispatcher.topic_preferences) AS watched,
       dispatcher.standstill(k.tenant_id, k.workspace_id, k.channel, k.template_name) AS waits
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY
    AS k (tenant_id, workspace_id, channel, template_name, place)
 ORDER BY k.place;

-- name: standing
-- Where deliveries stand, and why they wait.
SELECT l.id, l.life, l.run_at, CASE WHEN l.status IN ('failed', 'skipped') THEN l.error END AS bar,
       CASE WHEN l.status = 'queued' THEN dispatcher.waits_for(l.id) END AS waits
  FROM unnest($1::bigint[]) AS asked (id),
       LATERAL (SELECT * FROM dispatcher.visible_delivery_life WHERE id = asked.id LIMIT 1) AS l;

-- name: list
-- The newest deliveries below id $1, filtered by life, channel, tenant, workspace and key where given.
SELECT l.id, l.tenant_id, l.workspace_id, l.idempotency_key, l.channel, l.lane, l.life, l.status, l.attempt, l.tries,
       l.max_attempts, l.run_at, l.finished_at, l.provider_message_id, l.error, l.recipient, l.run_id, l.job_id,
       CASE WHEN l.job_id IS NOT NULL AND l.contact_id IS NOT NULL
            THEN (SELECT k.campaign FROM dispatcher.campaign_runs k WHERE k.id = l.run_id) END AS campaign,
       CASE WHEN l.status = 'queued' THEN dispatcher.waits_for(l.id) END AS waits
  FROM dispatcher.visible_delivery_life l
 WHERE l.id < $1 AND ($2::text IS NULL OR l.life = $2 OR l.status = $2) AND ($3::text IS NULL OR l.channel = $3)
   AND ($4::text IS NULL OR l.tenant_id = $4) AND ($6::text IS NULL OR l.workspace_id = $6)
   AND ($7::text IS NULL OR l.idempotency_key = $7)
 ORDER BY l.id DESC LIMIT $5;

-- name: list_of_key
-- The same of the one that holds a key, or of what is left of it: looked up, where `list` would read all of a workspace.
SELECT l.id, l.tenant_id, l.workspace_id, l.idempotency_key, l.channel, l.lane, l.life, l.status, l.attempt, l.tries,
       l.max_attempts, l.run_at, l.finished_at, l.provider_message_id, l.error, l.recipient, l.run_id, l.job_id,
       CASE WHEN l.job_id IS NOT NULL AND l.contact_id IS NOT NULL
            THEN (SELECT k.campaign FROM dispatcher.campaign_runs k WHERE k.id = l.run_id) END AS campaign,
       CASE WHEN l.status = 'queued' THEN dispatcher.waits_for(l.id) END AS waits
  FROM unnest(ARRAY[$7, dispatcher.erased($7)]) AS known (key),
       LATERAL (SELECT id FROM dispatcher.deliveries
                 WHERE tenant_id = $4 AND workspace_id = $6 AND idempotency_key = known.key
                 LIMIT 1) AS one,
       LATERAL (SELECT * FROM dispatcher.visible_delivery_life WHERE id = one.id LIMIT 1) AS l
 WHERE l.id < $1 AND ($2::text IS NULL OR l.life = $2 OR l.status = $2) AND ($3::text IS NULL OR l.channel = $3)
 LIMIT $5;

-- name: subjects
-- Of each delivery the part that its first words come from, as Liquid, and what that is rendered with. Left out is what is
-- larger than $2 bytes.
SELECT d.id, p.part, p.text, (v.sources -> d.locale -> 'partials')::text AS partials, d.variables::text
  FROM unnest($1::bigint[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT * FROM dispatcher.deliveries WHERE id = asked.id LIMIT 1) AS d
  LEFT JOIN dispatcher.template_versions v ON v.id = d.template_version
 CROSS JOIN LATERAL (SELECT coalesce(d.template, v.sources -> d.locale -> 'parts') AS parts) AS said
 CROSS JOIN LATERAL (SELECT one.part, said.parts ->> one.part AS text
                       FROM unnest('{subject,title,body,text}'::text[]) WITH ORDINALITY AS one (part, place)
                      WHERE said.parts ? one.part ORDER BY one.place LIMIT 1) AS p
 WHERE pg_column_size(d.variables) <= $2 AND octet_length(p.text) <= $2;

-- name: show
-- One delivery with its life.
SELECT d.id, d.tenant_id, d.workspace_id, d.idempotency_key, d.channel, d.lane, d.recipient, d.template_name,
       v.number AS template_version, d.locale, d.template::text, d.variables::text, d.options::text, d.topic,
       d.run_id, d.job_id, k.campaign, d.scheduled_for, d.expires_at, d.created_at,
       l.life, l.status, l.attempt, l.tries, d.max_attempts, l.run_at, l.finished_at, l.provider, l.provider_message_id, l.error,
       (SELECT a.data::text FROM dispatcher.delivery_state s JOIN dispatcher.delivery_answers a
            ON a.delivery_id = s.id AND a.token = s.token WHERE s.id = d.id) AS data,
       d.retry_of, dispatcher.repair_of(d.id) AS retried_by, (dispatcher.claim_of(d.tenant_id, d.workspace_id, d.id)).*,
       (SELECT r.kind FROM dispatcher.delivery_receipts r WHERE r.delivery_id = d.id ORDER BY r.rank DESC LIMIT 1) AS receipt,
       CASE WHEN l.status = 'queued' THEN dispatcher.waits_for(l.id) END AS waits
  FROM dispatcher.deliveries d JOIN dispatcher.visible_delivery_life l USING (id)
  LEFT JOIN dispatcher.template_versions v ON v.id = d.template_version
  LEFT JOIN dispatcher.campaign_runs k ON k.id = d.run_id AND d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
 WHERE d.id = $1;

-- name: claimed
-- The owner and the token of a delivery's claim.
SELECT token, owner FROM dispatcher.delivery_life WHERE id = $1;

-- name: find
-- The id behind a key. (One by one, by the index: a join may read the whole table.)
SELECT d.id
  FROM unnest(ARRAY[$3, dispatcher.erased($3)]) AS one (key),
       LATERAL (SELECT id FROM dispatcher.deliveries
                 WHERE tenant_id = $1 AND workspace_id = $2 AND idempotency_key = one.key
                 LIMIT 1) AS d;

-- name: owner
-- The tenant and workspace of a delivery.
SELECT tenant_id, workspace_id FROM dispatcher.deliveries WHERE id = $1;

-- name: attempts
-- The attempts of a delivery that did not succeed. The last one is on its state row.
SELECT a.attempt, a.outcome, a.provider, a.ended_at, a.next_at, a.reason FROM dispatcher.delivery_attempts a
 WHERE a.delivery_id = $1
UNION ALL
SELECT s.attempt, CASE WHEN s.held THEN 'unknown' ELSE 'failed' END, s.provider, coalesce(s.finished_at, s.held_at), NULL, s.error
  FROM dispatcher.delivery_state s
 WHERE s.id = $1 AND s.marked AND (s.held OR s.status = 'failed') AND s.attempt > 0
 ORDER BY attempt;

-- name: evidence
-- Late results of a delivery.
SELECT seen_at, verdict, resolved, provider_message_id, reason FROM dispatcher.delivery_evidence
 WHERE delivery_id = $1 ORDER BY seen_at;

-- name: receipts
-- What its provider said about a delivery later on.
SELECT seen_at, said_at, provider, kind, provider_message_id, reason FROM dispatcher.delivery_receipts
 WHERE delivery_id = $1 ORDER BY rank;

-- name: actions
-- What operators did to a delivery.
SELECT at, actor, action, status_before, reason FROM dispatcher.operator_actions WHERE delivery_id = $1 ORDER BY id;

-- name: captured
-- What the capture provider was given for a delivery.
SELECT captured_at, attempt, recipient, parts::text, fault FROM dispatcher.captured_messages WHERE delivery_id = $1 ORDER BY id;

-- name: cancel
-- Cancel until it is marked.
SELECT dispatcher.cancel_delivery_by_id($1, $2, $3);

-- name: move
-- Move to another time until it is marked.
SELECT dispatcher.move_delivery($1, $2, $3, $4);

-- name: reopen
-- Send a failed or skipped one again.
SELECT dispatcher.reopen_delivery($1, $2, $3);

-- name: cancel_many
-- The same for a page, in one transaction; in the order of ids, as everybody takes locks.
SELECT asked.id, dispatcher.cancel_delivery_by_id(asked.id, $2, $3) AS answer
  FROM (SELECT id FROM unnest($1::bigint[]) AS r (id) ORDER BY id) AS asked;

-- name: move_many
-- Move a page, in one transaction; in the order of ids.
SELECT asked.id, dispatcher.move_delivery(asked.id, $4, $2, $3) AS answer
  FROM (SELECT id FROM unnest($1::bigint[]) AS r (id) ORDER BY id) AS asked;

-- name: retry_many
-- Send a page again, in one transaction; in the order of ids.
SELECT asked.id, dispatcher.reopen_delivery(asked.id, $2, $3) AS answer
  FROM (SELECT id FROM unnest($1::bigint[]) AS r (id) ORDER BY id) AS asked;

-- name: repair
-- Write a failed or skipped one anew, with further variables.
SELECT answer, delivery_id, duplicate FROM dispatcher.repair_delivery($1, $2::text::jsonb, $3, $4);

-- name: raw
-- The mail that was captured of a delivery last, as a server would get it; none where no mail can be made of it.
SELECT raw FROM dispatcher.captured_messages WHERE delivery_id = $1 ORDER BY id DESC LIMIT 1;
