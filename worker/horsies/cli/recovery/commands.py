"""`horsies recovery`: what is stuck, and one sweep now."""

from __future__ import annotations

from typing import Annotated

import typer

from horsies.cli.options import DatabaseOptions, JsonOption, YesOption, on_database
from horsies.cli.verbs.options import Asked, DryRunOption, ReadOnlyOption

app = typer.Typer(
    name="recovery",
    help="List what is stuck and what will happen to it; run the recovery sweep now.",
    no_args_is_help=True,
)


@app.command("ls")
@on_database
def ls(
    why: Annotated[bool, typer.Option("--why", help="Also explain each finding, with the commands that help.")] = False,
    doctor: Annotated[
        bool, typer.Option("--doctor", help="Also list what `horsies doctor` warns of or fails on.")
    ] = False,
    as_json: JsonOption = False,
    *,
    database: DatabaseOptions,
) -> None:
    """List what is stuck, worst first: the evidence, what recovery will do, and which actions there are.

    `--json` prints `now`, `database`, `workers_alive`, `settings`, `settings_from`, `settings_differ`, `sweep`,
    `sweeps`, `spared` and `findings`; each with `kind`, `severity`, `target_kind`, `name`, `ids`, `count`, `at_least`,
    `since`, `evidence`, `system_will`, `in_seconds`, `may`, `why`, `queue_name` and `worker_id`.
    """
    from horsies.cli.recovery.findings import list_findings

    list_findings(database.choose_existing(), why=why, doctor=doctor, as_json=as_json)


@app.command("run")
@on_database
def run(
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
    *,
    database: DatabaseOptions,
) -> None:
    """Run the recovery sweep once: release stale claims, retry or fail crashed runs, expire what is past its deadline.

    It does what the next sweep of a worker would do, with the settings of the newest worker, so it writes attempts and
    no audit rows. Use it while no worker is alive. Runs and claims whose workers may not have had the time to beat
    again are spared; the output says why, and when to run it again. `--json` prints `database`, `dry_run`,
    `settings_from`, `spared_runs`, `spared_claims`, `spared_until` and `requeued`, `retried`, `failed`, `expired`,
    `refused`, or with `--dry-run` `stale_claims`, `stale_runs`, `overdue`.
    """
    from horsies.cli.recovery.sweep import sweep

    choice = database.choose_existing()
    sweep(Asked(choice, "recovery run", None, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json))
