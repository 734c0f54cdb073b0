"""The schema: whether a worker could start on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.store.schema import SchemaKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.doctor import CheckContext

_VERDICTS: Final = {SchemaKind.CURRENT: CheckVerdict.OK, SchemaKind.READ_ONLY: CheckVerdict.WARN}


async def _schema(context: CheckContext) -> Iterable[CheckLine]:
    state = context.schema
    return [CheckLine(_VERDICTS.get(state.kind, CheckVerdict.FAIL), state.problem, state.way_out or None)]


CHECKS = (Check("schema", 10, _schema),)
