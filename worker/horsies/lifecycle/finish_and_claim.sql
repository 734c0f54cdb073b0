-- name: finish_and_claim
-- finish_and_claim.finish_and_claim; the token and RUNNING of the tasks that end, and the rules of `claim` for the next
-- ones
-- ($1 worker, $2 to $8 as in `claim`, $9 to $16 as $2 to $9 in `finish`)
-- It searches beyond the first rows only if $8 is empty; if it finds fewer than wanted, the worker's own claim follows.
-- A child process goes from one task to the next with one round trip and one commit instead of three.
WITH /* ended */, head AS MATERIALIZED (
    /* rows */
), first_ones AS (
    SELECT found_at, large, row_number() OVER () AS position, number, NULL::tid[] AS after
      FROM head
    /* search */
), /* placed */, claimed AS (
    /* take */
)
SELECT number, NULL AS id, NULL AS claimed_at, NULL AS enqueued_at, NULL AS task_name, NULL AS queue_name, NULL AS priority,
       NULL AS args, NULL AS kwargs, NULL AS large, NULL AS task_options, NULL AS retry_count, NULL AS max_retries,
       NULL AS is_workflow_task, NULL AS position, NULL AS in_following, NULL AS after, NULL AS sent_at, NULL AS good_until
  FROM runs
 UNION ALL
SELECT NULL, claimed.* FROM claimed

-- name: search_at_once
-- fragment of `finish_and_claim`, for a claim that is to search at once: `first_rows` finds nothing then
-- Without the search the server spends 8 µs of 285 less on one task: even a function that is not called is set up.
UNION ALL
SELECT one.found_at, one.large, one.position, NULL, CASE WHEN one.position = 1 THEN more.after END
  FROM horsies_claimable($2::text, $5::text[], $3::integer) more,
       unnest(more.found_at, more.large) WITH ORDINALITY AS one (found_at, large, position)
