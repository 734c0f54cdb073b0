"""Alerts about far more failures than usual, with one error code or in total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.views import LATELY
from horsies_tui.health.alerts import Alert, Level, Scene
from horsies_tui.health.figure_filters import rows_of_error, rows_of_retries, rows_that_failed
from horsies_tui.look.units import lasting, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from horsies.views import Failures

SURGE: Final = 5.0
"""Factor by which a surge exceeds the usual number of failures."""
LEAST_FAILURES: Final = 10


def _failures(scene: Scene) -> Iterator[Alert]:
    glance = scene.glance
    lasting_ones = [kind for kind in glance.failures if not kind.is_over]
    surging = [kind for kind in lasting_ones if surges(kind.lately, kind.usual)]
    for kind in surging:
        rule = f"error\t{kind.error_code or ''}"
        since = _since(scene, rule, [kind])
        rows = rows_of_retries() if kind.retried * 2 > kind.lately else rows_of_error(kind.error_code, since)
        what = f"{kind.error_code or 'failures without a code'} surges"
        yield _surge(scene, rule, what, _compared(kind.lately, kind.usual, kind.retried), since, rows)
    lately = sum(kind.lately for kind in lasting_ones)
    usual = [kind.usual for kind in glance.failures]
    expected = None if None in usual else sum(value for value in usual if value is not None)
    # If one code causes most failures, its alert is enough.
    if not surging and surges(lately, expected):
        since, retried = _since(scene, "failures", lasting_ones), sum(kind.retried for kind in lasting_ones)
        rows = rows_of_retries() if retried * 2 > lately else rows_that_failed(since)
        yield _surge(scene, "failures", "more fails than usual", _compared(lately, expected, retried), since, rows)


def _since(scene: Scene, rule: str, kinds: Sequence[Failures]) -> datetime:
    """Return the time of the first failure of this surge."""
    first = min((kind.since for kind in kinds if kind.since is not None), default=scene.glance.now - LATELY)
    return scene.began.get(rule, first)


def _surge(scene: Scene, rule: str, what: str, evidence: str, since: datetime, rows: str) -> Alert:
    lasts = lasting((scene.glance.now - since).total_seconds())
    return Alert(rule, Level.DEGRADED, what, evidence, since, lasts, failing_since=since, rows=rows)


def surges(lately: int, usual: float | None) -> bool:
    """Return whether this number of failures within LATELY is far more than usual."""
    return lately >= LEAST_FAILURES and (usual is None or lately >= SURGE * max(usual, 1.0))


def _compared(lately: int, usual: float | None, retried: int) -> str:
    before = "too many to compute the usual number" if usual is None else f"usually {usual:.0f}"
    again = f", {number(retried)} retried" if retried else ""
    return f"{number(lately)} in {lasting(LATELY.total_seconds())}, {before}{again}"


RULES = (_failures,)
