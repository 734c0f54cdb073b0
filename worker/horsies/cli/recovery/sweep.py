"""`horsies recovery run`: one sweep, started by an operator."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any, NoReturn

import typer

from horsies.cli.options import ALL_APPLIED, INTERRUPTED, SOME_REFUSED
from horsies.cli.reading import READ_ONLY_SETTINGS
from horsies.cli.verbs.acting import Asked, confirm, refuse_writes, require_upgraded
from horsies.display.json_output import print_json
from horsies.display.terminal import say
from horsies.domain.quantities import clock, counted
from horsies.findings.diagnose import Report, diagnose
from horsies.lifecycle.reconciling import Reconciled, reconcile_all
from horsies.lifecycle.recovering import Recovered, count_due, recover
from horsies.operations.audit_rows import require_writable
from horsies.store.connect import Connection, Database, open_database, with_settings
from horsies.store.pulse import pulse_every_s, write_pulse
from horsies.store.worker_states import UPKEEP, write_report

_ABORTED = "aborted: rows swept so far stay as they are; the next sweep handles the others"


def sweep(asked: Asked) -> NoReturn:
    if not asked.dry_run:
        refuse_writes(asked.choice, asked.command, asked=asked.read_only)
    done: tuple[Recovered, Reconciled] | None = None
    with asyncio.Runner() as runner:
        held = AsyncExitStack()
        try:
            database = runner.run(held.enter_async_context(open_database(asked.choice)))
            report, counts = runner.run(_preview(database, asked))
            due = sum(count for what, count in counts.items() if not what.startswith("spared"))
            if not asked.dry_run and due:
                if not asked.yes:
                    say(*_would(counts, report, database.label), stream=sys.stderr)
                    confirm(asked, due)
                done = runner.run(_sweep(database, report))
        except KeyboardInterrupt:
            say(_ABORTED, stream=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        finally:
            runner.run(held.aclose())
    tasks, workflows = done or (Recovered(), Reconciled())
    refused = tasks.refused + workflows.refused
    result: dict[str, Any] = {
        "database": database.label,
        "dry_run": asked.dry_run,
        "settings_from": report.settings_from,
        "spared_runs": counts["spared_runs"],
        "spared_claims": counts["spared_claims"],
        "spared_until": report.spared and report.spared.until,
        **(counts if asked.dry_run else tasks.report() | workflows.report()),
    }
    if asked.as_json:
        print_json(result)
    elif done is None:
        say(*_would(counts, report, database.label))
    else:
        repairs = f"{counted(workflows.repairs, 'repair')} in {counted(workflows.workflows, 'workflow')}"
        say(
            f"{tasks.requeued} put back into the queue, {tasks.retried} tried again, {tasks.failed} failed as"
            f" WORKER_CRASHED, {tasks.expired} expired, {repairs}",
            *(f"refused: {one.item}: {one.error}" for one in refused),
            *_spared(counts, report),
        )
    raise typer.Exit(SOME_REFUSED if refused else ALL_APPLIED)


async def _preview(database: Database, asked: Asked) -> tuple[Report, dict[str, int]]:
    settings = READ_ONLY_SETTINGS if asked.dry_run else ()
    async with database.connected(asked.command, settings=settings) as connection, with_settings(connection):
        await require_upgraded(connection)
        if not asked.dry_run:
            await require_writable(connection)
            judged_by = (await diagnose(connection)).settings
            await write_pulse(connection, judged_by, pulse_every_s(judged_by), lives=False)
        report = await diagnose(connection)
        return report, await _counts(connection, report)


async def _counts(connection: Connection, report: Report) -> dict[str, int]:
    """Count the rows that a sweep would handle now, by its own scans and the settings of the report."""
    due = await count_due(connection, report.settings)
    silent = Counter[str | None]()
    workflows: set[str] = set()
    for finding in report.findings:
        silent[finding.kind.swept] += finding.count
        workflows |= set(finding.ids) if finding.kind.swept == "workflows" else set()
    enabled = {"claims": report.settings.auto_requeue_stale_claimed, "runs": report.settings.auto_fail_stale_running}
    spared = {
        f"spared_{rule}": max(silent[f"stale_{rule}"] - due[f"stale_{rule}"], 0) if on and report.spared else 0
        for rule, on in enabled.items()
    }
    return due | {"workflows": len(workflows)} | spared


async def _sweep(database: Database, report: Report) -> tuple[Recovered, Reconciled]:
    async with database.connected("recovery run") as connection:
        recovered = await recover(connection, report.settings)
        reconciled = await reconcile_all(connection, report.settings.crashed_worker_recovery_grace_ms)
        await write_report(connection, UPKEEP, None, recovered.report() | reconciled.report())
        return recovered, reconciled


def _would(counts: dict[str, int], report: Report, label: str) -> list[str]:
    if not any(counts.values()):
        return [f"nothing to sweep in {label}"]
    found = (
        f"a sweep of {label} finds {counted(counts['stale_claims'], 'stale claim')},"
        f" {counted(counts['stale_runs'], 'stale run')}, {counted(counts['overdue'], 'task')} whose deadline passed"
        f" and {counted(counts['workflows'], 'inconsistent workflow')}"
    )
    return [found, *_spared(counts, report)]


def _spared(counts: dict[str, int], report: Report) -> list[str]:
    """Return what a sweep would spare, why, and what to do about it."""
    runs, claims = counts["spared_runs"], counts["spared_claims"]
    if report.spared is None or not runs + claims:
        return []
    what = ", ".join(counted(count, noun) for count, noun in ((runs, "silent run"), (claims, "silent claim")) if count)
    until = clock(report.spared.until)
    then = f"A worker's sweep, or `horsies recovery run` after {until}, takes those that stay silent."
    return [f"spared: {what}. {report.spared.words()} {then}"]
