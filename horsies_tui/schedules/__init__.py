"""The schedules screen: the list of schedules, and the next and past runs of one."""
