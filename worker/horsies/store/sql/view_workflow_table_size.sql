-- views/workflows.py; reads only: about how many workflows there are, by the last VACUUM or ANALYZE; -1 before the first
SELECT reltuples::bigint FROM pg_class WHERE oid = 'horsies_workflows'::regclass
