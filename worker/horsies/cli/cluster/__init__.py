"""The commands about workers, queues and schedules, and `horsies status`."""
