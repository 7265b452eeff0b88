-- name: take
-- Lock runs that are due and runs that were woken: up to $1 of each from each of the lanes transactional and normal, and as
-- many from bulk, but $2 where there were others. One that killed its walker before is taken alone, and so is
-- a slow one. What is locked by others is theirs: their walk sees what woke it, or leaves the wake. It does not count either: a transaction
-- that stays open over some runs keeps no others from walking. LATERAL begins with the wakes: a plain join that was planned
-- while there were few runs began with those, and went on reading all of them, 13 ms for 17,000 that wait. Of the bulk lane only
-- wakes up to the id $3 count: younger ones are settled first.
WITH urgent AS MATERIALIZED (
    SELECT d.id FROM (VALUES (0::smallint), (1::smallint)) AS l (lane),
           LATERAL (SELECT id FROM dispatcher.runs
                     WHERE lane = l.lane AND available_at <= statement_timestamp() AND takes = 0 AND NOT slow
                     ORDER BY available_at LIMIT $1 FOR UPDATE SKIP LOCKED) AS d
), woken AS MATERIALIZED (
    SELECT r.id FROM (VALUES (0::smallint), (1::smallint)) AS l (lane),
           LATERAL (SELECT d.id FROM dispatcher.wakes w,
                           LATERAL (SELECT id FROM dispatcher.runs WHERE id = w.run_id AND takes = 0 AND NOT slow
                                       FOR UPDATE SKIP LOCKED) AS d
                     WHERE w.lane = l.lane LIMIT $1) AS r
), share AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT FROM urgent) OR EXISTS (SELECT FROM woken) THEN $2 ELSE $1 END AS count
), bulk AS MATERIALIZED (
    SELECT id FROM dispatcher.runs
     WHERE lane = 2 AND available_at <= statement_timestamp() AND takes = 0 AND NOT slow
     ORDER BY available_at LIMIT (SELECT count FROM share) FOR UPDATE SKIP LOCKED
), bulk_woken AS MATERIALIZED (
    SELECT r.id
      FROM dispatcher.wakes w,
           LATERAL (SELECT id FROM dispatcher.runs WHERE id = w.run_id AND takes = 0 AND NOT slow
                       FOR UPDATE SKIP LOCKED) AS r
     WHERE w.lane = 2 AND w.id <= $3 LIMIT (SELECT count FROM share)
)
SELECT r.id, r.version_id, r.tenant_id, r.workspace_id, r.workflow, r.workflow_id, r.lane, r.contact_id,
       extract(epoch FROM r.anchor)::float8 AS anchor,
       extract(epoch FROM r.created_at)::float8 AS created_at, r.status, r.input::text, r.state::text,
       r.traceparent,
       (SELECT t.pause_id FROM dispatcher.tenant_placements t WHERE t.tenant_id = r.tenant_id) AS moved_by
  FROM dispatcher.runs r
 WHERE r.takes = 0 AND NOT r.slow AND r.id = ANY (ARRAY(
           SELECT id FROM urgent UNION SELECT id FROM woken UNION SELECT id FROM bulk UNION SELECT id FROM bulk_woken))
 ORDER BY r.id FOR UPDATE SKIP LOCKED;

-- name: left_alone
-- Whether a run is due that has killed its walker before, up to $1 times, and whether one that is slow.
SELECT EXISTS (SELECT FROM dispatcher.runs WHERE takes > 0 AND takes < $1 AND available_at <= statement_timestamp()) AS crashed,
       EXISTS (SELECT FROM dispatcher.runs WHERE slow AND takes = 0 AND available_at <= statement_timestamp()) AS slow;

-- name: take_crashed
-- Lock one run that is due and has killed its walker before; after $1 times it is left to the poison worker.
SELECT r.id, r.version_id, r.tenant_id, r.workspace_id, r.workflow, r.workflow_id, r.lane, r.contact_id,
       extract(epoch FROM r.anchor)::float8 AS anchor, extract(epoch FROM r.created_at)::float8 AS created_at, r.status, r.input::text, r.state::text,
       r.traceparent,
       (SELECT t.pause_id FROM dispatcher.tenant_placements t WHERE t.tenant_id = r.tenant_id) AS moved_by
  FROM dispatcher.runs r
 WHERE r.takes > 0 AND r.takes < $1 AND r.available_at <= statement_timestamp()
 ORDER BY r.available_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: take_slow
