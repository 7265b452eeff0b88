-- name: put
-- Save the draft of a sequence.
SELECT answer, revision FROM dispatcher.put_sequence($1, $2, $3, $4::jsonb, $5::jsonb, $6, $7);

-- name: find
-- A sequence with the steps of its draft.
SELECT s.id, s.name, s.status, s.version, s.revision, s.is_changed, s.settings::text, s.paused_at, s.created_at, s.updated_at,
       s.user_id, s.updated_by,
       (SELECT coalesce(json_agg(dispatcher.step_as_json(t) ORDER BY t.step_order), '[]')
          FROM dispatcher.sequence_steps t WHERE t.sequence_id = s.id)::text AS steps
  FROM dispatcher.sequences s WHERE s.tenant_id = $1 AND s.workspace_id = $2 AND s.name = $3;

-- name: list
-- Sequences behind a name, $4 at most; with $5 those of a status.
SELECT s.id, s.name, s.status, s.version, s.is_changed, s.updated_at, s.updated_by,
       (SELECT count(*) FROM dispatcher.sequence_steps t WHERE t.sequence_id = s.id) AS steps
  FROM dispatcher.sequences s
 WHERE s.tenant_id = $1 AND s.workspace_id = $2 AND s.name > $3 AND ($5::text IS NULL OR s.status = $5)
 ORDER BY s.name LIMIT $4;

-- name: publish
SELECT answer, version FROM dispatcher.publish_sequence($1, $2, $3, $4, $5::json, $6::json, $7::jsonb, $8, $9);

-- name: delete
SELECT dispatcher.delete_sequence($1, $2, $3, $4, $5);

-- name: pause
SELECT dispatcher.pause_sequence($1, $2, $3, $4, $5);

-- name: resume
SELECT dispatcher.resume_sequence($1, $2, $3, $4, $5);

-- name: enrol
SELECT enrollment_id, version, status, next_step_at, duplicate FROM dispatcher.enrol($1, $2, $3, $4, $5, $6);

-- name: enrol_audience
SELECT enrolled_count, skipped_count, reasons::text FROM dispatcher.enrol_audience($1, $2::jsonb, $3, $4, $5);

-- name: change
SELECT dispatcher.change_enrollments($1, $2, $3, $4, $5::jsonb, $6, $7, $8);

-- name: act
-- Act on one enrolment of a workspace: pause, resume or cancel.
SELECT CASE WHEN NOT EXISTS (SELECT FROM dispatcher.runs r WHERE r.id = $2 AND r.contact_id IS NOT NULL
                                AND r.tenant_id = $4 AND r.workspace_id = $5) THEN 'unknown'
            WHEN $1 = 'pause' THEN dispatcher.pause_run($2, $3, $4, $5, $6)
            WHEN $1 = 'resume' THEN dispatcher.resume_run($2, $3, $4, $5, $6)
            ELSE dispatcher.cancel_run($2, $3, $4, $5, $6) END;

-- name: event
SELECT dispatcher.contact_event($1, $2, $3, $4, $5, $6);

-- name: preview_move
SELECT step, next_step, is_sending, enrollments FROM dispatcher.preview_move($1, $2, $3, $4, $5, $6);

-- name: move
SELECT seen, moved, completed, last FROM dispatcher.move_enrollments($1, $2, $3, $4, $5, $6, $7, $8);

-- name: versions
-- The versions of a sequence, newest first: when, by whom, and how many open enrolments each has, counted to $2.
SELECT v.number, v.author, v.created_at, (v.total_steps / 2)::integer AS steps,
       (SELECT count(*) FROM (SELECT FROM dispatcher.runs r WHERE r.workflow_id = $1 AND r.finished_at IS NULL
                                 AND r.version_id = v.id LIMIT $2) AS few) AS enrolled
  FROM dispatcher.plan_versions v WHERE v.workflow_id = $1 ORDER BY v.number DESC LIMIT $3;

-- name: funnel
-- Of each step, of any version: how many enrolments wait for it, and what has become of what it sent; of $4 enrolments and of the $4
-- newest messages.
SELECT step_id, waiting, pending, sent, failed, skipped FROM dispatcher.sequence_funnel($1, $2, $3, $4);

-- name: statuses
-- How many enrolments are what, of the newest $4.
SELECT status, count FROM dispatcher.count_enrollments($1, $2, $3, $4);

-- name: enrollments
-- Enrolments of a sequence below an id, newest first, $3 at most; with $4 those of a status. The order by workflow leaves
-- runs_by_workflow as the only index that fits.
SELECT e.id, e.contact_id, c.key AS contact, e.version, e.status, e.current_step_index, e.next_step_at, e.reason, e.enrolled_at,
       e.finished_at
  FROM (SELECT id FROM dispatcher.runs WHERE workflow_id BETWEEN $1 AND $1 AND id < $2 ORDER BY workflow_id DESC, id DESC) AS r,
       LATERAL (SELECT * FROM dispatcher.sequence_enrollments WHERE id = r.id LIMIT 1) AS e
  LEFT JOIN dispatcher.contacts c ON c.id = e.contact_id
 WHERE ($4::text IS NULL OR e.status = $4) AND ($5::text IS NULL OR c.key = $5)
 LIMIT $3;

-- name: enrollment
-- One enrolment of a workspace.
SELECT e.id, e.sequence, e.contact_id, c.key AS contact, e.version, e.status, e.current_step_index, e.next_step_at, e.reason,
       e.enrolled_at, e.finished_at
  FROM dispatcher.sequence_enrollments e LEFT JOIN dispatcher.contacts c ON c.id = e.contact_id
 WHERE e.id = $3 AND e.tenant_id = $1 AND e.workspace_id = $2;

-- name: logs
-- What the steps of an enrolment have sent, in order.
SELECT l.id, l.step_id, l.channel, l.content_snapshot, l.status, l.sent_at, l.error, l.held, l.created_at
  FROM dispatcher.sequence_step_logs l WHERE l.enrollment_id = $1 ORDER BY l.id;

-- name: contact
-- The id of a contact of a workspace, by its key or its id.
SELECT c.id FROM dispatcher.contacts c
 WHERE c.tenant_id = $3 AND c.workspace_id = $4 AND CASE WHEN $1::text IS NOT NULL THEN c.key = $1 ELSE c.id = $2::bigint END;
