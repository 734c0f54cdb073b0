"""A task as the JSON of `horsies tasks show --json`, for the clipboard or, if it is too long, a file."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from horsies.display.json_output import detail_report, plain
from horsies.display.payload import POSITIONAL, stored_json
from horsies.domain.errors import HorsiesError
from horsies.views import TaskDetail, task_detail
from horsies_tui.clipboard import copy
from horsies_tui.feed.status import LinkError, sentence
from horsies_tui.look.units import size
from horsies_tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from horsies.display.payload import Masks
    from horsies.findings.why import Why
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.view import ConsoleView

PARTS: Final = ("arguments", "result", "traceback", "task")
"""The parts of a task that can be opened in the user's program."""
_WHOLE: Final = 1_000_000_000
"""Most characters of a text: about the most that PostgreSQL can store."""


def story_json(detail: TaskDetail, why: Why | None, masks: Masks) -> str:
    return json.dumps(plain(detail_report(detail, why, masks)), indent=2)


def is_cut(detail: TaskDetail) -> bool:
    """Return whether a text was too long to be read in full for the screen."""
    texts = (detail.args, detail.kwargs, detail.options, detail.result, detail.failed_reason)
    return any(stored is not None and stored.cut for stored in texts)


async def whole_task(link: DatabaseLink, task_id: str) -> TaskDetail | None:
    """Read the task with all texts in full. Raises LinkError if the read fails."""
    found = await link.read(lambda conn: task_detail(conn, task_id, most_characters=_WHOLE))
    return found if isinstance(found, TaskDetail) else None


def new_file(text: str) -> Path:
    """Return the path that the operator typed. Raises HorsiesError if the file exists or cannot be created."""
    path = Path(text.strip()).expanduser()
    if path.exists():
        raise HorsiesError(f"{path} exists; choose another name")
    if not path.parent.is_dir():
        raise HorsiesError(f"directory {path.parent} does not exist")
    return path


def write_new(path: Path, text: str) -> None:
    """Write a new file, readable by its owner only because it contains arguments. Raises HorsiesError if it fails."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise HorsiesError(f"cannot write {path}: {os.strerror(error.errno or 0)}; choose another place") from error


def part_text(detail: TaskDetail, why: Why | None, masks: Masks, part: str) -> str | None:
    """Return a part of the task as text, with masked values as stars; None if the task does not have this part."""
    match part:
        case "arguments":
            if detail.args is None and detail.kwargs is None:
                return None
            args = stored_json(detail.args, masks, hide=masks.hides(POSITIONAL))
            return _readable({"args": args, "kwargs": stored_json(detail.kwargs, masks)})
        case "result":
            return None if detail.result is None else _readable(stored_json(detail.result, masks))
        case "traceback":
            return _traceback(stored_json(detail.result, masks))
        case _:
            return _readable(plain(detail_report(detail, why, masks)))


def _traceback(result: Any) -> str | None:
    for key in ("err", "exception", "traceback"):
        result = result.get(key) if isinstance(result, dict) else None
    return None if not result else _for_a_program(result if isinstance(result, str) else _readable(result))


def _readable(value: Any) -> str:
    return _for_a_program(json.dumps(value, indent=2, ensure_ascii=False))


def _for_a_program(text: str) -> str:
    """Remove control characters, because a pager may send them to the terminal."""
    text = text.encode(errors="replace").decode()
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text) + "\n"


class PartExporter:
    """The export of one view: to the clipboard, a file or a program."""

    def __init__(self, view: ConsoleView[Any], masks: Masks, glyphs: Glyphs) -> None:
        self._view = view
        self._masks = masks
        self._glyphs = glyphs

    def copy_text(self, text: str) -> None:
        if not copy(self._view, text, _size(text)):
            self._view.console.say_error(f"{_size(text)} are too large for the terminal's clipboard; y offers a file")

    def copy_task(self, detail: TaskDetail, why: Why | None) -> None:
        self._view.run_worker(self._copy(detail, why), group="take", exclusive=True)

    def read_outside(self, detail: TaskDetail, why: Why | None, part: str, *, pager: bool) -> None:
        self._view.run_worker(self._read_outside(detail, why, part, pager=pager), group="take", exclusive=True)

    async def _read_outside(self, detail: TaskDetail, why: Why | None, part: str, *, pager: bool) -> None:
        console = self._view.console
        try:
            whole = await whole_task(console.link, detail.row.id) if is_cut(detail) else detail
            text = None if whole is None else await asyncio.to_thread(part_text, whole, why, self._masks, part)
        except LinkError as error:
            console.say_error(sentence(error))
            return
        if text is None:
            console.say(f"this task has no {part}")
        else:
            ending = "txt" if part == "traceback" else "json"
            await console.read_outside(f"{part}-{file_end(detail.row.id)}.{ending}", text, pager=pager)

    async def _copy(self, detail: TaskDetail, why: Why | None) -> None:
        # In a thread, because 200 kB take 50 ms, which must not delay keys.
        text = await asyncio.to_thread(story_json, detail, why, self._masks)
        if not is_cut(detail) and copy(self._view, text, f"{_size(text)} of JSON"):
            return

        def chosen(path: Path | None) -> None:
            self._view.take_focus()
            if path is not None:
                self._view.run_worker(self._save(path, detail, why), group="take", exclusive=True)

        title = "too large for the terminal's clipboard: write it to a file"
        name = f"horsies-task-{file_end(detail.row.id)}.json"
        prompt = Prompt(title, "path", new_file, lambda path: f"writes {path}", self._glyphs, value=name)
        self._view.console.push_sheet(prompt, chosen)

    async def _save(self, path: Path, detail: TaskDetail, why: Why | None) -> None:
        console = self._view.console
        try:
            whole = await whole_task(console.link, detail.row.id) if is_cut(detail) else detail
            if whole is None:
                raise HorsiesError("the task was deleted a moment ago")
            text = await asyncio.to_thread(story_json, whole, why, self._masks)
            await asyncio.to_thread(write_new, path, text)
        except HorsiesError as error:
            console.say_error(error.message)
        else:
            console.say(f"wrote {_size(text)} to {path}")


def file_end(task_id: str) -> str:
    """Return the end of an id for use in a file name. An id can be any text, for example `../x`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", task_id[-8:])


def _size(text: str) -> str:
    return size(len(text.encode(errors="replace")))
