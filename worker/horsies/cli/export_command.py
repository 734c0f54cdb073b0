"""`horsies tasks export` and `horsies workflows export`: every row of a filter, to a file or to standard output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from horsies.cli.filters import understood, understood_workflows
from horsies.cli.read_session import read
from horsies.display.exporting import Export, Format, export_rows, new_file, tasks_export, workflows_export
from horsies.display.terminal import rewrite, say
from horsies.domain.quantities import counted
from horsies.views import Sort

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from horsies.cli.read_session import ReadSession
    from horsies.config.contexts import DatabaseChoice

_TOLD_EVERY: Final = 10_000


def export_tasks(choice: DatabaseChoice, text: str, sort: str | None, form: str, path: Path | None) -> None:
    _export(choice, "tasks export", tasks_export(understood(text), Sort(sort or Sort.NEWEST)), Format(form), path)


def export_workflows(choice: DatabaseChoice, text: str, form: str, path: Path | None) -> None:
    _export(choice, "workflows export", workflows_export(understood_workflows(text)), Format(form), path)


def _export(choice: DatabaseChoice, role: str, export: Export[Any], form: Format, path: Path | None) -> None:
    def work(out: IO[str], told: Callable[[int], None]) -> int:
        async def write(session: ReadSession) -> int:
            return await export_rows(session.connection, export, form, out, told)

        return read(choice, role, write)

    if path is None:
        work(sys.stdout, lambda _rows: None)
        return
    with new_file(path) as out:
        rows = work(out, _tell)
    say(f"{rows:,} {export.name} in {path}", stream=sys.stderr)


def _tell(rows: int) -> None:
    if rows and rows % _TOLD_EVERY == 0 and sys.stderr.isatty():
        rewrite(counted(rows, "row"), stream=sys.stderr)
