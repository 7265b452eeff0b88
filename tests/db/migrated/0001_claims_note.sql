-- An example: what a release after the first does to a database that the first one made.
ALTER TABLE dispatcher.claims ADD COLUMN note text;
COMMENT ON COLUMN dispatcher.claims.note IS 'an example';
CREATE FUNCTION dispatcher.claims_note() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT max(note) FROM dispatcher.claims $$;
REVOKE ALL ON FUNCTION dispatcher.claims_note FROM PUBLIC;
