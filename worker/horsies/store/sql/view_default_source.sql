-- views/tables.py; reads only: whether what transactions of this session are by default was set for the server as a whole
SELECT source NOT IN ('global', 'database', 'user', 'database user')
  FROM pg_settings WHERE name = 'default_transaction_read_only'
