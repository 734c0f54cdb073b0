"""How long a stop may take, by platform and by the configured grace period."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

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