-- Lock the next slow run, of the first tenant after $1 that has one.
SELECT r.id, r.version_id, r.tenant_id, r.workspace_id, r.workflow, r.workflow_id, r.lane, r.contact_id,
       extract(epoch FROM r.anchor)::float8 AS anchor, extract(epoch FROM r.created_at)::float8 AS created_at, r.status, r.input::text, r.state::text,
       r.traceparent,
       (SELECT t.pause_id FROM dispatcher.tenant_placements t WHERE t.tenant_id = r.tenant_id) AS moved_by
  FROM dispatcher.runs r
 WHERE r.slow AND r.takes = 0 AND r.available_at <= statement_timestamp() AND r.tenant_id > $1
 ORDER BY r.tenant_id, r.available_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: mark_slow
-- Leave runs to the worker process; what woke them is forgotten already.
UPDATE dispatcher.runs SET slow = true, available_at = statement_timestamp() WHERE id = ANY ($1::bigint[]);

-- name: look
-- How long until a run is due, null where none waits for a time; and whether any was woken.
SELECT extract(epoch FROM min(first.available_at) - statement_timestamp())::float8 AS due,
       (SELECT EXISTS (SELECT FROM dispatcher.wakes)) AS woken
  FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS l (lane),
       LATERAL (SELECT r.available_at FROM dispatcher.runs r WHERE r.lane = l.lane AND r.available_at IS NOT NULL
                 ORDER BY r.available_at LIMIT 1) AS first
 WHERE first.available_at IS NOT NULL;

-- name: soonest
-- How long until there is a run to walk: none where any was woken, null where none waits for a time.
SELECT CASE WHEN EXISTS (SELECT FROM dispatcher.wakes) THEN 0
            ELSE extract(epoch FROM min(first.available_at) - statement_timestamp()) END::float8
  FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS l (lane),
       LATERAL (SELECT r.available_at FROM dispatcher.runs r WHERE r.lane = l.lane AND r.available_at IS NOT NULL
                 ORDER BY r.available_at LIMIT 1) AS first
 WHERE first.available_at IS NOT NULL;

-- name: poison_wanted
-- Whether there are walks of instances that are gone, runs that were taken up before and are due, or enrolments that are parked by
-- a pause that is over. Pauses that park something are found by skipping through the index: there may be a million of their enrolments.
WITH RECURSIVE parking AS (
    (SELECT parked_by FROM dispatcher.runs WHERE parked_by IS NOT NULL ORDER BY parked_by LIMIT 1)
    UNION ALL
    SELECT (SELECT r.parked_by FROM dispatcher.runs r WHERE r.parked_by > p.parked_by ORDER BY r.parked_by LIMIT 1)
      FROM parking p WHERE p.parked_by IS NOT NULL
)
SELECT EXISTS (SELECT FROM dispatcher.walks w WHERE NOT EXISTS (SELECT FROM dispatcher.instances i WHERE i.epoch = w.epoch))
       OR EXISTS (SELECT FROM dispatcher.runs WHERE takes > 0 AND available_at <= statement_timestamp())
       OR EXISTS (SELECT FROM parking k WHERE k.parked_by IS NOT NULL
                     AND NOT EXISTS (SELECT FROM dispatcher.pauses p WHERE p.id = k.parked_by AND p.ended_at IS NULL));

-- name: record_walk
-- Say, on a connection of its own, which runs are taken up now. A crash of Postgres may forget it: that was no run's fault.
-- Answers the walks that have taken up some of them too: whoever notes holds their locks, so that those walks are over, and
-- since their notes stand, they have come to nothing.
WITH unhurried AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)), noted AS (
    INSERT INTO dispatcher.walks (epoch, hand, run_ids) SELECT $1, $2, $3 FROM unhurried
)
SELECT DISTINCT w.id FROM dispatcher.walks w, unnest(w.run_ids) AS run_id
 WHERE (run_id IN (SELECT unnest($3::bigint[]))) IS TRUE;  -- as it stands, it is hashed

-- name: abandon_walk
-- A walk has come to nothing, and not through its runs' fault. (A hand of a process walks one batch at a time.)
DELETE FROM dispatcher.walks WHERE epoch = $1 AND hand = $2;

-- name: walks_of_hand
-- What a hand of a process has noted, in a transaction that is over.
SELECT id FROM dispatcher.walks WHERE epoch = $1 AND hand = $2;

-- name: walks_of_gone_instances
-- The notes of instances that are gone.
SELECT w.id FROM dispatcher.walks w WHERE NOT EXISTS (SELECT FROM dispatcher.instances i WHERE i.epoch = w.epoch);

