"""The transitions of tasks, workflows and schedules; each is guarded by a claim token or by the lock of a family."""
