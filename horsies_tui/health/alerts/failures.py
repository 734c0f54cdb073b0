"""Alerts about failures: far more than usual, with one error code or in all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.views import LATELY
from horsies_tui.health.alerts import Alert, Level, Scene
from horsies_tui.health.rows import rows_of_error, rows_that_failed
from horsies_tui.health.times import lasting
from horsies_tui.look.units import number

if TYPE_CHECKING:
    from collections.abc import Iterator

SURGE: Final = 5.0
"""A surge is this many times the usual number of failures."""
LEAST_FAILURES: Final = 10


def _failures(scene: Scene) -> Iterator[Alert]:
    glance = scene.glance
    surging = [kind for kind in glance.failures if surges(kind.lately, kind.usual)]
    for kind in surging:
        rule = f"error\t{kind.error_code or ''}"
        since = scene.began.get(rule, glance.now - LATELY)
        yield Alert(
            rule,
            Level.DEGRADED,
            f"{kind.error_code or 'failures without a code'} surges",
            _compared(kind.lately, kind.usual),
            failing_since=since,
            rows=rows_of_error(kind.error_code, since),
        )
    lately = sum(kind.lately for kind in glance.failures)
    usual = [kind.usual for kind in glance.failures]
    expected = None if None in usual else sum(value for value in usual if value is not None)
    # If one code causes most failures, its alert is enough.
    if not surging and surges(lately, expected):
        since = scene.began.get("failures", glance.now - LATELY)
        evidence, rows = _compared(lately, expected), rows_that_failed(since)
        yield Alert("failures", Level.DEGRADED, "more fails than usual", evidence, failing_since=since, rows=rows)


def surges(lately: int, usual: float | None) -> bool:
    """Whether this number of failures within LATELY is far more than usual."""
    return lately >= LEAST_FAILURES and (usual is None or lately >= SURGE * max(usual, 1.0))


def _compared(lately: int, usual: float | None) -> str:
    before = "too many to say what is usual" if usual is None else f"usually {usual:.0f}"
    return f"{number(lately)} in {lasting(LATELY.total_seconds())}, {before}"


RULES = (_failures,)
