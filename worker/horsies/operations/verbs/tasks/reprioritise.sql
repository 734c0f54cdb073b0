-- name: reprioritise_refusal
-- fragment of `task_judged`; no action on the task since it was seen
COALESCE(
    /* others */,
    CASE WHEN compared.priority = /* value */::integer THEN 'it has this priority already' END)

-- name: reprioritise_sets
-- fragment of `task_update` ($17 the priority)
priority = $17::integer
