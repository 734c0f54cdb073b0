"""Copies a task, or one of its values, to the clipboard, or saves it in a file if it is too long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from horsies.domain.errors import HorsiesError
from horsies_tui.clipboard import copy
from horsies_tui.look.units import size
from horsies_tui.task.export import is_cut, new_file, story_json, whole_task, write_new
from horsies_tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from pathlib import Path

    from horsies.cli.payload import Masks
    from horsies.operations.why import Why
    from horsies.views import TaskDetail
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.view import ConsoleView


class Exporter:
    """The exporter of one view."""

    def __init__(self, view: ConsoleView[Any], masks: Masks, glyphs: Glyphs) -> None:
        self._view = view
        self._masks = masks
        self._glyphs = glyphs

    def take_text(self, text: str) -> None:
        if not copy(self._view, text, _size(text)):
            self._view.console.say_error(f"{_size(text)} is more than a terminal's clipboard takes; y offers a file")

    def take_task(self, detail: TaskDetail, why: Why | None) -> None:
        self._view.run_worker(self._copy(detail, why), group="take", exclusive=True)

    async def _copy(self, detail: TaskDetail, why: Why | None) -> None:
        # 50 ms for 200 kB, which must not delay keys.
        text = await asyncio.to_thread(story_json, detail, why, self._masks)
        if not is_cut(detail) and copy(self._view, text, f"{_size(text)} of JSON"):
            return

        def chosen(path: Path | None) -> None:
            self._view.take_focus()
            if path is not None:
                self._view.run_worker(self._save(path, detail, why), group="take", exclusive=True)

        title = "too long for a terminal's clipboard: write it to a file"
        name = f"horsies-task-{detail.row.id[-8:]}.json"
        prompt = Prompt(title, "path", new_file, lambda path: f"writes {path}", self._glyphs, value=name)
        self._view.console.push_sheet(prompt, chosen)

    async def _save(self, path: Path, detail: TaskDetail, why: Why | None) -> None:
        console = self._view.console
        try:
            whole = await whole_task(console.link, detail.row.id) if is_cut(detail) else detail
            if whole is None:
                raise HorsiesError("the task is gone: it was deleted a moment ago")
            text = await asyncio.to_thread(story_json, whole, why, self._masks)
            await asyncio.to_thread(write_new, path, text)
        except HorsiesError as error:
            console.say_error(error.message)
        else:
            console.say(f"wrote {_size(text)} to {path}")


def _size(text: str) -> str:
    return size(len(text.encode(errors="replace")))
