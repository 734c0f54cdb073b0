"""A real PostgreSQL inside the user's data directory, for development, demos and tests.

Each process that uses the server holds a shared lock on `users.lock`; the kernel releases it however the process ends.
One *keeper* process starts the server, waits for the exclusive lock, which it gets when the last user has ended, and
stops the server. No list of process ids is kept, so a kill cannot leave a wrong one behind.

The wheel's `get_server` is not used: it stops the server in an atexit hook, so after kill -9 of its last user it
runs on (seen 12 s later, without end), and for root it opens each directory above the data to all accounts (a private
one went from 0700 to 0755).
"""

from horsies.store.embedded.access import EmbeddedServer, acquire
from horsies.store.embedded.place import EmbeddedPlace, default_place
from horsies.store.embedded.trusted_paths import EmbeddedError

__all__ = ["EmbeddedError", "EmbeddedPlace", "EmbeddedServer", "acquire", "default_place"]
