"""Which files `horsies worker --reload` watches, what it notices, and what that costs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from horsies.run.worker.reload import Watcher, project_roots


def write(path: Path, text: str = "x = 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_changed_new_and_removed_files_are_noticed_once(tmp_path: Path) -> None:
    changed, removed = write(tmp_path / "shop" / "tasks.py"), write(tmp_path / "shop" / "old.py")
    watcher = Watcher([tmp_path])
    assert watcher.changed() == []
    write(changed, "x = 2\n")
    made = write(tmp_path / "shop" / "new" / "mail.py")
    removed.unlink()
    assert watcher.changed() == sorted([changed, made, removed])
    assert watcher.changed() == []


def test_what_a_worker_does_not_import_is_not_watched(tmp_path: Path) -> None:
    write(tmp_path / "env" / "pyvenv.cfg")
    others = ("test_shop.py", "conftest.py", "notes.md", ".git/hook.py", "__pycache__/a.py", "env/lib/a.py")
    watcher = Watcher([tmp_path])
    for name in (*others, "node_modules/a/setup.py"):
        write(tmp_path / name)
    assert watcher.changed() == []


def test_a_directory_that_vanishes_is_no_error(tmp_path: Path) -> None:
    watcher = Watcher([tmp_path / "gone"])
    assert watcher.changed() == []


def test_an_editors_link_that_leads_nowhere_hides_no_file(tmp_path: Path) -> None:
    """Emacs marks an unsaved file by such a link beside it."""
    files = [write(tmp_path / f"{number}.py") for number in range(50)]
    watcher = Watcher([tmp_path])
    for name in (".#7.py", "moved.py"):
        (tmp_path / name).symlink_to("me@here.4711:1700000000")
    assert watcher.changed() == []
    for file in files:
        write(file, "x = 22\n")
    assert watcher.changed() == sorted(files)


def test_the_roots_are_where_the_projects_modules_are_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "project", tmp_path / "library"
    monkeypatch.chdir(write(here / "src" / "shop" / "tasks.py").parents[2])
    for name, path in {
        "shop.tasks": here / "src" / "shop" / "tasks.py",
        "shop": here / "src" / "shop" / "__init__.py",
        "shop.deep.one": here / "src" / "shop" / "deep" / "one.py",
        "orders": elsewhere / "orders.py",
        "unrelated": tmp_path / "other" / "unrelated.py",
    }.items():
        module = ModuleType(name)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, name, module)
    assert project_roots(["orders"]) == [elsewhere, here / "src"]


@pytest.mark.bench
@pytest.mark.alone
def test_two_thousand_files_cost_less_than_a_hundredth_of_a_core(tmp_path: Path) -> None:
    for number in range(2_000):
        write(tmp_path / f"package{number // 100}" / f"part{number // 10 % 10}" / f"module{number}.py", "")
    watcher = Watcher([tmp_path])
    spent_s = []
    for _ in range(5):
        begin = time.thread_time()
        assert watcher.changed() == []
        spent_s.append(time.thread_time() - begin)
    assert min(spent_s) < 0.03  # the pause after it is 150 times as long: 4.5 s at most until a change is noticed
