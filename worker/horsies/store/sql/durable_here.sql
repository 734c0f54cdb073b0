-- connect.Database.connect, for sessions that send, start and finish; leaves remote_apply, remote_write and local as they are
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
