-- name: notify
-- Take events, and answer what was decided for each (channel, audience).
SELECT n.place, n.event_id, n.channel, n.audience, n.decision, n.reason, n.fallback, n.first_decision, n.outcome, n.steps::text,
       n.delivery_ids
  FROM dispatcher.notify_events($1, $2, $3::text::jsonb, $4, $5, $6) AS n;

-- name: note
-- Write down what became of a caller's own code.
SELECT dispatcher.note_fallback($1, $2, $3, $4, $5, $6, $7);

-- name: forget
-- Forget events that are older than so many seconds, $2 at most: of the first ids, which are the oldest.
WITH gone AS (
    DELETE FROM dispatcher.events WHERE id IN (
        SELECT o.id FROM (SELECT e.id, e.created_at FROM dispatcher.events e ORDER BY e.id LIMIT $2) AS o
         WHERE o.created_at < statement_timestamp() - make_interval(secs => $1))
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: messages
-- Deliveries as they were just written, with the content of their templates.
SELECT d.id, d.channel, d.recipient, d.scheduled_for, d.expires_at, d.template::text, d.template_name, v.number,
       (v.sources -> d.locale)::text AS source, v.rights, d.variables::text
  FROM dispatcher.deliveries d LEFT JOIN dispatcher.template_versions v ON v.id = d.template_version
 WHERE d.id = ANY ($1::bigint[]) ORDER BY d.id LIMIT $2;

-- name: put
-- Save rules, or only say what would be done.
SELECT p.place, p.name, p.answer, p.version FROM dispatcher.put_rules($1, $2, $3::text::jsonb, $4, $5) AS p ORDER BY p.place;

-- name: list
-- Rules behind a name, in the order of their names; of one trigger where $6 is given.
SELECT r.event_trigger || '/' || r.channel || '/' || r.audience AS name, r.version, r.updated_at, r.updated_by,
       dispatcher.rule_document(r.id)::text AS document
  FROM dispatcher.rules r
 WHERE r.tenant_id = $1 AND r.workspace_id = $2
   AND (r.event_trigger, r.channel, r.audience) > (split_part($3, '/', 1), split_part($3, '/', 2), split_part($3, '/', 3))
   AND ($5::text IS NULL OR r.event_trigger = $5)
 ORDER BY r.event_trigger, r.channel, r.audience LIMIT $4;

-- name: show
-- One rule by its name.
SELECT r.event_trigger || '/' || r.channel || '/' || r.audience AS name, r.version, r.updated_at, r.updated_by,
       dispatcher.rule_document(r.id)::text AS document
  FROM dispatcher.rules r
 WHERE r.tenant_id = $1 AND r.workspace_id = $2 AND r.event_trigger = $3 AND r.channel = $4 AND r.audience = $5;

-- name: names
-- The names of all rules of a workspace.
SELECT r.event_trigger || '/' || r.channel || '/' || r.audience AS name FROM dispatcher.rules r
 WHERE r.tenant_id = $1 AND r.workspace_id = $2 ORDER BY 1;

-- name: switch
-- Enable, disable or delete a rule.
SELECT dispatcher.switch_rule($1, $2, $3, $4, $5);

-- name: triggers
-- The catalogue of a workspace: its own entries, and those that come with the program and were not replaced.
SELECT k.name, k.description, k.variables, k.sample::text, k.pairs::text, k.tenant_id IS NOT NULL AS own
  FROM dispatcher.known_triggers k
 WHERE (k.tenant_id = $1 AND k.workspace_id = $2
        OR k.tenant_id IS NULL AND NOT EXISTS (
               SELECT FROM dispatcher.event_triggers o WHERE o.tenant_id = $1 AND o.workspace_id = $2 AND o.name = k.name))
   AND ($3::text IS NULL OR k.name = $3)
 ORDER BY k.name COLLATE "C";

-- name: put_trigger
-- Save an entry of the catalogue.
SELECT dispatcher.put_event_trigger($1, $2, $3, $4::text::jsonb, $5);

-- name: delete_trigger
-- Delete an entry of the catalogue.
SELECT dispatcher.delete_event_trigger($1, $2, $3, $4);
