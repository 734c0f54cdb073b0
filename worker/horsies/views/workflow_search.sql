-- name: view_workflow_edge
-- views/workflow_search.py; reads only: how far a search along an index may go
-- The last of this many rows of the source, none if there are fewer.
SELECT edge.*
  FROM (VALUES ($1::text, $2::boolean, $3::bigint, $4::timestamptz, $5::text, $6::timestamptz, $7::text, $8::interval,
                $9::timestamptz, $10::interval, $11::timestamptz)) AS wanted (
        source, ascending, most, low_time, low_id, high_time, high_id, since_ago, since_at, until_ago, until_at)
 CROSS JOIN LATERAL (
        SELECT created_at, id FROM horsies_workflows
         WHERE (wanted.source <> 'live' OR status IN ('PENDING', 'RUNNING', 'PAUSED'))
           AND (wanted.source <> 'unsuccessful' OR status IN ('FAILED', 'CANCELLED'))
           AND (wanted.low_time IS NULL OR (created_at, id) >= (wanted.low_time, wanted.low_id))
           AND (wanted.high_time IS NULL OR (created_at, id) <= (wanted.high_time, wanted.high_id))
           AND (wanted.since_ago IS NULL OR created_at >= statement_timestamp() - wanted.since_ago)
           AND (wanted.since_at IS NULL OR created_at >= wanted.since_at)
           AND (wanted.until_ago IS NULL OR created_at <= statement_timestamp() - wanted.until_ago)
           AND (wanted.until_at IS NULL OR created_at <= wanted.until_at)
         ORDER BY CASE WHEN wanted.ascending THEN created_at END, CASE WHEN wanted.ascending THEN id END,
                  CASE WHEN NOT wanted.ascending THEN created_at END DESC,
                  CASE WHEN NOT wanted.ascending THEN id END DESC
        OFFSET wanted.most - 1 LIMIT 1) edge

