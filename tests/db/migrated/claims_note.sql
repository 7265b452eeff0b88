-- The same in the files that a new database is made from.
COMMENT ON COLUMN dispatcher.claims.note IS 'an example';

CREATE FUNCTION dispatcher.claims_note() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT max(note) FROM dispatcher.claims $$;
REVOKE ALL ON FUNCTION dispatcher.claims_note FROM PUBLIC;
