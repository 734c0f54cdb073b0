"""Which test process runs which tests: file by file, so that what a file prepares for its tests is prepared once.

Files of tests that wait, for processes, and files of tests that compute alternate, or all processes would compute and
then all of them wait. The short files of pure tests come last, so that no process is idle for long at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

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
    Each test is dealt by itself where there are fewer files than processes, and among the long ones (`-m chaos`).
    """

    def schedule(self) -> None:
        if self.collection is None:
            tests = next(iter(self.registered_collections.values()))
            files = {_file(test) for test in tests}
            whole = len(files) >= self.numnodes and "not chaos" in self.config.option.markexpr
            self._scopes = scopes(tests) if whole else {test: test for test in tests}
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._scopes[nodeid]


def _file(test: str) -> str:
    return test.partition("::")[0]


def scopes(tests: list[str]) -> dict[str, str]:
    """What is dealt together with each test; the tests are in the order of the run."""
    found: dict[str, str] = {}
    begun: set[str] = set()
    file = scope = ""
    for test in reversed(tests):
        if _file(test) != file:
            file = _file(test)
            scope = "alone" if file in begun else file
            begun.add(file)
        found[test] = scope
    return found
