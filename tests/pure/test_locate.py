"""Which application a locator names, the error of every wrong one; what `horsies worker --reload` watches."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, strategies as st

from horsies import ErrorCode, Horsies
from horsies.domain.errors import ConfigurationError, HorsiesError
from horsies.locate import locate_app
from horsies.run.worker.reload import Watcher, project_roots

APP = """
from __future__ import annotations
from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult
app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@localhost:1/none")))

@app.task("where")
def where() -> TaskResult[str, TaskError]:
    return TaskResult(ok=__name__)
"""


def write(path: Path, source: str = APP) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return path


def refusal(locator: str) -> HorsiesError:
    with pytest.raises(HorsiesError) as caught:
        locate_app(locator)
    assert caught.value.help_text
    return caught.value


def name_in(app: Horsies) -> object:
    """The name under which the app's module was imported."""
    return app.tasks["where"]().ok_value


@pytest.mark.parametrize("project_file", ["pyproject.toml", "setup.cfg", "setup.py", None])
@pytest.mark.parametrize(
    "locator", ["shop.jobs:app", "shop.jobs", "shop/jobs.py:app", "shop/jobs.py", "./shop/jobs.py"]
)
def test_each_documented_form_leads_to_the_app(project: Path, project_file: str | None, locator: str) -> None:
    write(project / "shop" / "__init__.py", "")
    write(project / "shop" / "jobs.py")
    if project_file:
        write(project / project_file, "")
    assert name_in(locate_app(locator)) == "shop.jobs"


def test_the_directory_of_a_project_comes_first_on_the_path_and_any_other_last(project: Path) -> None:
    write(project / "jobs_first.py")
    locate_app("jobs_first")
    assert sys.path[-1] == str(project)
    sys.path.remove(str(project))
    write(project / "pyproject.toml", "")
    locate_app("jobs_first")
    assert sys.path[0] == str(project)


def test_a_file_finds_its_neighbours_and_is_imported_by_its_name(project: Path) -> None:
    write(project / "scripts" / "neighbour.py", "value = 1")
    write(
        project / "scripts" / "lonely_jobs.py",
        APP.replace("import annotations\n", "import annotations\nimport neighbour\n"),
    )
    assert name_in(locate_app("scripts/lonely_jobs.py")) == "lonely_jobs"
    assert sys.path[0] == str(project / "scripts")


def test_a_file_whose_name_is_taken_is_imported_all_the_same(project: Path) -> None:
    write(project / "email.py")
    name = name_in(locate_app("email.py"))
    assert isinstance(name, str)
    assert name.startswith("email_")
    assert name_in(locate_app("email.py:app")) == name


def test_two_files_of_one_name_in_two_directories_are_two_modules(project: Path) -> None:
    write(project / "a" / "same_name.py")
    write(project / "b" / "same_name.py")
    assert locate_app("a/same_name.py") is not locate_app("b/same_name.py")


def test_one_file_by_two_names_is_one_module(project: Path) -> None:
    write(project / "twice.py")
    (project / "link.py").symlink_to(project / "twice.py")
    app = locate_app("twice")
    assert locate_app("twice.py") is app
    assert locate_app("link.py") is app
    assert locate_app(str(project / "twice.py:app")) is app


def test_an_app_under_two_names_is_one_app_and_one_imported_from_elsewhere_counts(project: Path) -> None:
    write(project / "alias.py", APP + "\napplication = app\n")
    write(project / "importer.py", "from alias import app")
    assert locate_app("alias") is locate_app("alias:application") is locate_app("importer")


def test_two_apps_in_a_module_need_a_name(project: Path) -> None:
    write(project / "two.py", APP + "\nsecond = Horsies(app.config)\n")
    error = refusal("two")
    assert error.code is ErrorCode.CLI_INVALID_ARGS
    assert error.message == "module 'two' contains several applications: app, second"
    assert error.help_text == "say which one: two:app"
    assert locate_app("two:second") is not locate_app("two:app")


@pytest.mark.parametrize("locator", ["nowhere", "nowhere.jobs:app", "nowhere.py", "dir/nowhere.py:app"])
def test_a_module_that_does_not_exist_is_named(project: Path, locator: str) -> None:
    error = refusal(locator)
    assert error.code is ErrorCode.CLI_INVALID_ARGS
    assert "nowhere" in error.message
    assert str(project) in error.notes[0]


@pytest.mark.parametrize(
    ("locator", "text"),
    [
        ("shop.jobs.py", "write shop.jobs for the module, or shop/jobs.py for the file"),
        ("shop.jobs.py:app", "write shop.jobs:app for the module, or shop/jobs.py:app for the file"),
        ("jobs:", "package.module:app"),
        ("jobs:app:more", "package.module:app"),
        ("jobs:two words", "package.module:app"),
        ("shop..jobs", "package.module:app"),
        (".jobs", "package.module:app"),
        ("shop-jobs", "package.module:app"),
        ("shop/jobs", "package.module:app"),
        ("jobs:missing", "in jobs there is app"),
        ("jobs:TaskResult", "in jobs there is app"),
    ],
)
def test_a_malformed_locator_is_answered_with_the_way_out(project: Path, locator: str, text: str) -> None:
    write(project / "jobs.py")
    error = refusal(locator)
    assert error.code is ErrorCode.WORKER_INVALID_LOCATOR
    assert text in (error.help_text or "")


