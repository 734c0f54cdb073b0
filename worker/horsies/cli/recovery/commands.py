"""`horsies recovery`, `horsies audit` and `horsies sessions`: what is stuck, what operators did, who holds locks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from horsies.cli.database import DatabaseOptions, on_database
from horsies.cli.options import (
    AfterOption,
    DryRunOption,
    JsonOption,
    LimitOption,
    ReadOnlyOption,
    YesOption,
    text_option,
)

if TYPE_CHECKING:
    from horsies.cli.reading import ReadSession
    from horsies.findings.blockers import Blocker

_NUMBERS = frozenset({"PID", "OPEN", "BLOCKS", "FOR"})

recovery = typer.Typer(
    name="recovery",
    help="List what is stuck and what will happen to it; run the recovery sweep now.",
    no_args_is_help=True,
)
sessions = typer.Typer(
    name="sessions", help="List, cancel or terminate database sessions that block ours.", no_args_is_help=True
)
audit = typer.Typer(name="audit", help="List operator actions, and undo them.", no_args_is_help=True)


@recovery.command("ls")
@on_database
def ls_findings(
    database: DatabaseOptions,
    why: Annotated[bool, typer.Option("--why", help="Also explain each finding, with the commands that help.")] = False,
    doctor: Annotated[
        bool, typer.Option("--doctor", help="Also list what `horsies doctor` warns of or fails on.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List what is stuck, worst first: the evidence, what recovery will do, and which actions there are.

    `--json` prints `now`, `database`, `workers_alive`, `settings`, `settings_from`, `settings_differ`, `sweep`,
    `sweeps`, `spared` and `findings`; each with `kind`, `severity`, `target_kind`, `name`, `ids`, `count`, `at_least`,
    `since`, `evidence`, `system_will`, `in_seconds`, `may`, `why`, `queue_name` and `worker_id`.
    """
    from horsies.cli.recovery.findings import list_findings

    list_findings(database.choose_existing(), why=why, doctor=doctor, as_json=as_json)


@recovery.command("run")
@on_database
def run(
    database: DatabaseOptions,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    read_only: ReadOnlyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the recovery sweep once: release stale claims, retry or fail crashed runs, expire what is past its deadline.

    It does what the next sweep of a worker would do, with the settings of the newest worker, so it writes attempts and
    no audit rows. Use it while no worker is alive. Runs and claims whose workers may not have had the time to beat
    again are spared; the output says why, and when to run it again. `--json` prints `database`, `dry_run`,
    `settings_from`, `spared_runs`, `spared_claims`, `spared_until` and `requeued`, `retried`, `failed`, `expired`,
    `refused`, or with `--dry-run` `stale_claims`, `stale_runs`, `overdue`.
    """
    from horsies.cli.recovery.sweep import sweep
    from horsies.cli.verbs.acting import Asked

    choice = database.choose_existing()
    sweep(Asked(choice, "recovery run", None, dry_run=dry_run, yes=yes, read_only=read_only, as_json=as_json))


@audit.command("ls")
@on_database
def ls_actions(
    database: DatabaseOptions,
    operation: Annotated[str | None, text_option("--operation", "ID", "The rows of this operation.")] = None,
    task: Annotated[str | None, text_option("--task", "ID", "Actions on this task.")] = None,
    worker: Annotated[str | None, text_option("--worker", "ID", "Actions on this worker.")] = None,
    queue: Annotated[str | None, text_option("--queue", "NAME", "Actions on this queue.")] = None,
    schedule: Annotated[str | None, text_option("--schedule", "NAME", "Actions on this schedule.")] = None,
    workflow: Annotated[str | None, text_option("--workflow", "ID", "Actions on this workflow.")] = None,
    node: Annotated[str | None, text_option("--node", "WORKFLOW:INDEX", "Actions on this node of a workflow.")] = None,
    since: Annotated[
        str | None, text_option("--since", "TIME", "Operations since then: 12h, 14:05 or 2026-11-18.")
    ] = None,
    by: Annotated[str | None, text_option("--by", "WHO", "Operations by this user, host or role.")] = None,
    verb: Annotated[str | None, text_option("--verb", "VERB", "Operations with this verb: requeue.")] = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    as_json: JsonOption = False,
) -> None:
    """List operator actions, newest first: one line for each operation, or for each audit row of what you name.

    `--json` prints `now`, `operations` (or `actions`, each audit row with the state before and after) and `next`, the
    cursor of the next page or null.
    """
    from horsies.cli.recovery.audit import list_actions, list_operations

    targets = {"task": task, "worker": worker, "queue": queue, "schedule": schedule, "workflow": workflow, "node": node}
    given = [(kind, name) for kind, name in targets.items() if name is not None]
    if len(given) > 1:
        raise typer.BadParameter("give one of --task, --worker, --queue, --schedule, --workflow and --node")
    target = given[0] if given else None
    narrowed = {key: text for key, text in {"since": since, "by": by, "verb": verb}.items() if text is not None}
    choice = database.choose_existing()
    if operation is None and target is None:
        list_operations(choice, narrowed, limit=limit, after=after, as_json=as_json)
    elif narrowed:
        raise typer.BadParameter(
            f"--{next(iter(narrowed))} filters operations; leave it out if you name one operation or target"
        )
    else:
        list_actions(choice, operation, target, limit=limit, after=after, as_json=as_json)


@sessions.command("ls")
@on_database
def ls_sessions(database: DatabaseOptions, as_json: JsonOption = False) -> None:
    """List sessions of the server whose locks the workers, the console or a command wait for.

    It reads no table of ours, so it answers while those are locked. The exit code is 0, and 1 if a session is listed.
    `--json` prints `sessions`.
    """
    from horsies.cli.reading import read
    from horsies.display.formatting import ago
    from horsies.display.json_output import print_json
    from horsies.display.terminal import Screen, TableColumn, say, table
    from horsies.findings.blockers import blockers

    async def work(session: ReadSession) -> tuple[Blocker, ...]:
        return await blockers(session.connection, readers_only=False)

    found = read(database.choose_existing(), "sessions ls", work, needs_tables=False)
    if as_json:
        print_json({"sessions": found})
    elif not found:
        say("no session of horsies waits for a lock")
    else:
        titles = ("PID", "SESSION", "STATE", "OPEN", "BLOCKS", "FOR", "STATEMENT")
        columns = [TableColumn(title, right=title in _NUMBERS, rank=title == "STATEMENT") for title in titles]
        rows = []
        for one in found:
            times = ago(one.open_since, one.now), str(one.blocked), ago(one.blocks_since, one.now)
            who = one.who.removeprefix(one.name).strip()
            rows.append((str(one.pid), who, one.state or "hidden", *times, one.statement))
        say(*table(columns, rows, Screen.of(sys.stdout)))
        say(*(f"{one.remedy} ends what pid {one.pid} holds up" for one in found))
    if found:
        raise typer.Exit(1)
