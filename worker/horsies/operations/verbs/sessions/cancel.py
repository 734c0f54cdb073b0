"""`horsies sessions cancel`: stop the statement that a session runs, but not the session."""

from __future__ import annotations

from horsies.operations.verb import SessionVerb

VERB = SessionVerb(
    name="cancel",
    place=1,
    title="Cancel the statement of",
    will="will have its statement cancelled",
    done="cancelled",
    help="Stop the statement that a session runs, as pg_cancel_backend does; its transaction is rolled back.",
    example="horsies sessions cancel 4711 --reason 'the report blocks the workers'",
    only_active=True,
    effect="its statement ends with an error; the session stays connected and may repeat it",
)
