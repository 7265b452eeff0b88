-- Cells: which part of an installation this database is, and which tenants are at home in it.
--
-- The map
--   own_cell           the number of this database among the cells; no row: it is in none. `cell` is the same with 0 for none
--   tenant_placements  tenants that were placed: here, somewhere else, or on their way
--
-- How a tenant is refused
--   A tenant takes new work in one cell. Functions that applications call refuse a tenant that is not at home (stay_within,
--   row_security.sql), and a statement trigger on each table that takes work refuses its rows, also those of INSERT and COPY
--   (`isolate` there). A tenant without a row is at home where the cell takes such tenants. Tables that only record what
--   happens to work that was taken refuse nothing: what is under way is written to its end.
--
--   SQLSTATE 57T01: the tenant is being moved, and the statement may be repeated in a moment. 57T02: it is in another cell. The
--   DETAIL has `tenant_id`, `state`, `cell` and `url` beside the path and the words. Class 57 is that of interventions by
--   operators: the engine repeats what it interrupts, and counts it as nobody's fault.
--
-- Standing still
--   While a tenant is not `here`, a pause of the scope `moved` stops its deliveries as one of the tenant would, its runs are
--   parked by that pause, and its schedules, campaign jobs and outgoing events are left where they are.
--
--   A transaction that looked before the placement was committed may still write: who copies a tenant waits until every
--   transaction is over that was open at the commit (CREATE INDEX CONCURRENTLY waits for the same).

CREATE TABLE dispatcher.own_cell (
    takes_unlisted boolean NOT NULL DEFAULT true,
    number         smallint PRIMARY KEY CHECK (number BETWEEN 1 AND 1023)
);
COMMENT ON TABLE dispatcher.own_cell IS 'no row: this database is in no cell, as after a restore of data alone';
COMMENT ON COLUMN dispatcher.own_cell.number IS 'its ids begin at number * 2^43, below 2^53';
COMMENT ON COLUMN dispatcher.own_cell.takes_unlisted IS 'tenants without a row in tenant_placements are at home here';
CREATE UNIQUE INDEX own_cell_is_one_row ON dispatcher.own_cell ((true));

CREATE VIEW dispatcher.cell AS
SELECT coalesce(o.takes_unlisted, true) AS takes_unlisted, coalesce(o.number, 0::smallint) AS number
  FROM (SELECT) AS always LEFT JOIN dispatcher.own_cell o ON true;

CREATE TABLE dispatcher.tenant_placements (
    tenant_id text PRIMARY KEY CHECK (length(tenant_id) BETWEEN 1 AND 100),
    cell      smallint NOT NULL CHECK (cell BETWEEN 1 AND 1023),
    url       text NOT NULL DEFAULT '',
    state     text NOT NULL CHECK (state IN ('here', 'leaving', 'arriving', 'elsewhere')),
    version   bigint NOT NULL CHECK (version > 0),
    since     timestamptz NOT NULL DEFAULT now(),
    pause_id  bigint
);
COMMENT ON COLUMN dispatcher.tenant_placements.cell IS 'where it is; of one that is leaving, where it goes';
COMMENT ON COLUMN dispatcher.tenant_placements.url IS 'the address of that cell';
COMMENT ON COLUMN dispatcher.tenant_placements.version IS 'of the directory that placed it: an older one changes nothing';
COMMENT ON COLUMN dispatcher.tenant_placements.pause_id IS 'the pause by which it stands still, unless it is here';

