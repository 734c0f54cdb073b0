-- name: view_walk
-- views/searching.py; reads only: the rows of a source along its index
SELECT /* time */ AS at, /* alias */.* FROM /* table */ /* alias */ WHERE /* rows */ ORDER BY /* order */ LIMIT /* most */

-- name: view_walk_of_each
-- views/searching.py; reads only: the rows of a source whose index begins with a name, the first of each name
SELECT walked.*
  FROM (SELECT name FROM (/* each */) every (name) WHERE /* named */) one
 CROSS JOIN LATERAL (
       SELECT /* time */ AS at, /* alias */.* FROM /* table */ /* alias */ WHERE /* rows */ ORDER BY /* order */ LIMIT /* most */
      ) walked

-- name: view_edge
-- views/searching.py; reads only: the last of so many rows of a source, none if there are fewer
SELECT /* time */ AS at, id, /* priority */ AS priority
  FROM /* table */ /* alias */
 WHERE /* rows */
 ORDER BY /* order */
OFFSET /* most */ - 1 LIMIT 1

-- name: view_edge_of_each
-- views/searching.py; reads only: the same for a source that is read name by name, until so many rows are found in total
WITH one AS (SELECT name FROM (/* each */) every (name) WHERE /* named */)
SELECT walked.at, walked.id, walked.priority
  FROM one
 CROSS JOIN LATERAL (
       SELECT /* time */ AS at, id, /* priority */ AS priority
         FROM /* table */ /* alias */
        WHERE /* rows */
        ORDER BY /* order */
       OFFSET /* most */ / (SELECT count(*) FROM one) + 1 LIMIT 1
      ) walked
 ORDER BY /* order */
 LIMIT 1

-- name: view_table_size
-- views/searching.py; reads only: about how many rows the table $1 has, by the last VACUUM or ANALYZE; -1 before the first
SELECT reltuples::bigint FROM pg_class WHERE oid = $1::text::regclass
