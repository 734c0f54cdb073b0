-- completing; RUNNING; under the families' locks ($1 workflows, $2 statuses, $3 results, $4 errors)
UPDATE horsies_workflows workflow
   SET status = finished.status, result = finished.result, error = finished.error,
       completed_at = statement_timestamp(), updated_at = statement_timestamp()
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS finished (id, status, result, error)
 WHERE workflow.id = ANY ($1) AND workflow.id = finished.id AND CASE workflow.status WHEN 'RUNNING' THEN true END
RETURNING workflow.id
