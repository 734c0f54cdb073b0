"""The recovery report: what is stuck, why, what the system will do about it and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.operations.cluster import read_cluster
from horsies.operations.crashed import crashed_findings
from horsies.operations.diagnose_held import held_findings
from horsies.operations.diagnose_sweeps import rule_findings
from horsies.operations.diagnose_waiting import expired_findings, interrupted_findings, waiting_findings
from horsies.operations.diagnose_workflows import workflow_findings
from horsies.operations.findings import FindingKind, Report

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from horsies.config.recovery import RecoveryConfig
    from horsies.operations.findings import Finding

_ORDER = {kind: place for place, kind in enumerate(FindingKind)}


async def diagnose(conn: asyncpg.Connection, settings: RecoveryConfig | None = None) -> Report:
    """Without `settings`, those of the newest worker, or the defaults if no worker reports any. Reads only.

    At most 500 ids of each kind are read; the others are counted, waiting rows up to a bound.
    """
    async with conn.transaction(readonly=True):
        cluster = await read_cluster(conn, settings)
        findings = [
            *await interrupted_findings(conn),
            *await crashed_findings(conn, cluster),
            *await held_findings(conn, cluster),
            *await expired_findings(conn, cluster),
            *await waiting_findings(conn, cluster),
            *await workflow_findings(conn, cluster),
            *rule_findings(cluster),
        ]
    return Report(
        now=cluster.now,
        settings=cluster.settings,
        settings_from=cluster.settings_from,
        settings_differ=cluster.settings_differ,
        sweep=cluster.sweep,
        sweeps=cluster.sweeps,
        spared=cluster.spared,
        workers_alive=cluster.alive,
        findings=tuple(sorted(findings, key=lambda finding: _worst_first(finding, cluster.now))),
    )


def _worst_first(finding: Finding, now: datetime) -> tuple[int, int, datetime, str]:
    return -finding.severity, _ORDER[finding.kind], finding.since or now, finding.name
