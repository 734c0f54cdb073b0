-- views/detail.py; reads only: the newest beats of each span of time, newest first
-- ($1 task; of the spans: $2 numbers, $3 roles, $4 beginnings, $5 ends or NULL; $6 beats of each at most)
SELECT span.number, beat.sent_at, beat.sender_id
  FROM unnest($2::integer[], $3::text[], $4::timestamptz[], $5::timestamptz[]) AS span (number, role, since, until)
 CROSS JOIN LATERAL (
        SELECT sent_at, sender_id FROM horsies_heartbeats
         WHERE task_id = $1 AND role = span.role AND sent_at >= span.since
           AND sent_at <= COALESCE(span.until, 'infinity')
         ORDER BY sent_at DESC
         LIMIT $6) beat
 ORDER BY span.number, beat.sent_at DESC