-- name: count_crashes
-- Count a crash for each run of these walks. A locked run is left out: a live walker walks it already.
WITH ended AS (
    DELETE FROM dispatcher.walks w WHERE w.id = ANY ($1::bigint[]) RETURNING w.run_ids
), counted AS (
    SELECT id, count(*) AS deaths FROM ended, unnest(run_ids) AS id GROUP BY id
), open AS (
    SELECT r.id, c.deaths FROM counted c JOIN dispatcher.runs r ON r.id = c.id WHERE r.finished_at IS NULL
     ORDER BY r.id FOR UPDATE OF r SKIP LOCKED
)
UPDATE dispatcher.runs r
   SET takes = least(r.takes + o.deaths, 32767), available_at = CASE WHEN r.status <> 'paused' THEN statement_timestamp() END
  FROM open o WHERE r.id = o.id
RETURNING r.id;

-- name: refuse
-- What one run has, which was taken up alone, cannot be read or written: it is a dead letter.
WITH ended AS (
    DELETE FROM dispatcher.walks WHERE epoch = $1 AND hand = $2 RETURNING run_ids
), at_fault AS (
    SELECT r.id, r.contact_id IS NOT NULL AS is_enrolment FROM ended e JOIN dispatcher.runs r ON r.id = ANY (e.run_ids)
     WHERE r.finished_at IS NULL AND r.status <> 'paused' FOR UPDATE OF r
)
SELECT f.id, f.is_enrolment FROM at_fault f, dispatcher.bury_run(f.id, $3, 'walk');

-- name: delete_orphaned_wakes
-- Wakes of runs that will not be walked: they are gone, or have ended as poison.
DELETE FROM dispatcher.wakes w
 WHERE NOT EXISTS (SELECT FROM dispatcher.runs r WHERE r.id = w.run_id AND (r.takes = 0 OR r.finished_at IS NULL));

-- name: fail_poison
-- Runs that were taken up $1 times without coming further are dead letters.
WITH poison AS (
    SELECT id FROM dispatcher.runs WHERE takes > 0 AND takes >= $1 AND available_at <= statement_timestamp()
     ORDER BY id FOR UPDATE SKIP LOCKED
)
SELECT p.id, r.contact_id IS NOT NULL AS is_enrolment
  FROM poison p JOIN dispatcher.runs r ON r.id = p.id,
       dispatcher.bury_run(p.id, 'poison: it was taken up ' || r.takes || ' times, and whoever did has died', 'poison');

-- name: plans
-- Versions by id.
SELECT id, plan::text FROM dispatcher.plan_versions WHERE id = ANY ($1::bigint[]);

-- name: delete_wakes
-- Take back what woke these runs, and say what time it is.
WITH gone AS (
    DELETE FROM dispatcher.wakes WHERE lane = ANY ('{0,1,2}') AND run_id = ANY ($1::bigint[])
)
SELECT extract(epoch FROM statement_timestamp())::float8;

-- name: results
-- How the deliveries of nodes stand that are under way, with what functions have answered.
SELECT d.run_id, d.node, d.recipient, s.status, s.held,
       (coalesce(s.held_seconds, 0)
        + CASE WHEN s.held THEN extract(epoch FROM statement_timestamp() - s.held_at) ELSE 0 END
        -- Nobody works on what waits for the end of quiet hours either.
        + coalesce((SELECT extract(epoch FROM m.run_at - m.due_at) FROM dispatcher.moved_deliveries m
                     WHERE m.delivery_id = d.id), 0))::float8 AS held_seconds,
       s.provider_message_id AS message_id, extract(epoch FROM s.finished_at)::float8 AS finished_at, s.error, a.data::text
  FROM unnest($1::bigint[], $2::text[]) AS asked (run_id, node)
  JOIN dispatcher.deliveries d ON d.run_id = asked.run_id AND d.node = asked.node
  JOIN dispatcher.delivery_state s ON s.id = d.id
  LEFT JOIN dispatcher.delivery_answers a ON a.delivery_id = s.id AND a.token = s.token
 ORDER BY d.id;

-- name: signals
-- Events that no node has taken yet, oldest first.
SELECT id, run_id, name, data::text FROM dispatcher.signals WHERE run_id = ANY ($1::bigint[]) AND NOT taken ORDER BY id;

-- name: take_signals
UPDATE dispatcher.signals SET taken = true WHERE id = ANY ($1::bigint[]);

