"""The WAL on the disk, and its causes: replication slots without a consumer, and an archive that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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


CHECKS = (Check("replication slots", 100, _slots), Check("WAL", 110, _wal))
