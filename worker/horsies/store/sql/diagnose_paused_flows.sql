-- operations/diagnose_workflows.py; reads only: what waits for a person since a node failed ($1 how many ids of each name)
SELECT name, count(*)::integer AS count, min(updated_at) AS since, (array_agg(id ORDER BY updated_at, id))[1:$1] AS ids,
       (array_agg(error ORDER BY updated_at, id))[1] AS error
  FROM horsies_workflows
 WHERE status = 'PAUSED' AND on_error = 'pause' AND error IS NOT NULL
 GROUP BY name
 ORDER BY name
