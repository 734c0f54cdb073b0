-- node_tasks; tells workers that these workflows have nodes whose child is to be built ($1 workflows)
SELECT pg_notify('horsies_workflow_ready', id) FROM unnest($1::text[]) AS id
