"""The commands for finding and ending trouble: recovery, audit, doctor and sessions."""
