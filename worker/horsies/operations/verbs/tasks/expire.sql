-- name: expire_refusal
-- fragment of `judged`
CASE WHEN compared.good_until IS NULL THEN 'it has no good_until'
     WHEN compared.good_until > statement_timestamp() THEN 'its good_until has not passed' END
