-- Refusing calls: what is wrong with a call of a function is one exception. Its DETAIL is a JSON list of every fault:
-- [{"path": "$.order", "words": ...}].

-- Raise what is wrong with a call, all of it.
CREATE FUNCTION dispatcher.refuse(p_message text, p_faults jsonb, p_code text DEFAULT '22023') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = p_message, DETAIL = p_faults::text, ERRCODE = p_code;
END $$;

-- A fault as it stands in DETAIL.
CREATE FUNCTION dispatcher.fault(p_path text, p_words text) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_array(jsonb_build_object('path', p_path, 'words', p_words))
$$;

-- Faults in words, with the paths at which they are.
CREATE FUNCTION dispatcher.faults_in_words(p_faults jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(CASE f.value ->> 'path' WHEN '$' THEN '' ELSE substr(f.value ->> 'path', 3) || ': ' END || (f.value ->> 'words'),
                      '; ' ORDER BY f.ordinality)
      FROM jsonb_array_elements(p_faults) WITH ORDINALITY AS f
$$;

-- What is wrong with an object that comes with a call. What it has is read and written again by programs whose numbers end
-- at 64 bits, and whose stack does somewhere.
CREATE FUNCTION dispatcher.object_faults(p_path text, p_value jsonb, p_bytes_max integer) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    faults jsonb := '[]';
BEGIN
    IF p_value IS NULL OR jsonb_typeof(p_value) <> 'object' THEN
        RETURN dispatcher.fault(p_path, 'expected a JSON object');
    END IF;
    IF octet_length(p_value::text) > p_bytes_max THEN
        RETURN dispatcher.fault(p_path, format('larger than %s bytes', p_bytes_max));
    END IF;
    IF jsonb_path_exists(p_value, '$.**{129}') THEN
        faults := faults || dispatcher.fault(p_path, 'nested more than 128 deep');
    END IF;
    IF jsonb_path_exists(p_value, 'strict $.** ? (@.type() == "number" && (@ > 18446744073709551615 || @ < -9223372036854775808))') THEN
        faults := faults || dispatcher.fault(p_path, 'has a number of more than 64 bits: write it as a text');
    END IF;
    RETURN faults;
END $$;

-- What is wrong with the traceparent of a caller. Its form is that of base/values/traceparent.py.
CREATE FUNCTION dispatcher.traceparent_faults(p_traceparent text) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p_traceparent !~ '^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' THEN
               dispatcher.fault('$.traceparent',
                   'expected a W3C traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01')
           ELSE '[]' END
$$;

REVOKE ALL ON FUNCTION dispatcher.refuse, dispatcher.fault, dispatcher.faults_in_words,
    dispatcher.object_faults, dispatcher.traceparent_faults FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatcher.refuse TO dispatcher_tenant;
