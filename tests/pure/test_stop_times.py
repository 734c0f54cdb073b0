"""How long a stop may take by platform and grace period; requests of stops; processes that stand still."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import subprocess
from pathlib import Path

import psutil
import pytest
from hypothesis import given, strategies as st

from horsies.run.child.stdio import RecordSender
from horsies.run.child.sync_runner import SyncRunner
from horsies.run.outcomes import TaskStopped
from horsies.run.pool import process
from horsies.run.pool.process import is_suspended
from horsies.run.settings import CONTAINER, HOST, KUBERNETES, Platform, StopTimes, WorkerSettings, detect

OVERLAY = "606 488 0:55 / / rw,relatime master:196 - overlay overlay rw,lowerdir=3/fs:2/fs,upperdir="
CONTAINERD = f"{OVERLAY}/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/4/fs\n"
PODMAN = f"{OVERLAY}/home/ada/.local/share/containers/storage/overlay/0d3b/diff\n"
DISK = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
AN_IMAGE_ELSEWHERE = f"{DISK}{CONTAINERD.replace(' / / ', ' / /var/lib/docker/overlay2/0d3b/merged ')}"


@pytest.mark.parametrize(
    ("environ", "files", "wanted"),
    [
        ({}, {}, HOST),
        ({}, {"proc/self/mountinfo": DISK}, HOST),
        ({}, {"proc/self/mountinfo": AN_IMAGE_ELSEWHERE}, HOST),  # a host that runs containers
        ({"container": "flatpak"}, {}, HOST),
        ({"container": "podman"}, {}, CONTAINER),
        ({}, {".dockerenv": ""}, CONTAINER),
        ({}, {"run/.containerenv": ""}, CONTAINER),
        ({}, {"proc/self/mountinfo": CONTAINERD}, CONTAINER),
        ({}, {"proc/self/mountinfo": PODMAN}, CONTAINER),
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, {"proc/self/mountinfo": CONTAINERD}, KUBERNETES),
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1", "container": "oci"}, {}, KUBERNETES),
    ],
)
def test_the_platform_shows_in_the_environment_or_in_files(
    tmp_path: Path, environ: dict[str, str], files: dict[str, str], wanted: Platform
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert detect(environ, tmp_path) == wanted


@pytest.mark.parametrize(
    ("platform", "grace_ms", "grace_s", "why"),
    [
        (CONTAINER, None, 8, "a container runtime kills 10s after SIGTERM"),
        (KUBERNETES, None, 25, "Kubernetes kills 30s after SIGTERM"),
        (HOST, None, 25, "not in a container; systemd kills 90s after SIGTERM"),
        (CONTAINER, 200, 0.2, "a container runtime kills 10s after SIGTERM"),
        (CONTAINER, 9_000, 9, "a container runtime kills 10s after SIGTERM, raise that to 14s"),
        (KUBERNETES, 600_000, 600, "Kubernetes kills 30s after SIGTERM, raise that to 605s"),
        (HOST, 60_000, 60, "not in a container; systemd kills 90s after SIGTERM"),
    ],
)
def test_a_grace_that_was_set_wins_and_says_when_the_platform_must_be_told(
    platform: Platform, grace_ms: int | None, grace_s: float, why: str
) -> None:
    times = WorkerSettings("shop:app", shutdown_grace_ms=grace_ms, platform=platform).stop_times
    assert (times.drain_s, times.why) == (grace_s, why)


@given(platform=st.sampled_from([KUBERNETES, CONTAINER, HOST]), grace_s=st.none() | st.floats(0, 100_000))
def test_each_part_of_a_stop_has_its_time_below_the_limit(platform: Platform, grace_s: float | None) -> None:
    times = StopTimes.of(platform, grace_s)
    limit_s = platform.after_s if "raise" not in times.why else times.drain_s + 40
    assert times.stop_task_s >= 1
    assert times.drain_s + times.stop_task_s + 0.4 <= times.store_s + 1e-6
    assert times.store_s < times.end_s < limit_s


STOP = TaskStopped("TASK_INTERRUPTED", "stopped")


def test_stops_that_come_between_two_jobs_are_neither_lost_nor_an_error() -> None:
    """The error ended the child, with all that ran in it; a stop that is lost lets its job run."""
    channel, other = socket.socketpair()
    arriving = itertools.count(1_000)
    heard: set[int] = set()

    class Number(int):
        """A job's number. Whenever it is compared, the other thread hears one more stop."""

        def __lt__(self, other: object) -> bool:
            heard.add(number := next(arriving))
            runner.stop(number, STOP)
            return int(self) < int(other)  # type: ignore[call-overload, no-any-return]

        def __gt__(self, other: object) -> bool:
            return not self < other

        __hash__ = int.__hash__

    with channel, other:
        runner = SyncRunner(channel, lambda: None, RecordSender(logging.ERROR, lambda _record: None))
        for number in range(10):
            for late in (Number(number), Number(number + 100)):
                runner.stop(late, STOP)
            assert runner._take_stop(number) is STOP
    assert heard
    assert runner._stops.keys() == heard | set(range(100, 110))


def test_a_stopped_process_stands_still_and_one_that_goes_on_does_not() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        watched = psutil.Process(process.pid)
        seen = [is_suspended(process.pid)]
        watched.suspend()
        while watched.status() != psutil.STATUS_STOPPED:
            pass
        seen.append(is_suspended(process.pid))
        watched.resume()
        while watched.status() == psutil.STATUS_STOPPED:
            pass
        seen.append(is_suspended(process.pid))
        process.kill()
    assert seen == [False, True, False]
    assert not is_suspended(process.pid)


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
    assert is_suspended(77) is expected
    assert not is_suspended(os.getpid())
