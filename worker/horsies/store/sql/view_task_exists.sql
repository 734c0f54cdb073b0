-- views/detail.py; reads only
SELECT true FROM horsies_tasks WHERE id = $1
