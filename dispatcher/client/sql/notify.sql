-- Tell events, and answer what was decided for each (channel, audience). Refuses with the faults of all.
SELECT n.place, n.event_id, n.channel, n.audience, n.decision, n.reason, n.fallback, n.first_decision, n.outcome,
       n.steps::text, n.delivery_ids
  FROM dispatcher.notify_events($2, $3, $1::text::jsonb, p_traceparent => $4) AS n;
