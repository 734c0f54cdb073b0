-- views/workflow_story.py; reads only: ids that begin or end so ($1), newest first, up to $2; ends only among the newest $3
-- By the primary key in any collation, as in view_find_task.sql.
SELECT id FROM (
    (SELECT id, created_at FROM horsies_workflows
      WHERE id >= $1::text AND id <= $1::text || repeat('z', 36) AND starts_with(id, $1::text)
      ORDER BY created_at DESC, id DESC
      LIMIT $2)
    UNION
    (SELECT id, created_at
       FROM (SELECT id, created_at FROM horsies_workflows ORDER BY created_at DESC, id DESC LIMIT $3) newest
      WHERE right(id, length($1::text)) = $1::text
      ORDER BY created_at DESC, id DESC
      LIMIT $2)
) found
 ORDER BY created_at DESC, id DESC
 LIMIT $2
