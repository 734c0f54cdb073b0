-- name: server_address
-- refusal.is_on_this_machine; reads only: whether the connection uses a socket, or the loopback, and the port
SELECT inet_server_addr() IS NULL, inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() = '::1',
       COALESCE(inet_server_port(), current_setting('port')::integer)
