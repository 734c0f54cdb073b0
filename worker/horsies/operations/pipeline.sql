-- name: op_begin
-- operations/pipeline.py, first in the transaction of each batch
-- The plans of the actions depend on the length of their arrays, and on how much the audit and the attempts have grown
-- since the first batch: a plan made while the attempts were empty read them all for each row (360 ms a batch instead
-- of 25).
SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true)
