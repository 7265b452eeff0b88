-- name: put
-- Save versions of templates, all or none; publish them where $2 says so.
SELECT place, version_id, number, created, published FROM dispatcher.put_templates($1::jsonb, $2, $3) ORDER BY place;

-- name: publish
-- Publish a version of a template, the newest where no number is given.
SELECT version_id, number, number_before FROM dispatcher.publish_template($1, $2, $3, $4, $5);

-- name: list
-- The templates of a workspace whose names come after $3, $4 at most, with $5 those for a channel, with their newest version.
SELECT t.name, t.channel, t.latest, p.number AS published, v.locales, v.rights, v.variables, v.author, v.created_at
  FROM dispatcher.templates t
  JOIN dispatcher.template_versions v ON v.template_id = t.id AND v.number = t.latest
  LEFT JOIN dispatcher.template_versions p ON p.id = t.published
 WHERE t.tenant_id = $1 AND t.workspace_id = $2 AND t.name > $3 AND ($5::text IS NULL OR t.channel = $5)
 ORDER BY t.name LIMIT $4;

-- name: find
-- A version of each of these templates: $4 says which ('latest', 'published' or a number); those that have none are
-- left out.
SELECT t.name, t.channel, t.latest, p.number AS published, v.id, v.number AS version, v.default_locale, v.rights,
       v.variables, v.sources::text AS locales, v.author, v.created_at
  FROM unnest($3::text[]) AS asked (name)
  JOIN dispatcher.templates t ON t.tenant_id = $1 AND t.workspace_id = $2 AND t.name = asked.name
  LEFT JOIN dispatcher.template_versions p ON p.id = t.published
  JOIN dispatcher.template_versions v ON v.template_id = t.id
   AND v.number = CASE $4::text WHEN 'latest' THEN t.latest WHEN 'published' THEN p.number ELSE $4::text::integer END
 ORDER BY t.name;

-- name: history
-- The versions of a template below $5, newest first, $4 at most, each with when it was published last.
SELECT v.number, v.author, v.created_at, v.locales, a.at AS published_at, a.actor AS published_by
  FROM dispatcher.templates t
  JOIN dispatcher.template_versions v ON v.template_id = t.id
  LEFT JOIN LATERAL (SELECT at, actor FROM dispatcher.template_publications a
                      WHERE a.template_id = t.id AND a.version_id = v.id ORDER BY a.id DESC LIMIT 1) AS a ON true
 WHERE t.tenant_id = $1 AND t.workspace_id = $2 AND t.name = $3 AND v.number < $5::bigint
 ORDER BY v.number DESC LIMIT $4;

-- name: names
-- The names of a workspace's templates.
SELECT name FROM dispatcher.templates WHERE tenant_id = $1 AND workspace_id = $2 ORDER BY name;

-- name: load
-- What these versions say in these locales; one that does not exist is left out.
SELECT asked.key, (v.sources -> asked.locale)::text AS sources, v.rights
  FROM unnest($1::text[], $2::bigint[], $3::text[]) AS asked (key, version, locale)
  JOIN dispatcher.template_versions v ON v.id = asked.version
 WHERE v.sources ? asked.locale;

-- name: faults
-- Why deliveries cannot have these templates, by position; null where they can.
SELECT dispatcher.template_fault(asked.tenant_id, asked.workspace_id, asked.name, asked.channel)
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY
       AS asked (tenant_id, workspace_id, name, channel, place)
 ORDER BY asked.place;

-- name: uses
-- The campaigns, workflows (by their newest versions), sequences (by their drafts) and rules of a workspace with a template, $4 at
-- most.
SELECT kind, name
  FROM (SELECT 'campaign' AS kind, c.name FROM dispatcher.campaigns c
         WHERE c.tenant_id = $1 AND c.workspace_id = $2 AND c.template_name = $3
        UNION
        SELECT 'workflow', w.name
          FROM dispatcher.workflows w,
               LATERAL (SELECT templates FROM dispatcher.plan_versions WHERE id = w.current LIMIT 1) AS v,
               jsonb_array_elements(v.templates) AS t
         WHERE w.tenant_id = $1 AND w.workspace_id = $2 AND w.deleted_at IS NULL AND w.kind = 'workflow' AND t ->> 'name' = $3
        UNION
        SELECT 'sequence', s.name
          FROM dispatcher.sequences s JOIN dispatcher.sequence_steps t ON t.sequence_id = s.id
         WHERE s.tenant_id = $1 AND s.workspace_id = $2 AND t.template = $3
        UNION
        SELECT 'rule', concat_ws('/', r.event_trigger, r.channel, r.audience)
          FROM dispatcher.rules r JOIN dispatcher.rule_steps t ON t.rule_id = r.id
         WHERE r.tenant_id = $1 AND r.workspace_id = $2 AND t.template_name = $3) AS used
 ORDER BY kind, name LIMIT $4;