@pytest.mark.parametrize("locator", ["", "  ", ":app"])
def test_no_module_at_all_is_an_error_of_the_command_line(locator: str) -> None:
    assert refusal(locator).code is ErrorCode.CLI_INVALID_ARGS


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("x = 1\nraise ValueError('not today')", "ValueError: not today"),
        ("x = 1\nimport sys; sys.exit('bye')", "SystemExit: bye"),
        ("x = 1\nimport no_such_package.deep", "No module named 'no_such_package'"),
        ("x = 1\ndef broken(:", "SyntaxError"),
        ("x = 1\nraise Exception", "Exception"),
    ],
)
@pytest.mark.parametrize("locator", ["raises", "raises.py:app"])
def test_a_module_that_raises_is_reported_at_its_own_line(project: Path, source: str, text: str, locator: str) -> None:
    path = write(project / "raises.py", source)
    error = refusal(locator)
    assert error.code is ErrorCode.MODULE_EXEC_ERROR
    assert text in error.message
    assert error.location is not None
    assert (error.location.file, error.location.line) == (str(path), 2)


@pytest.mark.parametrize(
    ("source", "help_text"),
    [
        ("AppConfig()", "give it what it lacks: AppConfig(broker=...)"),
        ("PostgresConfig(database_url=7)", "correct what PostgresConfig is given there"),
        ("1 / 0", "correct the module; `python -c 'import raises'` shows where it fails"),
    ],
)
def test_the_way_out_is_that_of_what_was_raised(project: Path, source: str, help_text: str) -> None:
    write(project / "raises.py", f"from horsies import AppConfig, PostgresConfig\n{source}")
    assert refusal("raises").help_text == help_text


def test_a_module_that_failed_is_tried_anew(project: Path) -> None:
    path = write(project / "email.py", "1 / 0")
    assert refusal("email.py").code is ErrorCode.MODULE_EXEC_ERROR
    path.write_text(APP)
    assert "where" in locate_app("email.py").tasks


def test_discovered_modules_are_left_for_later(project: Path) -> None:
    write(project / "main_jobs.py", APP + "\napp.discover_tasks(['more_jobs'])\n")
    own_app = 'app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@localhost:1/none")))'
    write(project / "more_jobs.py", APP.replace(own_app, "from main_jobs import app").replace("where", "more"))
    app = locate_app("main_jobs")
    assert app.list_tasks() == ["where"]
    app.import_task_modules()
    assert app.list_tasks() == ["where", "more"]


@given(st.text(max_size=20))
def test_no_text_whatever_raises_anything_else(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        locate_app(f"{text}-")
    assert caught.value.code in {ErrorCode.CLI_INVALID_ARGS, ErrorCode.WORKER_INVALID_LOCATOR}


def changed_file(path: Path, text: str = "x = 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_changed_new_and_removed_files_are_noticed_once(tmp_path: Path) -> None:
    changed, removed = changed_file(tmp_path / "shop" / "tasks.py"), changed_file(tmp_path / "shop" / "old.py")
    watcher = Watcher([tmp_path])
    assert watcher.changed() == []
    changed_file(changed, "x = 2\n")
    made = changed_file(tmp_path / "shop" / "new" / "mail.py")
    removed.unlink()
    assert watcher.changed() == sorted([changed, made, removed])
    assert watcher.changed() == []


def test_what_a_worker_does_not_import_is_not_watched(tmp_path: Path) -> None:
    changed_file(tmp_path / "env" / "pyvenv.cfg")
    others = ("test_shop.py", "conftest.py", "notes.md", ".git/hook.py", "__pycache__/a.py", "env/lib/a.py")
    watcher = Watcher([tmp_path])
    for name in (*others, "node_modules/a/setup.py"):
        changed_file(tmp_path / name)
    assert watcher.changed() == []


def test_a_directory_that_vanishes_is_no_error(tmp_path: Path) -> None:
    watcher = Watcher([tmp_path / "gone"])
    assert watcher.changed() == []


def test_an_editors_link_that_leads_nowhere_hides_no_file(tmp_path: Path) -> None:
    """Emacs marks an unsaved file by such a link beside it."""
    files = [changed_file(tmp_path / f"{number}.py") for number in range(50)]
    watcher = Watcher([tmp_path])
    for name in (".#7.py", "moved.py"):
        (tmp_path / name).symlink_to("me@here.4711:1700000000")
    assert watcher.changed() == []
    for file in files:
        changed_file(file, "x = 22\n")
    assert watcher.changed() == sorted(files)


def test_the_roots_are_where_the_projects_modules_are_imported_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "project", tmp_path / "library"
    monkeypatch.chdir(changed_file(here / "src" / "shop" / "tasks.py").parents[2])
    for name, path in {
        "shop.tasks": here / "src" / "shop" / "tasks.py",
        "shop": here / "src" / "shop" / "__init__.py",
        "shop.deep.one": here / "src" / "shop" / "deep" / "one.py",
        "orders": elsewhere / "orders.py",
        "unrelated": tmp_path / "other" / "unrelated.py",
    }.items():
        module = ModuleType(name)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, name, module)
    assert project_roots(["orders"]) == [elsewhere, here / "src"]


@pytest.mark.bench
@pytest.mark.alone
def test_two_thousand_files_cost_less_than_a_hundredth_of_a_core(tmp_path: Path) -> None:
    for number in range(2_000):
        changed_file(tmp_path / f"package{number // 100}" / f"part{number // 10 % 10}" / f"module{number}.py", "")
    watcher = Watcher([tmp_path])
    spent_s = []
    for _ in range(5):
        begin = time.thread_time()
        assert watcher.changed() == []
        spent_s.append(time.thread_time() - begin)
    assert min(spent_s) < 0.03  # the pause after it is 150 times as long: 4.5 s at most until a change is noticed
