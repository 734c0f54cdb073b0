-- scene.py ($1, put in as text, the moment): these always say that it is then. scene.py puts them before those of PostgreSQL,
-- which the statements of the engine name without a schema; the functions of the schema have a path of their own.
CREATE SCHEMA pictures;
CREATE FUNCTION pictures.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT timestamptz '{moment}' $$;
CREATE FUNCTION pictures.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT pictures.now()';
CREATE FUNCTION pictures.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT pictures.now()';
-- As ids of ours are: the time first, then what tells two of one millisecond apart.
CREATE FUNCTION pictures.id_of(at timestamptz, what text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT concat_ws('-', left(hex, 8), right(hex, 4), '7' || left(hash, 3), '8' || substr(hash, 4, 3), right(hash, 12))
      FROM (SELECT lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS hex, md5(what) AS hash) AS parts
$$;
DO $$
DECLARE
    ours regprocedure;
BEGIN
    FOR ours IN SELECT oid FROM pg_proc WHERE proname LIKE 'horsies\_%' AND prosqlbody IS NULL LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pictures, public, pg_catalog', ours);
    END LOOP;
END
$$;
