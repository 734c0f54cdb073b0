"""The screen of one task: attempts, heartbeats, arguments and result, updated while it is open."""
