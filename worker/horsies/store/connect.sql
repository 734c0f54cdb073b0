-- name: durable_here
-- connect.Database.connect, for sessions that send, start and finish; does not change remote_apply, remote_write and
-- local
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'

-- name: settings_here
-- connect.with_settings; holds until the end of the transaction ($1 names, $2 values)
SELECT set_config(CASE name WHEN 'default_transaction_read_only' THEN 'transaction_read_only' ELSE name END, value,
                  true)
  FROM unnest($1::text[], $2::text[]) AS setting (name, value)
