"""`horsies check` as a command: its output, the streams, and the exit code."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from forked_commands import run_command
from test_worker import HERE, Table, Worker

APP = """
from __future__ import annotations
from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult
app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://me:secret@localhost:1/none")))
app.discover_tasks(["more_jobs"])

@app.task("first")
def first() -> TaskResult[str, TaskError]:
    return TaskResult(ok="1")
"""

MORE = """
from __future__ import annotations
import logging
from jobs import app
from horsies import TaskError, TaskResult

logging.getLogger("horsies").info("more jobs are coming")

@app.task("second")
def second() -> TaskResult[str, TaskError]:
    return TaskResult(ok="2")

second.send()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(APP)
    (tmp_path / "more_jobs.py").write_text(MORE)
    return tmp_path


def check(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return horsies(directory, "check", *words)


def horsies(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # A module that is written twice within a second would be taken from its bytecode.
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return run_command(words, env=environ, cwd=directory, text=True)


@pytest.mark.parametrize("words", [["jobs:app"], ["--module", "jobs", "jobs"]])
def test_a_sound_application_is_counted(project: Path, words: list[str]) -> None:
    done = check(project, *words)
    assert done.stdout == "ok: all validations passed\n  2 task(s) registered\n"
    assert (done.returncode, done.stderr) == (0, "")


WORKFLOWS = """
from horsies import SubWorkflowNode, TaskNode, WorkflowDefinition, WorkflowSpec

class OfResult(WorkflowDefinition[str]):
    name = "of result"
    definition_key = "of result"
    @classmethod
    def build_with(cls, app, *, text: TaskResult[str, TaskError]) -> WorkflowSpec[str]: ...

@app.workflow_builder()
def parent() -> WorkflowSpec[str]:
    step = TaskNode(first)
    return app.workflow("parent", [step, SubWorkflowNode(OfResult, waits_for=[step], args_from={"text": step})],
                        definition_key="parent")
"""


def test_what_could_not_be_checked_is_listed(project: Path) -> None:
    (project / "jobs.py").write_text(APP + WORKFLOWS)
    unchecked = "OfResult.build_with(): text comes from a run of jobs.parent"
    assert check(project, "jobs").stdout == (
        f"ok: all validations passed\n  2 task(s) registered\n  not checked: {unchecked}\n"
    )
    assert json.loads(check(project, "jobs", "--json").stdout)["unchecked"] == [unchecked]


def test_a_schedule_of_a_task_that_is_not_registered_is_an_error(project: Path) -> None:
    schedule = (
        "ScheduleConfig(schedules=[TaskSchedule(name='nightly', task_name='fist', pattern=IntervalSchedule(days=1))])"
    )
    text = APP.replace("import AppConfig", "import IntervalSchedule, ScheduleConfig, TaskSchedule, AppConfig")
    (project / "jobs.py").write_text(text.replace('none")', f'none"), schedule={schedule}'))
    done = check(project, "jobs")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error[HRS-300]: schedule 'nightly': task 'fist' is not registered\n")
    assert "did you mean 'first'?" in done.stderr


def test_errors_are_a_report_on_stderr(project: Path) -> None:
    (project / "more_jobs.py").write_text(MORE.replace(" -> TaskResult[str, TaskError]", ""))
    done = check(project, "jobs")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error[HRS-100]: task function second() has no return type\n")
    assert f"--> {project}/more_jobs.py:10:1\n" in done.stderr
    assert "10 | def second():\n" in done.stderr
    assert done.stderr.endswith("error: aborting due to 1 previous error\n")


def test_the_live_check_asks_the_database_and_shows_no_password(project: Path) -> None:
    done = check(project, "jobs", "--live")
    assert done.returncode == 1
    assert "error[HRS-203]: cannot connect to localhost:1" in done.stderr
    assert "secret" not in done.stderr


def test_the_log_level_counts_in_any_case(project: Path) -> None:
    assert "more jobs are coming" in check(project, "jobs", "--loglevel", "info").stderr
    assert check(project, "jobs", "--loglevel", "loud").returncode == 2


def test_json_has_each_error_with_its_place_in_a_stable_shape(project: Path) -> None:
    done = check(project, "jobs", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"ok": True, "tasks": 2, "unchecked": [], "errors": []})
    (project / "more_jobs.py").write_text(MORE.replace(" -> TaskResult[str, TaskError]", ""))
    done = check(project, "jobs", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout) == {
        "ok": False,
        "tasks": None,
        "unchecked": [],
        "errors": [
            {
                "code": "HRS-100",
                "name": "TASK_NO_RETURN_TYPE",
                "message": "task function second() has no return type",
                "location": {
                    "file": f"{project}/more_jobs.py",
                    "line": 10,
                    "column": 1,
                    "end_column": 14,
                    "source": "def second():",
                },
                "notes": [],
                "help": "write -> TaskResult[T, TaskError], T being the type of the value",
            }
        ],
    }
    (error,) = json.loads(check(project, "nowhere", "--json").stdout)["errors"]
    assert (error["code"], error["location"]) == ("HRS-206", None)


@pytest.mark.parametrize("command", ["worker", "scheduler"])
def test_a_worker_and_a_scheduler_begin_with_the_same_report(project: Path, command: str) -> None:
    """The database is not asked: nothing answers there, and a worker would wait for it."""
    (project / "jobs.py").write_text(
        APP + "from horsies import WorkflowSpec\ndef loose() -> WorkflowSpec[int]: ...\n@app.workflow_builder()\n"
        "def broken() -> WorkflowSpec[int]:\n    return 1 / 0\n"
    )
    checked, started = check(project, "jobs"), horsies(project, command, "jobs")
    assert (started.returncode, started.stdout) == (1, "")
    assert started.stderr.endswith(checked.stderr)
    assert "error[HRS-029]: jobs.broken raised ZeroDivisionError: division by zero\n" in started.stderr
    assert f"--> {project}/jobs.py:14:12\n" in started.stderr


def test_the_live_check_wants_the_tables_that_a_worker_needs(project: Path, database: str, empty_database: str) -> None:
    for url in (database, empty_database):
        (project / "jobs.py").write_text(APP.replace("postgresql://me:secret@localhost:1/none", url))
        assert check(project, "jobs", "--live").returncode == 0
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP TABLE horsies_pulse")
    (project / "jobs.py").write_text(APP.replace("postgresql://me:secret@localhost:1/none", database))
    for form in ([], ["--json"]):
        done = check(project, "jobs", "--live", *form)
        assert done.returncode == 1
        assert "HRS-211" in (done.stdout if form else done.stderr)
        assert "the table horsies_pulse is missing" in done.stdout + done.stderr


def test_a_module_that_leads_nowhere_is_an_error(project: Path) -> None:
    for words, text in (
        ([], "error[HRS-206]: no module is named"),
        (["jobs", "-m", "more_jobs"], "error[HRS-206]: two modules are named: jobs and more_jobs"),
        (["nowhere"], "error[HRS-206]: there is no module 'nowhere'"),
        (["jobs:missing"], "error[HRS-207]: 'missing' in module 'jobs' does not exist"),
    ):
        done = check(project, *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert text in done.stderr


def checked(database: str, **environ: str) -> str:
    """The stderr of `horsies check` at its default level."""
    environ = {**os.environ, "HORSIES_DATABASE_URL": database, **environ}
    done = run_command(["check", "worker_app.py:app"], env=environ, cwd=HERE, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_imports_are_told_on_request_whatever_the_log_level(database: str) -> None:
    assert checked(database) == ""
    assert checked(database, HORSIES_DEBUG_IMPORTS="0") == ""
    told = checked(database, HORSIES_DEBUG_IMPORTS="1")
    assert "importing worker_app.py as worker_app" in told
    assert f"imported worker_app from {HERE / 'worker_app.py'} in " in told


async def test_children_tell_their_imports_only_on_request_of_their_own(
    table: Table, start: Callable[..., Worker]
) -> None:
    quiet = start(HORSIES_DEBUG_IMPORTS="1")
    assert await asyncio.to_thread(quiet.stop) == 0
    quiet.kill()
    assert [record["line"] for record in quiet.all_records() if record["event"] in ("stdout", "stderr")] == []
    talking = start("--loglevel", "INFO", HORSIES_CHILD_DISCOVERY_LOGS="1", ready=False)
    record = await asyncio.to_thread(talking.wait_for, "stderr")
    assert record["line"] == "DEBUG horsies.registry: importing worker_app as worker_app"
    assert record["child"] == 1
    record = await asyncio.to_thread(talking.wait_for, "stderr")
    assert record["line"].startswith(f"DEBUG horsies.registry: imported worker_app from {HERE / 'worker_app.py'} in ")
    row = await table.done(await table.send("add", 1, 2))
    assert row["status"] == "COMPLETED"
