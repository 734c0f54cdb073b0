"""Long transactions, which keep vacuum from removing rows, and locks on our tables for which others wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.domain.quantities import counted, span
from horsies.findings.blockers import lock_holders
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    import asyncpg

    from horsies.doctor import CheckContext

WARN_AFTER_S: Final = 300.0
FAIL_AFTER_S: Final = 3_600.0
_MAX_ROWS: Final = 10


async def _long(context: CheckContext) -> Iterable[CheckLine]:
    rows = await context.fetch(statement(__name__, "doctor_long_transactions"), WARN_AFTER_S, _MAX_ROWS)
    lines = [_session(row) for row in rows]
    if not context.sees_all_sessions:
        lines.append(context.not_seen("how long transactions of other roles have been open"))
    return lines or [CheckLine(CheckVerdict.OK, f"none has been open for more than {span(WARN_AFTER_S)}")]


def _session(row: asyncpg.Record) -> CheckLine:
    who = f"pid {row['pid']}, {row['application']!r} of {row['role']}, {row['state']}"
    holds = "holds back vacuum" if row["holds_vacuum"] else "keeps its locks"
    call = "pg_cancel_backend" if row["state"] == "active" else "pg_terminate_backend"
    return CheckLine(
        _verdict(row["age_s"]), f"{who}: open for {span(row['age_s'])}, {holds}", f"SELECT {call}({row['pid']})"
    )


async def _prepared(context: CheckContext) -> Iterable[CheckLine]:
    rows = await context.fetch(statement(__name__, "doctor_prepared_transactions"), WARN_AFTER_S, _MAX_ROWS)
    lines = [
        CheckLine(
            _verdict(row["age_s"]),
            f"{row['gid']!r} of {row['owner']} was prepared {span(row['age_s'])} ago: "
            "it holds back vacuum and keeps its locks",
            f"ROLLBACK PREPARED {row['literal']}  -- or COMMIT PREPARED, as its coordinator says",
        )
        for row in rows
    ]
    return lines or [CheckLine(CheckVerdict.OK, f"none is older than {span(WARN_AFTER_S)}")]


async def _locks(context: CheckContext) -> Iterable[CheckLine]:
    found = await lock_holders(context.connection)
    if not found:
        return [CheckLine(CheckVerdict.OK, "no session has locked a table")]
    return [
        CheckLine(
            CheckVerdict.FAIL if one.blocked else CheckVerdict.WARN,
            f"{one.table} is locked, {counted(one.blocked, 'session waits', 'sessions wait')}: {one.cause}",
            one.remedy,
        )
        for one in found
    ]


def _verdict(age_s: float) -> CheckVerdict:
    return CheckVerdict.FAIL if age_s >= FAIL_AFTER_S else CheckVerdict.WARN


CHECKS = (
    Check("long transactions", 80, _long),
    Check("locks", 85, _locks),
    Check("prepared transactions", 90, _prepared),
)
