"""The memory of a worker's container and children, from the kernel's files and from real processes."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from horsies.run.worker.snapshots import MB, ContainerMemory, children_memory, container_memory

NO_LIMIT_1 = 0x7FFFFFFFFFFFF000


def group_2(path: Path, limit_mb: int | None, used_mb: int, cache_mb: int = 0) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.max").write_text("max\n" if limit_mb is None else f"{limit_mb * MB}\n")
    (path / "memory.current").write_text(f"{used_mb * MB}\n")
    (path / "memory.stat").write_text(f"anon 1\ninactive_file {cache_mb * MB}\nactive_file 9\n")


def group_1(path: Path, limit: int, used_mb: int, cache_mb: int = 0) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (path / "memory.usage_in_bytes").write_text(f"{used_mb * MB}\n")
    (path / "memory.stat").write_text(f"inactive_file 7\ntotal_inactive_file {cache_mb * MB}\n")


def read(tmp_path: Path, membership: str) -> ContainerMemory | None:
    (tmp_path / "cgroup").write_text(membership)
    return container_memory(tmp_path / "cgroup", tmp_path / "mount")


def test_in_a_container_the_root_of_the_mount_has_the_limit_and_the_file_cache_does_not_count(tmp_path: Path) -> None:
    group_2(tmp_path / "mount", 1_000, 900, cache_mb=300)
    assert read(tmp_path, "0::/\n") == ContainerMemory(600, 1_000)


def test_the_group_that_has_least_left_counts(tmp_path: Path) -> None:
    group_2(tmp_path / "mount/pod", 500, 450)
    group_2(tmp_path / "mount/pod/worker", 400, 100)
    group_2(tmp_path / "mount/pod/worker/child", None, 90)
    assert read(tmp_path, "0::/pod/worker/child\n") == ContainerMemory(450, 500)


def test_without_a_limit_there_is_none(tmp_path: Path) -> None:
    group_2(tmp_path / "mount/service", None, 450)
    group_1(tmp_path / "mount/memory/service", NO_LIMIT_1, 450)
    assert read(tmp_path, "4:memory:/service\n0::/service\n") is None
    assert read(tmp_path, "1:name=systemd:/service\n") is None
    assert container_memory(tmp_path / "missing", tmp_path / "mount") is None


def test_version_1_is_understood_also_where_the_container_has_its_group_as_the_root(tmp_path: Path) -> None:
    group_1(tmp_path / "mount/memory", 200 * MB, 190, cache_mb=10)
    assert read(tmp_path, "9:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n") == ContainerMemory(180, 200)


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes; the second one holds 30 MB more."""
    code = "held = b'x' * ({} * 1024 * 1024); print(flush=True); import sys; sys.stdin.read()"
    started = [
        subprocess.Popen([sys.executable, "-c", code.format(mb)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for mb in (1, 31)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    yield started
    for process in started:
        process.kill()
        process.communicate()


def test_the_largest_child_is_named_and_one_that_has_exited_is_left_out(
    sleepers: list[subprocess.Popen[bytes]],
) -> None:
    small, large = sleepers
    found = children_memory([small.pid, large.pid])
    assert found.largest_pid == large.pid
    assert found.largest_mb is not None
    assert found.largest_mb > 31
    assert found.total_mb > found.largest_mb
    large.kill()
    large.wait()
    assert children_memory([small.pid, large.pid]).largest_pid == small.pid
    assert children_memory([]).largest_pid is None


def test_a_child_with_a_limit_is_measured_by_its_address_space(sleepers: list[subprocess.Popen[bytes]]) -> None:
    small, large = sleepers
    found = children_memory([small.pid, large.pid])
    assert found.limit_mb is None
    if sys.platform != "linux":
        return
    resource.prlimit(small.pid, resource.RLIMIT_AS, (2_000 * MB, 2_000 * MB))
    found = children_memory([small.pid, large.pid])
    assert (found.largest_pid, found.limit_mb) == (small.pid, 2_000)
