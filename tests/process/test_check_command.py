"""`horsies check` as a command: its output, the streams, and the exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
    command = [sys.executable, "-P", "-m", "horsies", "check", *words]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("words", [["jobs:app"], ["jobs.py"], ["-m", "jobs"], ["--module", "jobs", "jobs"]])
def test_a_sound_application_is_counted(project: Path, words: list[str]) -> None:
    done = check(project, *words)
    assert done.stdout == "ok: all validations passed\n  2 task(s) registered\n"
    assert (done.returncode, done.stderr) == (0, "")


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
    assert f"--> {project}/more_jobs.py:9" in done.stderr
    assert done.stderr.endswith("error: aborting due to 1 previous error\n")


def test_the_live_check_asks_the_database_and_shows_no_password(project: Path) -> None:
    done = check(project, "jobs", "--live")
    assert done.returncode == 1
    assert "error[HRS-203]: nothing answers at localhost:1" in done.stderr
    assert "secret" not in done.stderr


def test_the_log_level_counts_in_any_case(project: Path) -> None:
    assert "more jobs are coming" in check(project, "jobs", "--loglevel", "info").stderr
    assert check(project, "jobs", "--loglevel", "loud").returncode == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "error[HRS-206]: no module is named"),
        (["jobs", "-m", "more_jobs"], "error[HRS-206]: two modules are named: jobs and more_jobs"),
        (["nowhere"], "error[HRS-206]: there is no module 'nowhere'"),
        (["jobs:missing"], "error[HRS-207]: 'missing' in module 'jobs' does not exist"),
    ],
)
def test_a_module_that_leads_nowhere_is_an_error(project: Path, words: list[str], text: str) -> None:
    done = check(project, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert text in done.stderr