-- Raise where a tenant is not at home here. The owner is let through where dispatcher.copying is 'yes': in the transaction of a
-- copy, and in commands that are run in all cells.
CREATE FUNCTION dispatcher.require_here(p_tenant_id text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place  dispatcher.tenant_placements;
    own    dispatcher.cell;
    words  text;
BEGIN
    IF p_tenant_id IS NULL THEN RETURN; END IF;
    SELECT c.* INTO own FROM dispatcher.cell c;
    SELECT p.* INTO place FROM dispatcher.tenant_placements p WHERE p.tenant_id = p_tenant_id;
    IF place.state = 'here' OR place.state IS NULL AND own.takes_unlisted THEN RETURN; END IF;
    IF current_setting('dispatcher.copying', true) = 'yes' AND current_setting('role') <> 'dispatcher_tenant'
       AND pg_has_role(session_user, current_user, 'MEMBER') THEN
        RETURN;
    END IF;
    words := CASE place.state
        WHEN 'leaving' THEN format('tenant %s is being moved to cell %s: try again in a moment', p_tenant_id, place.cell)
        WHEN 'arriving' THEN format('tenant %s is being moved to cell %s, this one: try again in a moment', p_tenant_id, own.number)
        WHEN 'elsewhere' THEN format('tenant %s is in cell %s%s, this is cell %s: use that cell', p_tenant_id, place.cell,
                                     coalesce(' at ' || nullif(place.url, ''), ''), own.number)
        ELSE format('tenant %s has no place in cell %s: use the cell that the directory names', p_tenant_id, own.number) END;
    PERFORM dispatcher.refuse(words,
        jsonb_build_array(jsonb_build_object('path', '$.tenant_id', 'words', words, 'tenant_id', p_tenant_id,
            'state', coalesce(place.state, 'unlisted'), 'cell', place.cell, 'url', coalesce(place.url, ''))),
        CASE WHEN place.state IN ('leaving', 'arriving') THEN '57T01' ELSE '57T02' END);
END $$;

-- Refuse rows of tenants that are not at home here; with an argument only of those that were placed. Disabled where the database
-- is in no cell; the question in the condition is all that it costs where it is in one and no tenant was placed.
CREATE FUNCTION dispatcher.stay_in_cell() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM dispatcher.tenant_placements) OR NOT (SELECT o.takes_unlisted FROM dispatcher.own_cell o) THEN
        PERFORM dispatcher.require_here(f.tenant_id) FROM (SELECT DISTINCT tenant_id FROM fresh ORDER BY tenant_id) AS f
          WHERE TG_NARGS = 0 OR EXISTS (SELECT FROM dispatcher.tenant_placements p WHERE p.tenant_id = f.tenant_id);
    END IF;
    RETURN NULL;
END $$;

-- The same for a row of a view that is changed.
CREATE FUNCTION dispatcher.row_stays_in_cell() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dispatcher.require_here(OLD.tenant_id);
    RETURN NEW;
END $$;

