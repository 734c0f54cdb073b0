"""What a database made by upstream, or by an older release, does not support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.store.schema.state import SchemaKind, SchemaState

if TYPE_CHECKING:
    from horsies.views.tables import Tables

_FINE: Final = (SchemaKind.CURRENT, SchemaKind.READ_ONLY, SchemaKind.NEWER)
_TO_UPGRADE: Final = (SchemaKind.UPSTREAM, SchemaKind.OLDER)


def lacks(state: SchemaState, here: Tables) -> tuple[str, ...]:
    """Sentences for the operator, the last one with the command that helps; empty if nothing is missing."""
    if state.kind in _FINE:
        return ()
    if state.kind not in _TO_UPGRADE:
        return (state.detail,)
    missing = []
    if not here.actions:
        missing.append("no record of what is done by hand, and no undo")
    if not here.queue_state:
        missing.append("queues cannot be paused")
    if not here.worker_orders:
        missing.append("workers cannot be drained")
    if state.kind is SchemaKind.UPSTREAM:
        missing.append("no indexes to page by: large tables are slow")
    return (*missing, state.detail)
