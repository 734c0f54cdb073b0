"""The rules without I/O: states, results, codes, errors, retry decisions, schedule patterns, stored JSON."""
