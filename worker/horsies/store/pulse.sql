-- name: pulse
-- pulse.write_pulse, after the beats of a worker and before a sweep; writes only where the row is older than $1
-- ($1 interval in ms, $2 threshold of runs and $3 their interval of beats in ms, $4 and $5 the same of claims,
--  $6 whether it is a worker)
SELECT horsies_pulse($1::float8, LEAST(horsies_harmless_gap($2::float8, $3::float8),
                                       horsies_harmless_gap($4::float8, $5::float8)), $6::boolean)

-- name: pulse_state
-- pulse.read_pulse; reads only ($1 threshold in ms, $2 interval of the beats in ms)
SELECT statement_timestamp() AS now, beaten_at, newest.gap_began, newest.gap_ended,
       CASE WHEN horsies_spared_until($1::float8, $2::float8) > statement_timestamp()
            THEN horsies_spared_until($1::float8, $2::float8) END AS spared_until
  FROM horsies_pulse
  LEFT JOIN LATERAL (
        -- The first pulse of all stores a gap of exactly this length, because nothing is known of the time before it.
        SELECT CASE WHEN upper(gap) - lower(gap) <> interval '3 h' THEN lower(gap) END AS gap_began,
               upper(gap) AS gap_ended
               -- The time since the last pulse is a gap of its own, if no worker pulses now.
          FROM (SELECT unnest(gaps) AS gap
                 UNION ALL SELECT tstzrange(LEAST(beaten_at, statement_timestamp()), statement_timestamp())) AS each
         WHERE upper(gap) - lower(gap) > horsies_harmless_gap($1::float8, $2::float8)
         ORDER BY lower(gap) DESC
         LIMIT 1) newest ON true

-- name: server_address
-- pulse.is_on_this_machine; reads only: whether the connection uses a socket, or the loopback, and the port
SELECT inet_server_addr() IS NULL, inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() = '::1',
       COALESCE(inet_server_port(), current_setting('port')::integer)
