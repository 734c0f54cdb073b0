"""The Python files of a project, and which of them have changed; by polling, which works in containers, too."""

from __future__ import annotations

import os
import sys
import sysconfig
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

from horsies.discovery import NOT_TASKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NOT_OURS: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
_ENGINE: Final = frozenset({"horsies", "horsies_tui"})


def project_roots(named: Iterable[str]) -> list[Path]:
    """The directories from which the project's modules are imported: of those that are named, wherever they are, and of
    all others that are loaded from below the working directory and are not installed.
    """
    here = Path.cwd()
    installed = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    roots: set[Path] = set()
    wanted = set(named)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str) or name.partition(".")[0] in _ENGINE or name == "__main__":
            continue
        path = Path(file).resolve()
        if name in wanted or (path.is_relative_to(here) and not any(map(path.is_relative_to, installed))):
            packages = name.count(".") + (path.name == "__init__.py")
            roots.add(path.parents[min(packages, len(path.parents) - 1)])
    return sorted(root for root in roots if not any(root != other and root.is_relative_to(other) for other in roots))


class Watcher:
    """Compares the files with their state at the last comparison."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self.roots = list(roots)
        self._seen = dict(self._files())

    def changed(self) -> list[Path]:
        """The files that were changed, made or removed since the last call, or since this object was made."""
        now = dict(self._files())
        before, self._seen = self._seen, now
        return sorted(Path(path) for path in before.keys() | now.keys() if before.get(path) != now.get(path))

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Each with its time and size. Tests are left out, as a worker does not import them."""
        waiting = [str(root) for root in self.roots]
        while waiting:
            with suppress(OSError), os.scandir(waiting.pop()) as entries:  # it may have been removed
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.name.endswith(".py"):
                        if not any(fnmatch(entry.name, pattern) for pattern in NOT_TASKS):
                            with suppress(OSError):  # one that leads nowhere must not hide the others
                                state = entry.stat()
                                yield entry.path, (state.st_mtime_ns, state.st_size)
                    elif _may_hold_modules(entry):
                        waiting.append(entry.path)


def _may_hold_modules(entry: os.DirEntry[str]) -> bool:
    return (
        entry.name not in _NOT_OURS
        and entry.is_dir(follow_symlinks=False)
        and not os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))  # noqa: PTH110, PTH118 - 2,000 a second
    )
