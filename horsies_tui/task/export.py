"""A task as the JSON that `horsies tasks show --json` prints: for the clipboard, or for a file where it is too long."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from horsies.cli.machine import plain
from horsies.cli.task_story import report
from horsies.domain.errors import HorsiesError
from horsies.views import TaskDetail, task_detail

if TYPE_CHECKING:
    from horsies.cli.payload import Masks
    from horsies.operations.why import Why
    from horsies_tui.feed.link import Link

_WHOLE: Final = 1_000_000_000
"""Characters of one text: all that PostgreSQL can store."""


def story_json(detail: TaskDetail, why: Why | None, masks: Masks) -> str:
    return json.dumps(plain(report(detail, why, masks)), indent=2)


def is_cut(detail: TaskDetail) -> bool:
    """Whether something of it was too long to be read for the screen."""
    texts = (detail.args, detail.kwargs, detail.options, detail.result, detail.failed_reason)
    return any(stored is not None and stored.cut for stored in texts)


async def whole_task(link: Link, task_id: str) -> TaskDetail | None:
    """All of its texts; a LinkError where that does not work."""
    found = await link.read(lambda conn: task_detail(conn, task_id, most_characters=_WHOLE))
    return found if isinstance(found, TaskDetail) else None


def new_file(text: str) -> Path:
    """Where somebody wants it written; nothing is overwritten."""
    path = Path(text.strip()).expanduser()
    if path.exists():
        raise HorsiesError(f"{path} exists; choose another name")
    if not path.parent.is_dir():
        raise HorsiesError(f"there is no directory {path.parent}")
    return path


def write_new(path: Path, text: str) -> None:
    """For its owner only: arguments are nobody else's business. HorsiesError where it cannot be written."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise HorsiesError(f"cannot write {path}: {os.strerror(error.errno or 0)}; choose another place") from error
