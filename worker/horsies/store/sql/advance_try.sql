-- advancing.try_families; as advance_lock.sql, but a root that another session has locked is left out ($1 workflows)
WITH asked AS MATERIALIZED (
    SELECT DISTINCT COALESCE(root_workflow_id, id) AS root FROM horsies_workflows WHERE id = ANY ($1)
), locked AS MATERIALIZED (
    SELECT id
      FROM horsies_workflows
     WHERE id = ANY (ARRAY(SELECT root FROM asked))
     ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
SELECT root, locked.id IS NOT NULL AS is_ours
  FROM asked
  LEFT JOIN locked ON locked.id = root
       -- A root that was deleted is locked by nobody.
 WHERE CASE WHEN locked.id IS NULL THEN (SELECT count(*) FROM horsies_workflows WHERE id = root) = 1 ELSE true END
 ORDER BY root
