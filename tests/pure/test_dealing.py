"""The order in which the files of a run are dealt to its processes."""

from __future__ import annotations

from pathlib import Path

from dealing import places, scopes


def test_a_file_is_dealt_whole_and_tests_that_run_alone_are_dealt_together() -> None:
    tests = ["a.py::alone", "b.py::alone[1]", "b.py::alone[2]", "a.py::one", "a.py::two", "b.py::one", "c.py::one"]
    assert scopes(tests) == {
        "a.py::alone": "alone",
        "b.py::alone[1]": "alone",
        "b.py::alone[2]": "alone",
        "a.py::one": "a.py",
        "a.py::two": "a.py",
        "b.py::one": "b.py",
        "c.py::one": "c.py",
    }


def test_files_that_wait_and_files_that_compute_alternate_and_the_short_ones_come_last() -> None:
    names = ["console/c1", "console/c2", "process/p1", "process/p2", "pure/a", "sql/s1", "sql/s2"]
    place = places(map(Path, names))
    assert [str(file) for file in sorted(place, key=lambda file: place[file])] == [
        "console/c1",
        "process/p1",
        "console/c2",
        "sql/s1",
        "process/p2",
        "sql/s2",
        "pure/a",
    ]
