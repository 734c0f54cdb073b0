"""The line above the view while its figures are old: since when, why, and which key helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies_tui.look.units import time_of_day
from horsies_tui.widgets.cell import LineCell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime, tzinfo

    from horsies_tui.feed.status import LinkStatus


_ELSEWHERE: Final = {"alerts": "the alerts of the title", "recovery": "the findings"}
"""What is shown beside the view, by its feed."""


def _elsewhere(status: LinkStatus, zone: tzinfo | None) -> str:
    """`the alerts of the title are of 12:04:31Z: `, where the figures of the view itself are current."""
    old = [failure for failure in status.failing if failure.late and failure.name in _ELSEWHERE]
    if not old:
        return ""
    names = " and ".join(dict.fromkeys(_ELSEWHERE[failure.name] for failure in old))
    return f"{names} are of {time_of_day(min(failure.since for failure in old), zone)}: "


class OutageLine(LineCell):
    """Hidden while the figures are current, and before there are any."""

    def __init__(self) -> None:
        super().__init__(id="outage")
        self._reasons: tuple[str, ...] = ()

    def forget(self) -> None:
        """Another database is shown from now on."""
        self._reasons = ()

    def news(self, status: LinkStatus) -> Iterator[str]:
        """Yield each reason that was not there before."""
        # During an attempt to connect, the reason is that of the previous attempt.
        now = status.outage or (() if status.is_up else self._reasons)
        yield from (reason for reason in now if reason not in self._reasons)
        self._reasons = now

    def show(
        self, status: LinkStatus, old_since: datetime | None, zone: tzinfo | None, key: Callable[[str], str]
    ) -> None:
        """`old_since`: the time of the figures, if they are not current. `key` says which key an action has."""
        words = "; ".join(status.outage or self._reasons)
        if old_since is None:
            words = _elsewhere(status, zone) + words
        if status.blockers and status.outage:
            words = f"{key('app.end_blocker')} ends it: {words}"
        elif old_since is not None:
            words = f"figures of {time_of_day(old_since, zone)}, {key('app.refresh')} tries now: {words}"
        self.put(words)
        self.display = bool(words) and status.last_data_at is not None
