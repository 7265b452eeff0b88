-- Settings of workspaces: how phone numbers without a country are read, and which clocks its hours are those of.
--
-- A workspace without a row has no region and the zone UTC. Phone numbers are read in SQL, so that every door decides alike:
-- what the library knows of a region (its calling code and patterns) is kept beside it when the region is set.

CREATE TABLE dispatcher.workspace_settings (
    updated_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    tenant_id    text NOT NULL,
    workspace_id text NOT NULL,
    phone_region text,
    time_zone    text NOT NULL DEFAULT 'UTC',
    updated_by   text NOT NULL CHECK (updated_by <> ''),
    phone_rule   jsonb,
    PRIMARY KEY (tenant_id, workspace_id),
    CONSTRAINT workspace_settings_tenant_named
        CHECK (length(tenant_id) BETWEEN 1 AND 100 AND length(workspace_id) BETWEEN 1 AND 100),
    CONSTRAINT workspace_settings_region_form CHECK (phone_region ~ '^[A-Z]{2}$'),
    CONSTRAINT workspace_settings_zone_length CHECK (length(time_zone) BETWEEN 1 AND 100),
    CONSTRAINT workspace_settings_region_with_rule CHECK ((phone_region IS NULL) = (phone_rule IS NULL))
);
COMMENT ON COLUMN dispatcher.workspace_settings.phone_rule IS
    '{"region", "code": its calling code, "abroad": pattern of a call abroad, "trunk": pattern of the prefix within, "turns": what '
    'the prefix becomes, "numbers": pattern of its numbers}';
CALL dispatcher.isolate('dispatcher.workspace_settings');

-- Read a phone number as somebody has written it: `number` is its E.164 form, or `fault` says why there is none. A number
-- with + or 00 needs no rule. Any other is read as within the region of the rule, and refused where it can be read in two
-- ways: a guess would reach a stranger. (It follows the library phonenumbers, and refuses more: the tests compare them.)
CREATE FUNCTION dispatcher.phone_number(p_written text, p_rule jsonb, OUT number text, OUT fault text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written CONSTANT text := btrim(p_written, E' \t\u00a0');
    digits  text;
    rest    text;
    groups  text[];
    turned  text;
BEGIN
    IF coalesce(written, '') !~ '^\+?\(?[0-9][0-9 ().\-/\u00a0]*$' OR length(written) > 100 THEN
        fault := 'is not a phone number: expected + and its digits';
        RETURN;
    END IF;
    -- A trunk prefix as people write it: +49 (0) 170.
    digits := regexp_replace(regexp_replace(written, '(?<=[0-9])[ \u00a0]*\(0\)', ''), '[^0-9]', '', 'g');
    IF written LIKE '+%' THEN
        rest := digits;
    ELSIF p_rule IS NOT NULL AND digits ~ (p_rule ->> 'abroad') THEN
        rest := regexp_replace(digits, p_rule ->> 'abroad', '');
    ELSIF digits LIKE '00%' THEN
        rest := substr(digits, 3);
    END IF;
    IF rest IS NOT NULL THEN
        -- Within +1 every number has ten digits, and none begins with 0 or 1.
        IF rest !~ '^[1-9][0-9]{3,14}$' OR rest LIKE '1%' AND rest !~ '^1[2-9][0-9]{9}$' THEN
            fault := 'is not a phone number: expected 4 to 15 digits that begin with a calling code';
        ELSE
            number := '+' || rest;
        END IF;
        RETURN;
    END IF;
    IF p_rule IS NULL THEN
        fault := 'has no country: write + or 00 and the calling code before it, or set the phone_region of the workspace';
        RETURN;
    END IF;
    -- The whole of the prefix, then the groups of its pattern.
    groups := regexp_match(digits, p_rule ->> 'trunk');
    rest := digits;
    IF groups[1] <> '' THEN
        turned := substr(digits, length(groups[1]) + 1);
        IF p_rule ->> 'turns' IS NOT NULL AND groups[cardinality(groups)] IS NOT NULL THEN
            FOR place IN 2..cardinality(groups) LOOP
                CONTINUE WHEN strpos(p_rule ->> 'turns', '$' || place - 1) = 0;
                turned := replace(p_rule ->> 'turns', '$' || place - 1, coalesce(groups[place], '')) || turned;
            END LOOP;
        END IF;
        IF digits !~ (p_rule ->> 'numbers') OR turned ~ (p_rule ->> 'numbers') THEN rest := turned; END IF;
    END IF;
    IF rest = digits AND digits LIKE (p_rule ->> 'code') || '%' THEN
        fault := format('begins with %s, the calling code of %s: write + before it', p_rule ->> 'code', p_rule ->> 'region');
    ELSIF rest !~ (p_rule ->> 'numbers') THEN
        fault := format('is not a phone number of %s: write + and its calling code before it', p_rule ->> 'region');
    ELSE
        number := '+' || (p_rule ->> 'code') || rest;
    END IF;
END $$;

-- Save the settings of a workspace.
CREATE FUNCTION dispatcher.put_workspace_settings(
    p_tenant_id text, p_workspace_id text, p_phone_region text, p_time_zone text, p_phone_rule jsonb, p_actor text
) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO dispatcher.workspace_settings AS s (tenant_id, workspace_id, phone_region, time_zone, phone_rule, updated_by)
    VALUES (p_tenant_id, p_workspace_id, p_phone_region, p_time_zone, p_phone_rule, p_actor)
    ON CONFLICT (tenant_id, workspace_id) DO UPDATE
       SET phone_region = excluded.phone_region, time_zone = excluded.time_zone, phone_rule = excluded.phone_rule,
           updated_by = excluded.updated_by, updated_at = statement_timestamp()
$$;

REVOKE ALL ON FUNCTION dispatcher.phone_number, dispatcher.put_workspace_settings FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON dispatcher.workspace_settings TO dispatcher_tenant;
GRANT EXECUTE ON FUNCTION dispatcher.phone_number, dispatcher.put_workspace_settings TO dispatcher_tenant;
