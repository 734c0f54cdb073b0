"""The processes that run tasks, a room for each: `worker/` with its `pool/` of children, `child/`, `guard.py`,
`scheduler.py`; `metrics/` answers scrapes. What stands beside the rooms is what several of them share."""
