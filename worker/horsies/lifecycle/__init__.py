"""Every transition of a task, one function each: the claim token goes in, Accepted or Stale comes out."""
