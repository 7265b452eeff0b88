-- name: newest
-- The newest captured messages of a workspace below an id. What is first said of each: its subject, title or text.
SELECT m.id, m.delivery_id, m.captured_at, m.channel, m.recipient, m.fault,
       left(coalesce(m.parts ->> 'subject', m.parts ->> 'title', m.parts ->> 'body', m.parts ->> 'text', ''), 200) AS title,
       left(coalesce(m.parts ->> 'text', m.parts ->> 'body', ''), 200) AS text
  FROM dispatcher.captured_messages m
 WHERE m.tenant_id = $1 AND m.workspace_id = $2 AND m.id < $3 AND ($5::text IS NULL OR m.channel = $5)
   AND ($6::text IS NULL OR m.recipient = $6)
 ORDER BY m.id DESC LIMIT $4;

-- name: one
-- A captured message.
SELECT m.id, m.delivery_id, m.attempt, m.captured_at, m.tenant_id, m.workspace_id, m.channel, m.recipient, m.idempotency_key,
       m.parts::text, m.options::text, m.raw IS NOT NULL AS has_mail, m.fault
  FROM dispatcher.captured_messages m WHERE m.id = $1;