-- name: published
-- What stored templates say now: the version of each, and what it reads.
SELECT asked.tenant_id, asked.workspace_id, asked.name, asked.channel, v.id, v.variables
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS asked (tenant_id, workspace_id, name, channel)
  JOIN dispatcher.templates t ON t.tenant_id = asked.tenant_id AND t.workspace_id = asked.workspace_id
                             AND t.name = asked.name AND t.channel = asked.channel
  JOIN dispatcher.template_versions v ON v.id = t.published;

-- name: unpublished
-- Why deliveries cannot have these templates.
SELECT asked.tenant_id, asked.workspace_id, asked.name, asked.channel,
       dispatcher.template_fault(asked.tenant_id, asked.workspace_id, asked.name, asked.channel) AS words
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS asked (tenant_id, workspace_id, name, channel);

-- name: order
-- Write deliveries that nodes have ordered, due at $18: their keys were made with that, or with the time of an enrolment. A
-- key that stands is not written again.
INSERT INTO dispatcher.deliveries (run_id, node, tenant_id, workspace_id, idempotency_key, channel, recipient, template,
       template_name, template_version, variables, options, max_attempts, lane, locale, topic, expires_at, scheduled_for,
       contact_id, sequence_id, ended, traceparent)
SELECT o.run_id, o.node, o.tenant_id, o.workspace_id, o.idempotency_key, o.channel, o.recipient, o.template::jsonb,
       o.template_name, o.template_version, o.variables::jsonb, o.options::jsonb, o.max_attempts, o.lane, o.locale,
       o.topic, $18::timestamptz + make_interval(secs => o.expires_seconds), $18, o.contact_id, o.sequence_id, o.ended,
       o.traceparent
  FROM unnest($1::text::bigint[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
              $7::text::text[], $8::text[], $9::text::text[], $10::text::bigint[], $11::text[], $12::text::text[],
              $13::text::smallint[], $14::text::smallint[], $15::text::text[], $16::text::text[], $17::text::float8[],
              $19::text::bigint[], $20::text::bigint[], $21::text::text[], $22::text::text[])
    AS o (run_id, node, tenant_id, workspace_id, idempotency_key, channel, recipient, template, template_name,
          template_version, variables, options, max_attempts, lane, locale, topic, expires_seconds, contact_id, sequence_id,
          ended, traceparent)
ON CONFLICT ON CONSTRAINT deliveries_key DO NOTHING;

-- name: advance
-- Write where runs stand now, with their log. Their walk is over.
WITH ended AS (
    DELETE FROM dispatcher.walks WHERE epoch = $1 AND hand = $2
), logged AS (
    INSERT INTO dispatcher.run_entries (run_id, number, step, event, node, context, added, error)
    SELECT e.run_id, e.number, e.step, e.event, e.node, e.context::jsonb, e.added::jsonb, e.error
      FROM unnest($10::text::bigint[], $11::text::integer[], $12::text::integer[], $13::text::text[], $14::text::text[],
                  $15::text[], $16::text[], $17::text::text[])
        AS e (run_id, number, step, event, node, context, added, error)
)
UPDATE dispatcher.runs r
   SET status = a.status, available_at = to_timestamp(a.available_at), started_at = coalesce(r.started_at, statement_timestamp()),
       finished_at = CASE WHEN a.status IN ('completed', 'failed', 'cancelled') THEN statement_timestamp() END,
       paused_at = CASE WHEN a.status = 'paused' THEN statement_timestamp() END,
       error = a.error, error_node = a.error_node, dead = a.status = 'failed', takes = 0, slow = false,
       state = a.state::jsonb, anchor = coalesce(to_timestamp(a.anchor), r.anchor)
  FROM unnest($3::text::bigint[], $4::text::text[], $5::text::float8[], $6::text::text[], $7::text::text[], $8::text[],
              $9::text::float8[])
    AS a (id, status, available_at, error, error_node, state, anchor)
 WHERE r.id = a.id;

-- name: cancel_deliveries
-- What a run that has ended early had queued is not sent.
SELECT dispatcher.cancel_deliveries_of(r.id, 'dispatcher', 'its run ' || CASE r.status WHEN 'failed' THEN 'has failed' ELSE 'was cancelled' END)
  FROM dispatcher.runs r WHERE r.id = ANY ($1::bigint[]);

-- name: enter_digest
SELECT leader, until FROM dispatcher.enter_digest($1, $2, $3, $4, $5, $6, $7::jsonb);

-- name: collect_digest
SELECT items::text FROM dispatcher.collect_digest($1, $2) AS items;
