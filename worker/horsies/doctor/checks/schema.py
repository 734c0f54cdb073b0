"""The schema: whether a worker could start on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, Line, Verdict
from horsies.store.schema import SchemaKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.doctor import Patient

_VERDICTS: Final = {SchemaKind.CURRENT: Verdict.OK, SchemaKind.READ_ONLY: Verdict.WARN}


async def _schema(patient: Patient) -> Iterable[Line]:
    state = patient.schema
    return [Line(_VERDICTS.get(state.kind, Verdict.FAIL), state.problem, state.way_out or None)]


CHECKS = (Check("schema", 10, _schema),)
