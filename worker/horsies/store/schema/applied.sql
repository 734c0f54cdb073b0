-- the migrations that have been applied, run by state.py if the table exists
SELECT version, name FROM {schema}.horsies_console_schema ORDER BY version
