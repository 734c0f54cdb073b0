"""Which test process runs which tests: file by file, so that what a file prepares for its tests is prepared once.

Files of tests that wait, for processes, and files of tests that compute alternate, or all processes would compute and
then all of them wait. The short files of pure tests come last, so that no process is idle for long at the end.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_LAYERS = {"process": "waits", "terminal": "waits", "chaos": "waits", "pure": "short"}


def places(files: Iterable[Path]) -> dict[Path, tuple[bool, float]]:
    """The order of the files, as sort keys."""
    groups: defaultdict[str, list[Path]] = defaultdict(list)
    for file in files:
        groups[_LAYERS.get(file.parent.name, "computes")].append(file)
    return {
        file: (group == "short", number / len(members))
        for group, members in groups.items()
        for number, file in enumerate(members)
    }


class FileByFile(LoadScopeScheduling):
    """Deals out the files in the order of the tests; a process that has done its own gets the next one.

    Tests that stand before the others of their file are those that must run alone: one process runs all of them.
    Where there are fewer files than processes, each test is dealt by itself.
    """

    def schedule(self) -> None:
        if self.collection is None:
            self._scopes = _scopes(next(iter(self.registered_collections.values())), self.numnodes)
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._scopes[nodeid]


def _scopes(tests: list[str], processes: int) -> dict[str, str]:
    files = [test.partition("::")[0] for test in tests]
    if len(set(files)) < processes:
        return {test: test for test in tests}
    scopes, later = {}, ""
    begun: set[str] = set()
    for test, file in zip(reversed(tests), reversed(files), strict=True):
        scopes[test] = "alone" if file in begun and file != later else file
        begun.add(file)
        later = file
    return scopes
