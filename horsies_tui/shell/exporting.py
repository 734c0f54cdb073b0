"""An export of the console: all rows of a filter into a new file, in the background."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.errors import HorsiesError
from horsies.domain.quantities import counted
from horsies.store.pool import CONNECTION_ERRORS
from horsies_tui.actions import key_for
from horsies_tui.feed.status import sentence
from horsies_tui.look.units import number, size, ticking
from horsies_tui.widgets.plain import LineCell

if TYPE_CHECKING:
    from textual.worker import Worker

    from horsies.display.exporting import Export, Format
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.view import Console

_SHOWN_EVERY_S: Final = 0.5
_PAUSE_S: Final = 0.001
"""Pause between batches: a key takes several steps of the event loop, and each would wait for some rows."""


class ExportLine(LineCell):
    """The line above the footer with the progress of the export; hidden while none runs."""

    DEFAULT_CSS = """
    ExportLine { width: 1fr; padding: 0 1; background: $panel; color: $text-accent; display: none; }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="export")
        self._glyphs = glyphs
        self._writing: Worker[None] | None = None
        self._shown_at = 0.0

    @property
    def is_running(self) -> bool:
        return self._writing is not None and not self._writing.is_finished

    def start(self, console: Console, export: Export[Any], form: Format, path: str) -> None:
        link = console.link
        if self.is_running:
            console.say_error("an export is already running; esc stops it")
            return
        at = link.clock.now()
        wanted = path or f"horsies-{export.name}-{at:%Y%m%dT%H%M%SZ}.{form}"
        self._shown_at = 0.0
        work = self._write(console, link, export, form, Path(wanted).expanduser())
        self._writing = self.run_worker(work, group="export", exit_on_error=True)

    def stop(self) -> bool:
        """Stop the export; return False if none runs."""
        if not self.is_running or self._writing is None:
            return False
        self._writing.cancel()
        return True

    async def _write(self, console: Console, link: DatabaseLink, export: Export[Any], form: Format, path: Path) -> None:
        from horsies.display.exporting import export_rows, new_file

        began, done = link.clock.monotonic(), 0

        def show(rows: int) -> None:
            nonlocal done
            done = rows
            now = link.clock.monotonic()
            if now - self._shown_at >= _SHOWN_EVERY_S:
                self._shown_at = now
                self._show(f"exporting to {path}: {number(rows)} {export.name}, {stop} stops")

        stop = key_for("app.back", self.app.screen, self._glyphs)
        self._show(f"exporting to {path}, {stop} stops")
        try:
            with new_file(path) as out:
                async with link.connected("console export") as conn:
                    rows = await export_rows(conn, export, form, out, show, pause_s=_PAUSE_S)
                    written = out.tell()
        except HorsiesError as error:
            console.say_error(error.message)
        except CONNECTION_ERRORS as error:
            console.say_error(f"the export failed after {counted(done, 'row')}, no file was written: {sentence(error)}")
        except BaseException:
            if self.app.is_running:
                console.say(f"export stopped after {counted(done, 'row')}; no file was written")
            raise
        else:
            took = ticking(timedelta(seconds=link.clock.monotonic() - began))
            console.say(f"{number(rows)} {export.name} in {path}, {size(written)} in {took}")
        finally:
            self._show("")

    def _show(self, text: str) -> None:
        if self.is_attached:
            self.put(text)
            self.display = bool(text)
