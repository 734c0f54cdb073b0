"""`horsies status --chart`: what ended, failed and waited in the last hour, drawn by plotext for any terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Final

from horsies.display.terminal import Screen
from horsies.store.connect import Connection
from horsies.views import Buckets, TaskPoint, task_series

_WINDOW: Final = timedelta(hours=1)
_STEP: Final = timedelta(minutes=1)
_WIDTH: Final = 100
_LEAST_WIDTH: Final = 40
_HEIGHT: Final = 12
_ASCII: Final = str.maketrans("┌┐└┘├┤┬┴┼─│", "+++++++++-|")
_LEAST_PART: Final = 0.5
"""Of a minute: the rate of a few seconds says nothing."""


async def last_hour(conn: Connection, now: datetime) -> tuple[TaskPoint, ...]:
    """`now` is the database's."""
    return await task_series(conn, Buckets.until(now, _WINDOW, _STEP))


def chart_lines(points: Sequence[TaskPoint], screen: Screen) -> list[str]:
    """Two charts; without any task, one sentence."""
    whole = [point for point in points if point.seconds >= _LEAST_PART * _STEP.total_seconds()]
    if all(point.waiting is None for point in whole):
        return ["", "nothing to draw: no task was sent in the last hour"]
    rates = {"ended/s": [point.ended_per_s for point in whole], "failed/s": [point.failed_per_s for point in whole]}
    waiting = {"waiting": [point.waiting for point in whole]}
    return ["", *_chart(rates, screen), "", *_chart(waiting, screen), "minutes until now"]


def _chart(curves: dict[str, list[float | None]], screen: Screen) -> list[str]:
    """plotext takes 0.1 to 0.2 s to import, so only this command does."""
    plotext: Any = import_module("plotext")
    figure = plotext.figure
    plotext.terminal.limit(False, False)  # in a pipe there is no terminal whose size would be the limit
    figure.clear.all()
    figure.plot_size(max(min(screen.width or _WIDTH, _WIDTH), _LEAST_WIDTH), _HEIGHT)
    top = max((value for values in curves.values() for value in values if value is not None), default=0.0)
    figure.ruler("y").lim(0, top or 1)
    figure.ruler("x").lim(1 - _WINDOW // _STEP, 0)
    for name, values in curves.items():
        known = [(place, value) for place, value in enumerate(values, 1 - len(values)) if value is not None]
        if not known:
            continue
        places, heights = zip(*known, strict=True)
        signal = figure.signal(list(places), list(heights), marker="braille" if screen.unicode else "*")
        signal.label(name)
        signal.lines()
        for number in range(1, len(places)):
            if places[number] - places[number - 1] > 1:
                signal.line(number, active=False)  # a gap stays a gap
        figure.draw(signal)
    text = screen.adopt(figure.build().string(colorless=not screen.colour))
    return (text if screen.unicode else text.translate(_ASCII)).split("\n")
