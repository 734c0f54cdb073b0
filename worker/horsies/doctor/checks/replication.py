"""The server's disk, the WAL on it, and its causes: replication slots without a consumer, and an archive that fails."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from shutil import disk_usage
from stat import S_ISREG
from typing import TYPE_CHECKING, Final, NamedTuple

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.domain.quantities import counted, size, span
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    import asyncpg

    from horsies.doctor import CheckContext

MUCH_WAL: Final = 1_073_741_824
"""Bytes of WAL that an inactive slot may keep before it is dangerous; a standby that restarts needs less."""
_TIMES_MAX_WAL: Final = 3


_GB: Final = 1_073_741_824
_LOCAL: Final = ("/", "localhost:", "127.", "[::1]:")
_STARTED_WITHIN_S: Final = 60.0
"""Time from the start of the postmaster, as in its file, until it accepts the memory that it asked for."""


class DiskBound(NamedTuple):
    """The free space below which a disk is low: a share of it, but at least and at most so many bytes."""

    share: float
    least: float
    most: float

    def is_above(self, free: int, total: int) -> bool:
        return free < min(max(self.share * total, self.least), self.most)


LOW: Final = DiskBound(0.10, least=_GB, most=20 * _GB)
NEARLY_FULL: Final = DiskBound(0.03, least=_GB / 4, most=5 * _GB)


async def _slots(context: CheckContext) -> Iterable[CheckLine]:
    rows = await context.fetch(statement(__name__, "doctor_slots"))
    bad = [line for row in rows if (line := _slot(row)) is not None]
    return bad or [CheckLine(CheckVerdict.OK, f"{counted(len(rows), 'slot')}, all in use" if rows else "none")]


def _slot(row: asyncpg.Record) -> CheckLine | None:
    name, drop = row["slot_name"], f"SELECT pg_drop_replication_slot({row['literal']})"
    if row["wal_status"] == "lost":
        return CheckLine(CheckVerdict.FAIL, f"{name} has lost WAL that its consumer needs: it can never continue", drop)
    if row["active"]:
        return None
    keeps = f"keeps {size(row['kept'])} of WAL" if row["kept"] is not None else "keeps no WAL yet"
    if row["holds_vacuum"]:
        keeps += " and holds back vacuum"
    verdict = CheckVerdict.FAIL if (row["kept"] or 0) > MUCH_WAL else CheckVerdict.WARN
    return CheckLine(
        verdict, f"{name} ({row['slot_type']}) is inactive and {keeps}", f"{drop}  -- if its consumer is gone"
    )


async def _wal(context: CheckContext) -> Iterable[CheckLine]:
    lines = [line async for line in _archive(context)]
    if not context.sees_all_sessions:
        return [*lines, context.not_seen("how large the WAL is")]
    (row,) = await context.fetch(statement(__name__, "doctor_wal_size"))
    evidence = f"{size(row['bytes'])} in {counted(row['files'], 'file')}, max_wal_size {size(row['most'])}"
    if row["bytes"] > _TIMES_MAX_WAL * max(row["most"], row["kept_anyway"]):
        remedy = "see replication slots and the archive; else raise max_wal_size and checkpoint_completion_target"
        return [*lines, CheckLine(CheckVerdict.WARN, evidence, remedy)]
    return lines or [CheckLine(CheckVerdict.OK, evidence)]


async def _archive(context: CheckContext) -> AsyncIterator[CheckLine]:
    """Yield a line if the archive_command fails, which keeps all WAL until the disk is full."""
    for row in await context.fetch(statement(__name__, "doctor_archive")):
        evidence = f"archiving has failed for {span(row['failing_s'])}, last {row['last_failed_wal']}: all WAL is kept"
        yield CheckLine(
            CheckVerdict.FAIL, evidence, "correct archive_command or archive_library; the server's log has its error"
        )


async def _disk(context: CheckContext) -> Iterable[CheckLine]:
    url = context.database.url
    if url.embedded_directory is None and not all(host.startswith(_LOCAL) for host in url.hosts):
        return [_not_from_here("the server is on another host")]
    (row,) = await context.fetch(statement(__name__, "doctor_data_directory"))
    if row["directory"] is None:
        return [context.not_seen("where the server keeps its data")]
    try:
        return await asyncio.to_thread(_disks, Path(row["directory"]), row["port"], row["started_at"])
    except (OSError, ValueError):
        return [_not_from_here(f"this account may not read {row['directory']}, or it is on another host")]


def _not_from_here(reason: str) -> CheckLine:
    remedy = "run `horsies doctor` on the server's host as the account of PostgreSQL, or watch its disk there"
    return CheckLine(CheckVerdict.UNKNOWN, f"free space cannot be read from here: {reason}", remedy)


def _disks(data: Path, port: int, started_at: float) -> list[CheckLine]:
    """Return a line for the disk of the data, and for that of the WAL if it is another one.

    Raise OSError or ValueError if the directory is not that of the server that named it.
    """
    pid_file = os.open(data / "postmaster.pid", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        lines = os.read(pid_file, 1_000).split(b"\n") if S_ISREG(os.fstat(pid_file).st_mode) else []
    finally:
        os.close(pid_file)
    if lines[3:4] != [b"%d" % port] or not -1 <= started_at - int(lines[2]) <= _STARTED_WITHIN_S:
        raise ValueError("another server's directory")
    places = {place.stat().st_dev: place for place in (data / "pg_wal", data)}
    return [_space(place) for place in reversed(places.values())]


def _space(place: Path) -> CheckLine:
    total, _, free = disk_usage(place)
    evidence = f"{size(free)} of {size(total)} free ({free / max(total, 1):.0%}) where {place} is"
    for bound, verdict in ((NEARLY_FULL, CheckVerdict.FAIL), (LOW, CheckVerdict.WARN)):
        if bound.is_above(free, total):
            remedy = "make room or enlarge the disk; replication slots, WAL and retention say what may keep too much"
            return CheckLine(verdict, f"{evidence}; PostgreSQL stops when it is full", remedy)
    return CheckLine(CheckVerdict.OK, evidence)


CHECKS = (Check("replication slots", 100, _slots), Check("WAL", 110, _wal), Check("disk", 115, _disk))
