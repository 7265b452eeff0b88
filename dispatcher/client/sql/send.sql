-- Write deliveries, in the order in which they are asked for. Refuses at the first that has a fault, with all that it has.
SELECT written.delivery_id AS id, asked.idempotency_key, written.duplicate
  FROM ROWS FROM (jsonb_to_recordset($1::text::jsonb)
           AS (idempotency_key text, channel text, recipient text, template jsonb, template_name text, locale text,
               variables jsonb, options jsonb, lane text, scheduled_for timestamptz, expires_at timestamptz,
               max_attempts integer, topic text)) WITH ORDINALITY
         AS asked (idempotency_key, channel, recipient, template, template_name, locale, variables, options, lane,
                   scheduled_for, expires_at, max_attempts, topic, place),
       LATERAL dispatcher.enqueue_delivery(asked.channel, asked.recipient, asked.idempotency_key, asked.template,
           asked.template_name, asked.variables, asked.options, asked.lane, asked.scheduled_for, asked.expires_at,
           asked.max_attempts, asked.locale, asked.topic, $2, $3, $4) AS written
 ORDER BY asked.place;
