-- name: put
-- Save workflows, all or none: by name, definition and plan. They are locked in the order of their names.
SELECT asked.name, w.workflow_id, w.version_id, w.number, w.created, w.active
  FROM (SELECT * FROM unnest($3::text[], $4::json[], $5::json[]) AS a (name, definition, plan) ORDER BY name) AS asked,
       LATERAL dispatcher.put_workflow($1, $2, asked.name, asked.definition, asked.plan, $6, $7) AS w;

-- name: compare
-- What is stored under the names of these: the newest version, and whether it says just this. Those that are not stored are
-- left out.
SELECT asked.name, w.active, v.number, v.definition::text,
       v.definition::jsonb = asked.definition::jsonb AND v.plan::jsonb = asked.plan::jsonb AS same
  FROM unnest($3::text[], $4::json[], $5::json[]) AS asked (name, definition, plan)
  JOIN dispatcher.workflows w ON w.tenant_id = $1 AND w.workspace_id = $2 AND w.name = asked.name AND w.deleted_at IS NULL
                         AND w.kind = 'workflow'
  JOIN dispatcher.plan_versions v ON v.id = w.current;

-- name: list
-- The workflows of a workspace whose names come after $3, $4 at most; with $5 those that are active, or those that are not.
-- Their newest runs are looked up by BETWEEN, so that the primary key of runs is not read for them, to its end where there is none.
SELECT w.name, w.active, v.number AS version, v.total_steps, v.author, v.created_at,
       (SELECT r.id FROM dispatcher.runs r WHERE r.workflow_id BETWEEN w.id AND w.id
         ORDER BY r.workflow_id DESC, r.id DESC LIMIT 1) AS newest_run
  FROM dispatcher.workflows w JOIN dispatcher.plan_versions v ON v.id = w.current
 WHERE w.tenant_id = $1 AND w.workspace_id = $2 AND w.name > $3 AND w.deleted_at IS NULL AND w.kind = 'workflow'
   AND ($5::boolean IS NULL OR w.active = $5)
 ORDER BY w.name LIMIT $4;

-- name: find
-- A version of a workflow, the newest without a number.
SELECT w.id, w.name, w.active, w.latest, v.id AS version_id, v.number, v.total_steps, v.required_fields, v.reads::text,
       v.templates::text, v.definition::text, v.plan::text, v.author, v.created_at
  FROM dispatcher.workflows w JOIN dispatcher.plan_versions v ON v.workflow_id = w.id
 WHERE w.tenant_id = $1 AND w.workspace_id = $2 AND w.name = $3 AND w.deleted_at IS NULL AND w.kind = 'workflow'
   AND v.number = coalesce($4, w.latest);

-- name: versions
-- The versions of a workflow, newest first, $2 at most.
SELECT number, total_steps, author, created_at FROM dispatcher.plan_versions WHERE workflow_id = $1
 ORDER BY number DESC LIMIT $2;

-- name: actions
-- What was done to a workflow, the last first, $2 at most.
SELECT at, version, actor, action FROM dispatcher.workflow_actions WHERE workflow_id = $1 ORDER BY id DESC LIMIT $2;

-- name: set_active
SELECT dispatcher.set_workflow_active($1, $2, $3, $4, $5);

-- name: lock_version
-- The number of the newest version of a workflow, which is locked.
SELECT latest FROM dispatcher.workflows
 WHERE tenant_id = $1 AND workspace_id = $2 AND name = $3 AND deleted_at IS NULL AND kind = 'workflow' FOR UPDATE;

-- name: delete
SELECT dispatcher.delete_workflow($1, $2, $3, $4);
