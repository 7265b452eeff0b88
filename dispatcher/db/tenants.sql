-- name: find
-- Whether there is the role as which a request is served, whether we may take it (until version 15 whoever is a member
-- may), and whether it may do anything here.
SELECT pg_has_role(oid, CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END) AS ours,
       has_schema_privilege(oid, to_regnamespace('dispatcher'), 'USAGE') AS granted, current_user AS we
  FROM pg_roles RIGHT JOIN (SELECT 'dispatcher_tenant'::name AS rolname) AS asked USING (rolname);

-- name: create
-- Make it. It is of all databases of the server: somebody else may do the same at this moment.
CREATE ROLE dispatcher_tenant NOLOGIN;

-- name: grant
-- Take it, or be allowed to.
GRANT dispatcher_tenant TO CURRENT_USER;
