-- reading.py, for all who wait at this moment; reads only
SELECT id, status, result, error_code, failed_reason FROM horsies_tasks WHERE id = ANY ($1::text[])
