"""`horsies sessions terminate`: the server ends a session, even in the middle of a statement."""

from __future__ import annotations

from horsies.operations.verb import SessionVerb

VERB = SessionVerb(
    name="terminate",
    place=2,
    title="Terminate",
    will="will be disconnected",
    done="terminated",
    help="Disconnect a session, as pg_terminate_backend does; its transaction is rolled back and its locks released.",
    example="horsies sessions terminate 4711 --reason 'forgotten psql with a lock'",
    only_active=False,
    effect="its transaction is rolled back, its locks are released, and its program loses the connection",
)
