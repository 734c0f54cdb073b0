-- the migrations that have been applied, run by look.py where the table is there
SELECT version, name FROM {schema}.horsies_console_schema ORDER BY version
