-- pulse.write_pulse, after the beats of a worker and before a sweep; writes only where the row is older than $1
-- ($1 interval in ms, $2 threshold of runs and $3 their interval of beats in ms, $4 and $5 the same of claims,
--  $6 whether it is a worker)
SELECT horsies_pulse($1, LEAST(horsies_harmless_gap($2, $3), horsies_harmless_gap($4, $5)), $6)
