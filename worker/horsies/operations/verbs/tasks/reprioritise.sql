-- name: reprioritise_refusal
-- fragment of `judged`; no action on the task since it was seen
COALESCE(
    /* acted_on */,
    CASE WHEN compared.priority = $17::integer THEN 'it has this priority already' END)

-- name: reprioritise_sets
-- fragment of `task_change` ($17 the priority)
priority = $17::integer
