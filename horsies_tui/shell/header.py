"""The lines above a view: the header, and below it the age of outdated figures with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.containers import Horizontal

from horsies.domain.quantities import need_action
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import time_of_day
from horsies_tui.widgets.plain import LineCell, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime, tzinfo

    from textual.app import ComposeResult

    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.look.glyphs import Glyphs


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """The data that the header shows."""

    status: LinkStatus
    now: datetime
    clock: str
    need_action: int | None
    """Number of findings that need action; None while they have not been counted."""
    frozen: str = ""
    """The time at which the shown view was frozen; empty if it is live."""
    counted: bool = True
    """False if the number of findings is outdated."""


class Header(Horizontal):
    DEFAULT_CSS = """
    Header {
        height: 1;
        padding: 0 1;
        background: $panel;
        color: $foreground;
        & > #brand { width: 9; color: $text-muted; }
        & > #context { width: auto; max-width: 30; text-style: bold; padding: 0 1; }
        & > #place { width: 1fr; color: $text-muted; padding: 0 1; }
        & > StatusCell { width: 27; }
        & > #need { width: 17; color: $text-warning; text-style: bold; }
        & > #need.-old { color: $text-muted; text-style: none; }
        & > #actor { width: auto; max-width: 24; color: $text-muted; }
        & > #clock { width: auto; padding-left: 2; }
        & > #context.-red { background: ansi_red; color: ansi_bright_white; }
        & > #context.-green { background: ansi_green; color: ansi_black; }
        & > #context.-yellow { background: ansi_yellow; color: ansi_black; }
        & > #context.-blue { background: ansi_blue; color: ansi_bright_white; }
        & > #context.-magenta { background: ansi_magenta; color: ansi_bright_white; }
        & > #context.-cyan { background: ansi_cyan; color: ansi_black; }
        & > #context.-white { background: ansi_white; color: ansi_black; }
    }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._facts: HeaderFacts | None = None
        self.sign = ""
        """Shown before the database's name: `REC` while its data are recorded."""
        # Kept as attributes instead of queried: the link reports before the first frame and after the last.
        self._context_cell, self._place_cell = LineCell(id="context"), LineCell(id="place")
        self._status_cell = StatusCell(id="status")
        self._need_cell, self._actor_cell, self._clock_cell = (
            LineCell(id="need"),
            LineCell(id="actor"),
            LineCell(id="clock"),
        )

    def compose(self) -> ComposeResult:
        brand = LineCell(id="brand")
        brand.put("horsies")
        yield from (
            brand,
            self._context_cell,
            self._place_cell,
            self._status_cell,
            self._need_cell,
            self._actor_cell,
            self._clock_cell,
        )

    def on_resize(self) -> None:
        """Redraw once the cells have their new sizes; otherwise text that now fits would stay cut off for a second."""
        self.call_after_refresh(self._show_again)

    def _show_again(self) -> None:
        if self._facts is not None:
            self.show(self._facts)

    def show(self, facts: HeaderFacts) -> None:
        self._facts = facts
        status = facts.status
        self._show_place(status)
        self._status_cell.show(status, facts.now, facts.frozen)
        self._need_cell.put(self._need_words(facts), *(() if facts.counted else ("-old",)))
        self._actor_cell.put(status.actor)
        self._clock_cell.put(facts.clock)

    def _show_place(self, status: LinkStatus) -> None:
        """Show the database. Production is red unless a colour is configured, and also says PROD."""
        colour = status.context_colour or ("red" if status.production else None)
        words = " ".join(filter(None, (status.context_name, "PROD" if status.production else None)))
        self._context_cell.display = bool(words)
        self._context_cell.put(words, *([f"-{colour}"] if colour else []))
        label = f"{self.sign} {status.database_label}".lstrip()
        self._place_cell.put(f"{self._glyphs.crumb} {label}" if words else label)

    def _need_words(self, facts: HeaderFacts) -> str:
        if not facts.need_action:
            return ""
        words = f"{self._glyphs.alarm} {need_action(facts.need_action)}"
        return words if len(words) <= self._need_cell.content_size.width else f"{self._glyphs.alarm}{facts.need_action}"


class StatusCell(LineCell):
    """The link's status, like `LIVE 0.4s`, `POLL 2s`, `FROZEN 14:05:12Z` or `BLOCKED 14s by pid 4711`."""

    DEFAULT_CSS = """
    StatusCell {
        color: $text-muted;
        &.-live { color: $text-success; }
        &.-frozen { color: $text-accent; text-style: bold; }
        &.-slow { color: $text-warning; }
        &.-old, &.-stale, &.-down, &.-failed, &.-blocked { color: $text-error; text-style: bold; }
    }
    """

    def show(self, status: LinkStatus, now: datetime, frozen: str = "") -> None:
        """Show the status. `frozen` is the time at which the view was frozen; other reasons for old data come first."""
        state = status.state.value.lower()
        words = status.words(now)
        if frozen and status.is_up and not status.failing:
            state, words = "frozen", f"FROZEN {frozen}{' READ-ONLY' if status.read_only else ''}"
        if len(words) > self.content_size.width:
            words = words.replace("READ-ONLY", "RO")
        self.put(words, f"-{state}")
        lines = status.detail.splitlines() or [failure.reason for failure in status.failing]
        explain(self, glyphs(ascii_only=self.app.has_class("-ascii")), *lines)


_ELSEWHERE: Final = {"alerts": "the alerts of the title", "recovery": "the findings"}
"""Names of the figures that the frame shows besides the view, by their feed."""


def _elsewhere(status: LinkStatus, zone: tzinfo | None) -> str:
    """Return `the alerts of the title are of 12:04:31Z: ` if only figures outside the view are outdated."""
    old = [failure for failure in status.failing if failure.late and failure.name in _ELSEWHERE]
    if not old:
        return ""
    names = " and ".join(dict.fromkeys(_ELSEWHERE[failure.name] for failure in old))
    return f"{names} are of {time_of_day(min(failure.since for failure in old), zone)}: "


class OutageLine(LineCell):
    """The line that says why the figures are outdated; hidden while they are current and before the first read."""

    def __init__(self) -> None:
        super().__init__(id="outage")
        self._reasons: tuple[str, ...] = ()

    def forget(self) -> None:
        """Clear the line for another database."""
        self._reasons = ()

    def news(self, status: LinkStatus) -> Iterator[str]:
        """Yield each reason that is new."""
        # During an attempt to connect, the reason is from the previous attempt.
        now = status.outage or (() if status.is_up else self._reasons)
        yield from (reason for reason in now if reason not in self._reasons)
        self._reasons = now

    def show(
        self, status: LinkStatus, old_since: datetime | None, zone: tzinfo | None, key: Callable[[str], str]
    ) -> None:
        """Show the reason. `old_since` is the time of the figures if they are outdated; `key` names an action's key."""
        words = "; ".join(status.outage or self._reasons)
        if old_since is None:
            words = _elsewhere(status, zone) + words
        if status.blockers and status.outage:
            words = f"{key('app.end_blocker')} ends it: {words}"
        elif old_since is not None:
            words = f"figures of {time_of_day(old_since, zone)}, {key('app.refresh')} retries now: {words}"
        self.put(words)
        self.display = bool(words) and status.last_data_at is not None