-- Place a tenant: the one function that does. Refuses what an older directory says; the same once more changes nothing, and is
-- answered with false.
CREATE FUNCTION dispatcher.place_tenant(p_tenant_id text, p_cell smallint, p_url text, p_state text, p_version bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Placements come one behind another.
    own   CONSTANT smallint := coalesce((SELECT o.number FROM dispatcher.own_cell o FOR NO KEY UPDATE), 0);
    known dispatcher.tenant_placements;
    pause bigint;
BEGIN
    IF own = 0 THEN
        RAISE EXCEPTION 'this database is in no cell: set cell.number in its configuration, and migrate'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF (p_state IN ('here', 'arriving')) <> (p_cell = own) THEN
        RAISE EXCEPTION 'a tenant that is % in cell % cannot be placed in cell %', p_state, own, p_cell
            USING ERRCODE = 'invalid_parameter_value', HINT = 'here and arriving name this cell, leaving and elsewhere another.';
    END IF;
    SELECT p.* INTO known FROM dispatcher.tenant_placements p WHERE p.tenant_id = p_tenant_id FOR UPDATE;
    IF known.version = p_version AND (known.cell, known.url, known.state) = (p_cell, coalesce(p_url, ''), p_state) THEN RETURN false; END IF;
    IF known.version >= p_version THEN
        RAISE EXCEPTION 'the directory is stale: tenant % was placed by version %, which % does not follow',
            p_tenant_id, known.version, p_version USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF p_state = 'here' THEN
        PERFORM dispatcher.resume('moved', p_tenant_id, NULL, NULL, 'cells', 'it is here');
    ELSE
        SELECT o.pause_id INTO pause
          FROM dispatcher.pause('moved', p_tenant_id, NULL, NULL, 'cells', format('%s: cell %s', p_state, p_cell)) AS o;
    END IF;
    INSERT INTO dispatcher.tenant_placements AS t (tenant_id, cell, url, state, version, pause_id)
    VALUES (p_tenant_id, p_cell, coalesce(p_url, ''), p_state, p_version, pause)
    ON CONFLICT (tenant_id) DO UPDATE
       SET cell = excluded.cell, url = excluded.url, state = excluded.state, version = excluded.version, since = now(),
           pause_id = excluded.pause_id;
    PERFORM pg_notify('dispatcher_control', '');
    RETURN true;
END $$;

-- Make this database a cell, or say that it is one already: every sequence goes on in the range of its number, and every table
-- that takes work refuses what belongs elsewhere. Answers whether anything was changed. Refuses another number than it has, and a
-- sequence that is beyond its range.
CREATE FUNCTION dispatcher.join_cells(p_number smallint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first    CONSTANT bigint := p_number * (2::bigint ^ 43)::bigint;
    own      smallint;
    changed  boolean;
    sequence record;
    place    regclass;
BEGIN
    IF p_number > 0 THEN
        INSERT INTO dispatcher.own_cell (number) VALUES (p_number) ON CONFLICT DO NOTHING;
    END IF;
    changed := FOUND AND p_number > 0;
    own := coalesce((SELECT o.number FROM dispatcher.own_cell o FOR NO KEY UPDATE), 0);
    IF own <> p_number THEN
        RAISE EXCEPTION 'cell.number is %, and this database is cell %: connect to the database of cell %, or set cell.number to %',
            p_number, own, p_number, own USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF p_number = 0 THEN RETURN false; END IF;
    -- Those of the schema of this function's own tables, by the catalogue: also what later versions add.
    FOR sequence IN
        SELECT c.oid::regclass AS name, coalesce(pg_sequence_last_value(c.oid::regclass), 0) AS last
          FROM pg_class c WHERE c.relkind = 'S'
           AND c.relnamespace = (SELECT t.relnamespace FROM pg_class t WHERE t.oid = 'dispatcher.cell'::regclass)
    LOOP
        IF sequence.last >= first + (2::bigint ^ 43)::bigint THEN
            RAISE EXCEPTION 'the sequence % is at %, beyond the ids of cell %: give the database a number that is free and larger',
                sequence.name, sequence.last, p_number USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        CONTINUE WHEN sequence.last >= first;
        PERFORM setval(sequence.name, first);
        changed := true;
    END LOOP;
    FOR place IN
        SELECT t.tgrelid FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
         WHERE t.tgname = 'stay_in_cell' AND t.tgenabled = 'D'
           AND c.relnamespace = (SELECT o.relnamespace FROM pg_class o WHERE o.oid = 'dispatcher.cell'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE TRIGGER stay_in_cell', place);
        changed := true;
    END LOOP;
    RETURN changed;
END $$;

-- The tables that take work of tenants.
CREATE VIEW dispatcher.work_tables AS
SELECT c.oid::regclass AS name
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE t.tgname = 'stay_in_cell' AND t.tgnargs = 0
   AND c.relnamespace = (SELECT o.relnamespace FROM pg_class o WHERE o.oid = 'dispatcher.cell'::regclass);

-- Say whether tenants that are not listed are at home here. Where one has anything here that is refused: it would be taken up in
-- another cell, which knows none of its keys.
CREATE FUNCTION dispatcher.take_unlisted(p_takes boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place regclass;
    found text;
BEGIN
    IF (SELECT o.takes_unlisted FROM dispatcher.own_cell o FOR NO KEY UPDATE) = p_takes THEN RETURN; END IF;
    FOR place IN SELECT w.name FROM dispatcher.work_tables w WHERE NOT p_takes LOOP
        EXECUTE format('SELECT t.tenant_id FROM %s t WHERE NOT EXISTS (SELECT FROM dispatcher.tenant_placements p '
            'WHERE p.tenant_id = t.tenant_id) LIMIT 1', place) INTO found;
        IF found IS NOT NULL THEN
            RAISE EXCEPTION 'tenant % has rows in % and is placed nowhere: this cell stays the default one, or its tenants are placed first',
                found, place USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
    END LOOP;
    UPDATE dispatcher.own_cell SET takes_unlisted = p_takes;
END $$;

REVOKE ALL ON FUNCTION dispatcher.take_unlisted, dispatcher.require_here, dispatcher.stay_in_cell, dispatcher.row_stays_in_cell,
    dispatcher.place_tenant, dispatcher.join_cells FROM PUBLIC;
