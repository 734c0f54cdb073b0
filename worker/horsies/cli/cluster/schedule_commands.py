"""`horsies schedules`: list schedules and their next runs. The verbs are added from their records."""

from __future__ import annotations

from typing import Annotated

import typer

from horsies.cli.options import DatabaseOptions, JsonOption, on_database
from horsies.cli.verbs.options import ScheduleFilterHelpOption, ScheduleFilterOption, complete_schedule, fit_for_text

app = typer.Typer(
    name="schedules",
    help="List schedules and their next runs, run them now, pause them, skip a run.",
    no_args_is_help=True,
)


@app.command("ls")
@on_database
def ls(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILTER", help="A filter: `status:overdue name:nightly_* last:failed`."),
    ] = None,
    filter_text: ScheduleFilterOption = None,
    as_json: JsonOption = False,
    filter_help: ScheduleFilterHelpOption = False,
    *,
    database: DatabaseOptions,
) -> None:
    """List schedules: what each sends and when, its next and its last run, and the outcomes of its newest runs.

    The newest run is at the right. A schedule is overdue if its run has been due for over a minute, and unserved if no
    scheduler that runs has it. `--json` prints `now`, `filter`, `schedules` and `schedulers`.
    """
    from horsies.cli.cluster.schedule_lists import list_schedules

    text = " ".join([*([filter_text] if filter_text else []), *(words or ())])
    list_schedules(database.choose_existing(), text, as_json=as_json)


@app.command("next")
@on_database
def next_(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SCHEDULE",
            help="The name of the schedule.",
            callback=fit_for_text,
            autocompletion=complete_schedule,
        ),
    ],
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1_000, metavar="N", help="How many runs.")] = 10,
    as_json: JsonOption = False,
    *,
    database: DatabaseOptions,
) -> None:
    """Show when a schedule runs next, by this machine's clock and by that of the schedule's time zone.

    A run before which the clocks of that zone change is marked: a daily run then comes an hour earlier or later by the
    clocks of other zones. `--json` prints `now`, `schedule`, `timezone`, `note` and `runs`.
    """
    from horsies.cli.cluster.schedule_lists import show_next_runs

    show_next_runs(database.choose_existing(), name, count, as_json=as_json)
