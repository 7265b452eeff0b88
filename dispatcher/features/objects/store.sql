-- name: put
SELECT dispatcher.put_object($1, $2, $3, $4, $5);

-- name: erase
SELECT dispatcher.erase_object($1, $2, $3);

-- name: sizes
-- Of the objects asked about, those that are there, with their sizes: contents are not read.
SELECT o.tenant_id, o.workspace_id, o.name, o.size
  FROM unnest($1::text[], $2::text[], $3::text[]) AS asked (tenant_id, workspace_id, name)
  JOIN dispatcher.objects o USING (tenant_id, workspace_id, name)
 WHERE o.erased_at IS NULL;

-- name: contents
-- The contents of objects, with their types.
SELECT o.tenant_id, o.workspace_id, o.name, o.content_type, o.content
  FROM unnest($1::text[], $2::text[], $3::text[]) AS asked (tenant_id, workspace_id, name)
  JOIN dispatcher.objects o USING (tenant_id, workspace_id, name)
 WHERE o.erased_at IS NULL;

-- name: list
-- Objects of one workspace by name, behind $3, up to $4.
SELECT name, content_type, size, sha256, created_at, erased_at
  FROM dispatcher.objects
 WHERE tenant_id = $1 AND workspace_id = $2 AND name > $3
 ORDER BY tenant_id, workspace_id, name LIMIT $4;

-- name: show
-- One object without its content.
SELECT name, content_type, size, sha256, created_at, erased_at
  FROM dispatcher.objects WHERE tenant_id = $1 AND workspace_id = $2 AND name = $3;
