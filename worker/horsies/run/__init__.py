"""The processes that run tasks, a package for each: `worker/` with its `pool/` of children, `child/`, `guard.py`,
`scheduler.py`; `metrics/` answers scrapes. The modules beside these packages are shared by several of them."""