-- name: view_workflow_candidates
-- views/workflow_search.py, which puts it as `workflow` before the statements on workflows; reads only: the rows of a
-- source that match a filter
-- An unused parameter is NULL, and all are constants to a custom plan, as in `view_candidates`.
SELECT row.*
  FROM (VALUES (
        $1::text, $2::boolean, $3::bigint, $4::text, $5::timestamptz, $6::text, $7::timestamptz, $8::text,
        $9::text[],
        $10::text[], $11::text[], $12::text[], $13::text[],
        $14::text[], $15::text[], $16::text[], $17::text[],
        $18::text[], $19::text[], $20::text[], $21::text[],
        $22::text[], $23::text[], $24::text[], $25::text[],
        $26::text[], $27::text[], $28::text[], $29::text[],
        $30::boolean, $31::text[], $32::text[], $33::text[], $34::text[],
        $35::interval, $36::timestamptz, $37::interval, $38::timestamptz
       )) AS wanted (
        -- at most this many rows of the source, between low and high, both included, but not that one
        source, ascending, most, not_id, low_time, low_id, high_time, high_id,
        -- from here on horsies.query.WorkflowParameters, in its order
        statuses,
        ids, ids_like, not_ids, not_ids_like,
        names, names_like, not_names, not_names_like,
        definitions, definitions_like, not_definitions, not_definitions_like,
        errors, errors_like, not_errors, not_errors_like,
        parents, parents_like, not_parents, not_parents_like,
        has_parent, name_words, id_words, not_name_words, not_id_words,
        since_ago, since_at, until_ago, until_at
       )
 CROSS JOIN LATERAL (
    SELECT workflow.*,
           -- Stored as text that may be damaged, with the code in front; for a built-in code the name is inside an
           -- object.
           substring(left(error, 600) FROM '^\s*\{\s*(?:"__task_error__"\s*:\s*true\s*,\s*)?"error_code"\s*:\s*'
                                           '(?:\{\s*"__builtin_task_code__"\s*:\s*)?"([^"\\]+)"') AS error_code
      FROM (
        (SELECT * FROM horsies_workflows
          WHERE wanted.source IN ('created', 'live', 'unsuccessful')
            AND (wanted.source <> 'live' OR status IN ('PENDING', 'RUNNING', 'PAUSED'))
            AND (wanted.source <> 'unsuccessful' OR status IN ('FAILED', 'CANCELLED'))
            AND (wanted.low_time IS NULL OR (created_at, id) >= (wanted.low_time, wanted.low_id))
            AND (wanted.high_time IS NULL OR (created_at, id) <= (wanted.high_time, wanted.high_id))
            AND (wanted.since_ago IS NULL OR created_at >= statement_timestamp() - wanted.since_ago)
            AND (wanted.since_at IS NULL OR created_at >= wanted.since_at)
            AND (wanted.until_ago IS NULL OR created_at <= statement_timestamp() - wanted.until_ago)
            AND (wanted.until_at IS NULL OR created_at <= wanted.until_at)
          ORDER BY CASE WHEN wanted.ascending THEN created_at END, CASE WHEN wanted.ascending THEN id END,
                   CASE WHEN NOT wanted.ascending THEN created_at END DESC,
                   CASE WHEN NOT wanted.ascending THEN id END DESC
          LIMIT wanted.most)
        UNION ALL
        (SELECT * FROM horsies_workflows WHERE wanted.source = 'ids' AND id = ANY (wanted.ids))
        UNION ALL
        (SELECT * FROM horsies_workflows
          WHERE wanted.source = 'parents' AND parent_workflow_id = ANY (wanted.parents)
          LIMIT wanted.most)
      ) workflow
     WHERE (wanted.not_id IS NULL OR id <> wanted.not_id)
       AND (wanted.low_time IS NULL OR (created_at, id) >= (wanted.low_time, wanted.low_id))
       AND (wanted.high_time IS NULL OR (created_at, id) <= (wanted.high_time, wanted.high_id))
       AND (wanted.statuses IS NULL OR status = ANY (wanted.statuses))
       AND (wanted.since_ago IS NULL OR created_at >= statement_timestamp() - wanted.since_ago)
       AND (wanted.since_at IS NULL OR created_at >= wanted.since_at)
       AND (wanted.until_ago IS NULL OR created_at <= statement_timestamp() - wanted.until_ago)
       AND (wanted.until_at IS NULL OR created_at <= wanted.until_at)
       AND (wanted.ids IS NULL OR id = ANY (wanted.ids))
       AND (wanted.ids_like IS NULL OR id LIKE ANY (wanted.ids_like))
       AND (wanted.not_ids IS NULL OR id <> ALL (wanted.not_ids))
       AND (wanted.not_ids_like IS NULL OR NOT id LIKE ANY (wanted.not_ids_like))
       AND (wanted.names IS NULL OR name = ANY (wanted.names))
       AND (wanted.names_like IS NULL OR name LIKE ANY (wanted.names_like))
       AND (wanted.not_names IS NULL OR name <> ALL (wanted.not_names))
       AND (wanted.not_names_like IS NULL OR NOT name LIKE ANY (wanted.not_names_like))
       -- Rows without a value match no `is`, and every `is not`.
       AND (wanted.definitions IS NULL OR definition_key = ANY (wanted.definitions))
       AND (wanted.definitions_like IS NULL OR definition_key LIKE ANY (wanted.definitions_like))
       AND (wanted.not_definitions IS NULL OR (definition_key = ANY (wanted.not_definitions)) IS NOT TRUE)
       AND (wanted.not_definitions_like IS NULL
            OR (definition_key LIKE ANY (wanted.not_definitions_like)) IS NOT TRUE)
       AND (wanted.parents IS NULL OR parent_workflow_id = ANY (wanted.parents))
       AND (wanted.parents_like IS NULL OR parent_workflow_id LIKE ANY (wanted.parents_like))
       AND (wanted.not_parents IS NULL OR (parent_workflow_id = ANY (wanted.not_parents)) IS NOT TRUE)
       AND (wanted.not_parents_like IS NULL
            OR (parent_workflow_id LIKE ANY (wanted.not_parents_like)) IS NOT TRUE)
       AND (wanted.has_parent IS NULL OR (parent_workflow_id IS NOT NULL) = wanted.has_parent)
       AND (wanted.name_words IS NULL OR name LIKE ANY (wanted.name_words)
            OR wanted.id_words IS NOT NULL AND id LIKE ANY (wanted.id_words))
       AND (wanted.not_name_words IS NULL
            OR NOT (name LIKE ANY (wanted.not_name_words)
                    OR wanted.not_id_words IS NOT NULL AND id LIKE ANY (wanted.not_id_words)))
      ) row
 WHERE (wanted.errors IS NULL OR error_code = ANY (wanted.errors))
   AND (wanted.errors_like IS NULL OR error_code LIKE ANY (wanted.errors_like))
   AND (wanted.not_errors IS NULL OR (error_code = ANY (wanted.not_errors)) IS NOT TRUE)
   AND (wanted.not_errors_like IS NULL OR (error_code LIKE ANY (wanted.not_errors_like)) IS NOT TRUE)
