"""A task as the JSON that `horsies tasks show --json` prints, for the clipboard or, if it is too long, a file."""

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
"""Characters of one text: about the most that PostgreSQL can store."""


def story_json(detail: TaskDetail, why: Why | None, masks: Masks) -> str:
    return json.dumps(plain(report(detail, why, masks)), indent=2)


def is_cut(detail: TaskDetail) -> bool:
    """Whether a text was too long to be read in full for the screen."""
    texts = (detail.args, detail.kwargs, detail.options, detail.result, detail.failed_reason)
    return any(stored is not None and stored.cut for stored in texts)


async def whole_task(link: Link, task_id: str) -> TaskDetail | None:
    """The task with all its texts in full; raises a LinkError if the read fails."""
    found = await link.read(lambda conn: task_detail(conn, task_id, most_characters=_WHOLE))
    return found if isinstance(found, TaskDetail) else None


def new_file(text: str) -> Path:
    """The file that the operator named; an existing file is not overwritten."""
    path = Path(text.strip()).expanduser()
    if path.exists():
        raise HorsiesError(f"{path} exists; choose another name")
    if not path.parent.is_dir():
        raise HorsiesError(f"there is no directory {path.parent}")
    return path


def write_new(path: Path, text: str) -> None:
    """Readable by the owner only, because of the arguments. HorsiesError if it cannot be written."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise HorsiesError(f"cannot write {path}: {os.strerror(error.errno or 0)}; choose another place") from error
