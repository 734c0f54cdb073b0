"""One task's whole story: attempts, heartbeats, arguments, result, live while it is open."""
