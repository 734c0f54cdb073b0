"""Whether a process is stopped is read from /proc and from its cgroup; here from files of the same format."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pytest

from horsies.run.pool import process
from horsies.run.pool.process import stands_still


def test_a_stopped_process_stands_still_and_one_that_goes_on_does_not() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        watched = psutil.Process(process.pid)
        seen = [stands_still(process.pid)]
        watched.suspend()
        while watched.status() != psutil.STATUS_STOPPED:
            pass
        seen.append(stands_still(process.pid))
        watched.resume()
        while watched.status() == psutil.STATUS_STOPPED:
            pass
        seen.append(stands_still(process.pid))
        process.kill()
    assert seen == [False, True, False]
    assert not stands_still(process.pid)


@pytest.mark.parametrize(
    ("ours", "theirs", "files", "expected"),
    [
        ("0::/app", "0::/app", {"app/cgroup.events": "populated 1\nfrozen 1\n"}, False),
        ("0::/app", "0::/app/one", {"app/one/cgroup.events": "populated 1\nfrozen 1\n"}, True),
        ("0::/app", "0::/app/one", {"app/one/cgroup.events": "populated 1\nfrozen 0\n"}, False),
        ("7:freezer:/\n0::/", "7:freezer:/one\n0::/", {"freezer/one/freezer.state": "FROZEN\n"}, True),
        ("7:freezer:/\n0::/", "7:freezer:/one\n0::/", {"freezer/one/freezer.state": "THAWED\n"}, False),
        ("0::/app", "0::/app/one", {}, False),
    ],
)
def test_a_frozen_cgroup_stops_those_in_it_and_not_us(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ours: str, theirs: str, files: dict[str, str], expected: bool
) -> None:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    for name, text in {"proc/77/stat": "77 (a) b) S 1", "proc/77/cgroup": theirs, "proc/self/cgroup": ours}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name, text in files.items():
        (cgroups / name).parent.mkdir(parents=True, exist_ok=True)
        (cgroups / name).write_text(text)
    monkeypatch.setattr(process, "_PROC", proc)
    monkeypatch.setattr(process, "_CGROUPS", cgroups)
    assert stands_still(77) is expected
    assert not stands_still(os.getpid())
