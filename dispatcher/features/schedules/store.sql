-- name: put
SELECT dispatcher.put_schedule($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: set_active
SELECT dispatcher.set_schedule_active($1, $2, $3, $4, $5, $6);

-- name: lock_version
-- The version of a schedule, which is locked.
SELECT version FROM dispatcher.schedules WHERE tenant_id = $1 AND workspace_id = $2 AND name = $3 FOR UPDATE;

-- name: delete
SELECT dispatcher.delete_schedule($1, $2, $3, $4);

-- name: fault
SELECT dispatcher.schedule_fault($1, $2, $3);

-- name: list
-- Schedules of one workspace by name, behind $3, up to $4; with $5 those of a workflow, with $6 those that tick or do not.
SELECT name, workflow, cron, time_zone, active, next_at, last_tick, last_run, refusal, missed
  FROM dispatcher.schedules
 WHERE tenant_id = $1 AND workspace_id = $2 AND name > $3 AND ($5::text IS NULL OR workflow = $5)
   AND ($6::boolean IS NULL OR active = $6)
 ORDER BY tenant_id, workspace_id, name LIMIT $4;

-- name: show
-- One, with everything that is known about it.
SELECT id, name, workflow, cron, time_zone, input::text, version, active, next_at, last_tick, last_run, refusal, missed,
       created_at
  FROM dispatcher.schedules WHERE tenant_id = $1 AND workspace_id = $2 AND name = $3;

-- name: actions
-- What was done to one, the newest first, up to $2.
SELECT at, actor, action, version, said ->> 'workflow' AS workflow, said ->> 'cron' AS cron,
       said ->> 'time_zone' AS time_zone
  FROM dispatcher.schedule_actions WHERE schedule_id = $1 ORDER BY id DESC LIMIT $2;

-- name: take
-- Lock up to $1 schedules that are due, but for these versions of some, which others may be able to read. What is locked by
-- others is theirs: they move it on.
SELECT s.id, s.version, s.tenant_id, s.workspace_id, s.name, s.cron, s.time_zone, s.next_at, statement_timestamp() AS now
  FROM dispatcher.schedules s
 WHERE s.active AND s.next_at <= statement_timestamp()
   AND NOT EXISTS (SELECT FROM dispatcher.tenant_placements t WHERE t.tenant_id = s.tenant_id AND t.state <> 'here')
   AND NOT EXISTS (SELECT FROM unnest($2::bigint[], $3::integer[]) AS u (id, version)
                    WHERE u.id = s.id AND u.version = s.version)
 ORDER BY s.next_at LIMIT $1 FOR UPDATE SKIP LOCKED;

-- name: tick
-- Let schedules that are locked have their ticks: each with its next one, and how many it has missed.
SELECT due.id, t.run_id, t.refusal
  FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::bigint[]) AS due (id, tick, next_at, missed),
       LATERAL dispatcher.tick_schedule(due.id, due.tick, due.next_at, due.missed) AS t;

-- name: soonest
-- How long until any schedule is due; null where none is.
SELECT extract(epoch FROM min(s.next_at) - statement_timestamp())::float8 FROM dispatcher.schedules s
 WHERE s.active AND s.next_at IS NOT NULL
   AND NOT EXISTS (SELECT FROM dispatcher.tenant_placements t WHERE t.tenant_id = s.tenant_id AND t.state <> 'here');

-- name: next_due
-- How long until a schedule is due, but for these versions of some; null where none is.
SELECT extract(epoch FROM min(s.next_at) - statement_timestamp())::float8 FROM dispatcher.schedules s
 WHERE s.active AND s.next_at IS NOT NULL
   AND NOT EXISTS (SELECT FROM dispatcher.tenant_placements t WHERE t.tenant_id = s.tenant_id AND t.state <> 'here')
   AND NOT EXISTS (SELECT FROM unnest($1::bigint[], $2::integer[]) AS u (id, version)
                    WHERE u.id = s.id AND u.version = s.version);
