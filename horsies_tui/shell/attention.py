"""The terminal's title, which shows the verdict, and its bell, which rings for a new alert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from horsies.domain.plain_text import PlainText, clean
from horsies.domain.quantities import counted
from horsies_tui.health.alerts import Level
from horsies_tui.health.watch import AlertWatch
from horsies_tui.look.glyphs import cut
from horsies_tui.textual_internals import write_raw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import App

    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.health.alerts import Alert
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.settings import ConsoleSettings
    from horsies_tui.shell.database_session import DatabaseSession

# The terminal's title is pushed on its stack and popped at the end. Terminals without a stack ignore both; for them the
# title is also emptied, and most then show their own.
_KEEP: Final = "\x1b[22;2t"
_RESTORE: Final = "\x1b]2;\x1b\\\x1b[23;2t"
_LONGEST: Final = 80
_UNTITLED: Final = frozenset({"linux", "cons25"})
"""Terminals without a window title. They, and those of the `vt100` kind, may print a sequence that they do not know."""


def has_title(environ: Mapping[str, str]) -> bool:
    term = environ.get("TERM", "")
    return term not in _UNTITLED and not term.startswith("vt")


def title_of(status: LinkStatus, alerts: tuple[Alert, ...] | None, glyphs: Glyphs) -> PlainText:
    """`horsies prod ● Critical, 2 alerts`, without the control characters that names may contain."""
    name = clean(status.context_name or status.database_label)
    words = "connecting" if status.is_up or not status.detail else "no connection"
    if status.old_since("alerts", "recovery") is not None and status.is_up:
        words = "UNKNOWN"
    elif status.is_up and alerts is not None:
        level = "Critical" if any(alert.level is Level.CRITICAL for alert in alerts) else "Degraded"
        count = counted(len(alerts), "alert")
        words = f"{level}, {count}" if alerts else "Healthy"
    return clean(cut(glyphs.text(f"horsies {name} {glyphs.mark} {words}"), _LONGEST, glyphs))


class Attention:
    """Updates the title and rings the bell. Writes nothing to the terminal while nothing changes."""

    def __init__(self, app: App[Any], settings: ConsoleSettings, glyphs: Glyphs, environ: Mapping[str, str]) -> None:
        self._app = app
        self._settings = settings
        self._glyphs = glyphs
        self._titled = settings.title and has_title(environ)
        self._session: DatabaseSession | None = None
        self._watch = AlertWatch(settings.targets)
        self.title = clean("")
        """The title that the console has set; empty while the terminal shows its own."""

    @property
    def owed(self) -> str:
        """Return the bytes that restore the terminal's own title."""
        return _RESTORE if self.title else ""

    def look(self, session: DatabaseSession, status: LinkStatus) -> None:
        """Update the title, and ring the bell for alerts that are new since the last call."""
        if not session.is_open:
            return
        if session is not self._session:
            self._session, self._watch = session, AlertWatch(self._settings.targets)
        if self._watch.judge(session.watch.snapshot.glance, session.recovery.snapshot.report) and self._settings.bell:
            self._app.bell()
        if self._titled:
            self._entitle(title_of(status, self._watch.alerts, self._glyphs))

    def give_back(self) -> None:
        """Restore the terminal's title before the shell continues."""
        write_raw(self._app, self.owed)
        self.title = clean("")

    def _entitle(self, title: PlainText) -> None:
        if title != self.title:
            write_raw(self._app, f"{'' if self.title else _KEEP}\x1b]2;{title}\x1b\\")
            self.title = title
