"""An embedded server uses no directory and no file that another account can replace. As root, with real accounts."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forked_commands import run_command

from horsies.store.embedded import EmbeddedError, EmbeddedPlace
from horsies.store.embedded.keeper import _open_log
from horsies.store.embedded.trusted_paths import FileLock

ROOT = os.geteuid() == 0
NOBODY = 65534
UNUSED_GROUP = 54_321


@pytest.fixture
def top() -> Iterator[Path]:
    """A directory that `nobody` can enter, unlike those of pytest."""
    directory = Path(tempfile.mkdtemp(prefix="hc-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def made(path: Path, mode: int = 0o755, owner: int = -1, group: int = -1) -> Path:
    path.mkdir()
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


def link(path: Path, target: Path, owner: int = -1) -> Path:
    path.symlink_to(target)
    os.lchown(path, owner, -1)
    return path


REFUSED: dict[str, Callable[[Path], Path]] = {
    "all may write it": lambda top: made(top / "pg", 0o777),
    "all may write what is above it": lambda top: made(made(top / "a", 0o777) / "pg"),
    "it is shared, as /tmp is": lambda top: made(top / "pg", 0o1777),
    "it is below a link to what all may write": lambda top: link(top / "link", made(top / "a", 0o777)) / "pg",
}
REFUSED_TO_ROOT: dict[str, Callable[[Path], Path]] = {
    "it belongs to another account": lambda top: made(top / "pg", owner=NOBODY),
    "what is above it belongs to another account": lambda top: made(made(top / "a", owner=NOBODY) / "pg"),
    "another account made it in a shared directory": lambda top: made(made(top / "a", 0o1777) / "pg", owner=NOBODY),
    "another account made a link in a shared directory": lambda top: link(
        made(top / "a", 0o1777) / "link", made(top / "pg"), NOBODY
    ),
    "a group with other members may write it": lambda top: made(top / "pg", 0o775, group=NOBODY),
}
ACCEPTED: dict[str, Callable[[Path], Path]] = {
    "it is ours alone": lambda top: made(top / "pg", 0o700),
    "it is ours in a shared directory": lambda top: made(made(top / "a", 0o1777) / "pg"),
    "it is missing in a shared directory": lambda top: made(top / "a", 0o1777) / "b" / "pg",
    "it is behind a link of ours": lambda top: link(top / "link", made(top / "pg")),
    "it is behind a relative link": lambda top: (
        link(made(top / "a") / "link", Path("..") / made(top / "b").name) / "pg"
    ),
    "it is behind a link of ours in a shared directory": lambda top: link(
        made(top / "a", 0o1777) / "link", made(top / "pg")
    ),
}
ACCEPTED_FOR_ROOT: dict[str, Callable[[Path], Path]] = {
    "its group has no other members": lambda top: made(top / "pg", 0o775, group=UNUSED_GROUP),
    "the group of its parent is that of root": lambda top: made(top / "a", 0o2775, group=0) / "pg",
}


def cases(
    always: dict[str, Callable[[Path], Path]], for_root: dict[str, Callable[[Path], Path]]
) -> pytest.MarkDecorator:
    chosen = always | for_root if ROOT else always
    return pytest.mark.parametrize("scene", chosen.values(), ids=[name.replace(" ", "-") for name in chosen])


@cases(REFUSED, REFUSED_TO_ROOT)
def test_what_another_account_can_change_is_refused_and_left_alone(scene: Callable[[Path], Path], top: Path) -> None:
    directory = scene(top)
    before = sorted(top.rglob("*"))
    with pytest.raises(EmbeddedError, match="the embedded PostgreSQL cannot be used there") as refusal:
        EmbeddedPlace(directory).prepare()
    assert "HORSIES_HOME" in str(refusal.value)
    assert sorted(top.rglob("*")) == before


@cases(ACCEPTED, ACCEPTED_FOR_ROOT)
def test_what_only_this_account_can_change_is_used(scene: Callable[[Path], Path], top: Path) -> None:
    directory = scene(top)
    before = os.umask(0)
    try:
        EmbeddedPlace(directory).prepare()
    finally:
        os.umask(before)
    for path in (directory, directory.parent):
        assert path.stat().st_mode & 0o002 == 0 or path.stat().st_mode & 0o1000
    assert {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()} == {"users.lock": 0o600}


@pytest.mark.parametrize("how", [os.symlink, os.link])
def test_a_file_that_is_a_link_is_neither_opened_nor_made(how: Callable[[Path, Path], None], top: Path) -> None:
    place, secret = EmbeddedPlace(made(top / "pg", 0o700)), top / "secret"
    secret.write_text("kept")
    for name, opened in (("server.log", _open_log), ("start.lock", lambda place: FileLock(place.start_lock))):
        how(secret, place.root / name)
        with pytest.raises(EmbeddedError, match=f"{name} is ") as refusal:
            opened(place)
        assert "remove it" in str(refusal.value)
    how(secret, place.users_lock)
    with pytest.raises(EmbeddedError, match=r"users\.lock is "):
        place.prepare()
    assert secret.read_text() == "kept"


def test_the_command_touches_nothing_through_a_directory_that_was_prepared_for_it(top: Path) -> None:
    """Root's `db init` appended to a file that root alone may read."""
    secret, trap = top / "secret", made(top / "pg")
    secret.write_text("kept")
    for name in ("users.lock", "start.lock", "keeper.lock", "server.log"):
        link(trap / name, secret)
    os.chown(trap, NOBODY if ROOT else -1, -1)
    trap.chmod(0o777)
    said = run_command(["db", "init", "--database-url", f"embedded://{trap}"], text=True)
    assert said.returncode == 1
    assert ("belongs to" if ROOT else "every account may replace files in") in said.stderr
    assert secret.read_text() == "kept"
    assert len(list(trap.iterdir())) == 4


def test_no_account_is_trusted_but_root_and_the_one_that_runs_this(top: Path) -> None:
    """`nobody` may use what root made for it, and not what a third account made. Without root, what it made itself."""
    made(top / "given", owner=NOBODY if ROOT else -1, mode=0o700)
    made(top / "third", owner=1 if ROOT else -1, mode=0o755 if ROOT else 0o777)
    pid = os.fork()
    if pid == 0:
        try:
            if ROOT:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            EmbeddedPlace(top / "given" / "pg").prepare()
            (top / "given" / "pg" / "users.lock").stat()
            EmbeddedPlace(top / "third" / "pg").prepare()
        except EmbeddedError as error:
            os._exit(0 if str(top / "third") in str(error) else 2)
        finally:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
