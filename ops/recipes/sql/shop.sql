-- A shop in plain SQL: an order and its confirmation are one transaction.
--
-- After grants.sql, and with the workflow of order_confirmed.yaml, run it as the shop's role:
--
--   psql "postgresql://shop@/NAME" --set ON_ERROR_STOP=1 --file ops/recipes/sql/shop.sql

CREATE TABLE IF NOT EXISTS orders (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email     text NOT NULL,
    name      text NOT NULL,
    run_id    bigint,
    placed_at timestamptz NOT NULL DEFAULT now()
);


-- One statement: the order, and the run that confirms it. The key makes sure that an order has one run, however often
-- this is tried. Both are there when the transaction commits, and neither before.
BEGIN;
WITH placed AS (
    INSERT INTO orders (email, name) VALUES ('ann@example.org', 'Ann') RETURNING id, email, name
)
SELECT run.execution_id, run.duplicate
  FROM placed,
       dispatcher.trigger_workflow(
           workflow        => 'order_confirmed',
           input           => jsonb_build_object('order', to_jsonb(placed)),
           idempotency_key => 'order-' || placed.id,
           triggered_by    => 'the shop') AS run;
COMMIT;


-- A function that other code calls. What the dispatcher refuses undoes the order as well, and is answered with every
-- fault: [{"path": "$.order.email", "words": …}].
CREATE OR REPLACE FUNCTION place_order(
    p_email text, p_name text, OUT order_id bigint, OUT run_id bigint, OUT faults jsonb
) LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    INSERT INTO orders (email, name) VALUES (p_email, p_name) RETURNING id INTO order_id;
    SELECT t.execution_id INTO run_id
      FROM dispatcher.trigger_workflow(
               workflow        => 'order_confirmed',
               -- Without a name there is nothing to confirm with, and the workflow says so.
               input           => jsonb_build_object('order',
                                      jsonb_strip_nulls(jsonb_build_object(
                                          'id', order_id, 'email', p_email, 'name', nullif(p_name, '')))),
               idempotency_key => 'order-' || order_id,
               triggered_by    => 'the shop') AS t;
    UPDATE orders SET run_id = place_order.run_id WHERE id = order_id;
EXCEPTION WHEN invalid_parameter_value THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    order_id := NULL;
    run_id := NULL;
    faults := detail::jsonb;
END $$;

SELECT * FROM place_order('bob@example.org', 'Bob');
SELECT * FROM place_order('nobody@example.org', '');


-- One message without a workflow: a day after the order. Asking again writes nothing.
SELECT o.id, sent.delivery_id, sent.duplicate
  FROM orders o,
       dispatcher.enqueue_delivery(
           channel         => 'email',
           recipient       => o.email,
           idempotency_key => format('order-%s:review', o.id),
           template        => '{"subject": "How was order {{ id }}?", "text": "Tell us, {{ name }}."}',
           variables       => jsonb_build_object('id', o.id, 'name', o.name),
           scheduled_for   => o.placed_at + interval '1 day') AS sent
 ORDER BY o.id;

-- And not after all.
SELECT dispatcher.cancel_delivery(idempotency_key => format('order-%s:review', o.id), reason => 'it was sent back')
  FROM orders o WHERE o.email = 'bob@example.org';


-- The status of the order's run and of its review message.
SELECT o.id, run.status, run.error, review.life AS review
  FROM orders o
  LEFT JOIN LATERAL dispatcher.run_status(o.run_id) AS run ON true
  LEFT JOIN LATERAL dispatcher.delivery_status(idempotency_key => format('order-%s:review', o.id)) AS review ON true
 ORDER BY o.id;
