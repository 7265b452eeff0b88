-- Keep messages, in order, and answer the id of each.
INSERT INTO dispatcher.captured_messages
    (delivery_id, attempt, tenant_id, workspace_id, channel, recipient, idempotency_key, parts, options,
     raw, fault)
SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                     $8::jsonb[], $9::jsonb[], $10::bytea[], $11::text[])
RETURNING delivery_id, id
