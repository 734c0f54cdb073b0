-- operations/orders.py, before a verb is tried; reads only ($1 the table that keeps these orders)
SELECT privilege || ' ON ' || $1::text
  FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS privilege
 WHERE NOT has_table_privilege($1::text::regclass, privilege)
