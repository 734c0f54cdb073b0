"""The workers screen: the list of workers and hosts, and the details of one worker."""
