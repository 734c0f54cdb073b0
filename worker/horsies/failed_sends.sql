-- name: note_reason
-- failed_sends.abort; for this transaction alone: a rollback, also one to a savepoint, takes it back
SELECT set_config('horsies.failed_send', $1, true)

-- name: fail_at_commit
-- failed_sends.abort; temporary, and once per transaction: its deferred trigger is fired by COMMIT, and raises.
-- An error here and now would not do: COMMIT of a failed transaction is a rollback of which drivers say nothing.
DO $body$
BEGIN
  IF to_regclass('pg_temp.horsies_failed_send') IS NULL THEN
    CREATE TEMPORARY TABLE horsies_failed_send (at integer) ON COMMIT DROP;
    CREATE OR REPLACE FUNCTION pg_temp.horsies_failed_send() RETURNS trigger LANGUAGE plpgsql AS $raise$
      BEGIN
        RAISE EXCEPTION USING
          MESSAGE = COALESCE(current_setting('horsies.failed_send', true), 'a send in this transaction failed');
      END
    $raise$;
    CREATE CONSTRAINT TRIGGER horsies_failed_send AFTER INSERT ON pg_temp.horsies_failed_send
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pg_temp.horsies_failed_send();
    INSERT INTO pg_temp.horsies_failed_send VALUES (1);
  END IF;
END
$body$
