-- pulse.read_pulse; reads only ($1 threshold in ms, $2 interval of the beats in ms)
SELECT statement_timestamp() AS now, beaten_at, newest.gap_began, newest.gap_ended,
       CASE WHEN horsies_spared_until($1, $2) > statement_timestamp() THEN horsies_spared_until($1, $2) END AS spared_until
  FROM horsies_pulse
  LEFT JOIN LATERAL (
        SELECT lower(gap) AS gap_began, upper(gap) AS gap_ended
               -- The last one is open where no worker pulses at this moment.
          FROM unnest(gaps + tstzmultirange(tstzrange(LEAST(beaten_at, statement_timestamp()), statement_timestamp()))) AS gap
         WHERE upper(gap) - lower(gap) > horsies_harmless_gap($1, $2)
         ORDER BY lower(gap) DESC
         LIMIT 1) newest ON true
