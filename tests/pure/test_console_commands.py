"""The console's command line, its completion and history; the registry of keys and the user's own keys."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from horsies.cli.tui import _SCREENS
from horsies.domain.errors import ConfigurationError
from horsies.operations.verbs import VERBS
from horsies_tui.actions import ACTIONS, TOGETHER, Action, Scope, key_label, key_name
from horsies_tui.activity.view import ActivityView
from horsies_tui.command.completing import Known, complete, hint
from horsies_tui.command.grammar import (
    SCREENS,
    SYNTAX,
    Act,
    CommandError,
    ExportRows,
    Forget,
    Go,
    OpenPart,
    Recall,
    RunAction,
    Save,
    Show,
    Theme,
    names,
    parse_command,
    without_secrets,
)
from horsies_tui.command.history import MOST, CommandHistory
from horsies_tui.overview.view import OverviewView
from horsies_tui.recovery.view import RecoveryView
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.shell.help import TITLES
from horsies_tui.shell.keymap import keymap
from horsies_tui.shell.picker import Picker
from horsies_tui.shell.recording import ReplayConsole
from horsies_tui.shell.views import TABS
from horsies_tui.task.view import DetailView
from horsies_tui.tasks.view import TasksView
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.sheet import Sheet
from horsies_tui.workers.view import WorkersView
from horsies_tui.workflow.graph_view import GraphView
from horsies_tui.workflow.view import WorkflowView
from horsies_tui.workflows.view import WorkflowsView

KNOWN = Known(
    live=[VERBS["task", "cancel"]],
    values={"tasks": {"queue": ["mail", "bulk"]}, "schedules": {"name": ["nightly"]}},
    filters={"mine": "queue:mail"},
    themes=["nord", "horsies-dark"],
)
_PIECES = st.sampled_from(
    [
        *names(),
        *(f"--{word}" for word in ("reason", "filter", "yes", "args", "kwargs=[", "fresh-budget", "value")),
        "-f",
    ]
)
LINES = st.lists(
    st.one_of(_PIECES, st.text(max_size=12), st.sampled_from(["'", '"', "\\", ":", "-", "csv"])), max_size=6
)


@settings(max_examples=400)
@given(LINES.map(" ".join), st.integers(-3, 60))
def test_no_line_breaks_the_parser_the_completion_or_the_history(line: str, cursor: int) -> None:
    problem = None
    try:
        parse_command(line)
    except CommandError as error:
        problem = error.problem
    if problem is not None:
        assert 0 <= problem.start <= problem.end <= len(line)
        assert problem.message
    for offer in complete(line, cursor, KNOWN):
        assert 0 <= offer.start <= offer.end <= len(line)
    hint(line, cursor, KNOWN)
    assert "\n" not in without_secrets(line) or "\n" in line


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("", None),
        ("  ", None),
        ("tasks", Show("tasks")),
        (" tasks  queue:mail name:'a b' ", Show("tasks", "queue:mail name:'a b'")),
        ("workers host:web-*", Show("workers", "host:web-*")),
        ("activity by:ops", Show("activity", "by:ops")),
        ("overview", Show("overview")),
        ("go 7f3a", Go("7f3a")),
        ("filter mine", Recall("mine")),
        ("save mine", Save("mine")),
        ("unsave mine", Forget("mine")),
        ("export csv", ExportRows("csv")),
        ("export jsonl 'my file.jsonl'", ExportRows("jsonl", "my file.jsonl")),
        ("theme nord", Theme("nord")),
        ("editor arguments", OpenPart("arguments")),
        ("pager traceback", OpenPart("traceback", pager=True)),
        ("q", RunAction("quit_now")),
        ("requeue", Act((VERBS["task", "requeue"],))),
        (
            "requeue --fresh-budget --reason 'it is up again'",
            Act((VERBS["task", "requeue"],), options={"fresh_budget": True}, reason="it is up again"),
        ),
        ("cancel 1 2", Act((VERBS["task", "cancel"], VERBS["workflow", "cancel"]), ("1", "2"))),
        ("tasks cancel 1", Act((VERBS["task", "cancel"],), ("1",), kinds=("task",))),
        ("queues pause mail", Act((VERBS["queue", "pause"],), ("mail",), kinds=("queue",))),
        ("rerun --kwargs={}", Act((VERBS["task", "rerun"],), options={"kwargs": "{}"})),
        ("workflows retry", Act((VERBS["workflow", "retry"],), kinds=("workflow", "node"))),
        (
            "cancel --filter 'queue:mail status:pending'",
            Act((VERBS["task", "cancel"], VERBS["workflow", "cancel"]), filter="queue:mail status:pending"),
        ),
    ],
)
def test_a_line_means_one_command(line: str, meant: object) -> None:
    assert parse_command(line) == meant


@pytest.mark.parametrize(
    ("line", "says", "at"),
    [
        ("reque", "`reque` is not a command; did you mean requeue?", (0, 5)),
        ("tasks qeue:mail", "there is no key 'qeue'; did you mean queue?", (6, 10)),
        ("overview queue:mail", "overview has no filter", (9, 19)),
        ("cancel 7f3a --reson x", "cancel has no option --reson; did you mean --reason?", (12, 19)),
        ("cancel --reason", "--reason needs a value", (15, 15)),
        ("cancel --yes", "leave out --yes: the console always shows what would change and asks", (7, 12)),
        ("retry-now --kwargs {}", "retry-now has no option --kwargs", (10, 18)),
        ("drain --filter x", "drain takes no filter; name its targets", (15, 16)),
        ("cancel 1 --filter x", "give either ids or --filter, not both", (18, 19)),
        ("fail --filter ''", "an empty filter matches everything; to select everything, write --filter '*'", (14, 16)),
        ("fail --filter 'qeue:x'", "there is no key 'qeue'; did you mean queue?", (14, 22)),
        ("fail --reason 'never", "this quote is never closed", (14, 15)),
        ("complete --fits x:y", "complete has no option --fits", (9, 15)),
        ("go", "go needs the id of a task, a workflow or a worker", (2, 2)),
        ("go 1 2", "go takes no further arguments", (5, 6)),
        ("save a/b", "a name may have only letters, digits, - and _", (5, 8)),
        ("export xml", "export needs a format: csv or jsonl", (7, 10)),
        ("audit", "audit needs a verb: undo", (5, 5)),
        ("quit now", "quit takes no further arguments", (5, 8)),
    ],
)
def test_a_wrong_line_says_where_and_what_it_should_be(line: str, says: str, at: tuple[int, int]) -> None:
    with pytest.raises(CommandError) as caught:
        parse_command(line)
    assert caught.value.message.startswith(says)
    assert (caught.value.problem.start, caught.value.problem.end) == at


def test_every_screen_every_verb_and_every_action_has_a_command() -> None:
    assert {tab.name for tab in TABS} == set(SCREENS)
    for kind, name in VERBS:
        line = f"sessions {name}" if kind == "session" else name
        assert isinstance(parse_command(line), Act), (kind, name)
    for one in SYNTAX:
        if not one.usage:
            command = parse_command(one.name)
            if isinstance(command, RunAction):
                assert callable(getattr(ConsoleApp, f"action_{command.action}"))


@pytest.mark.parametrize(
    ("typed", "first", "hinted"),
    [
        ("requ", "requeue", "requeue"),
        ("tasks qu", "queue:", "tasks queue:"),
        ("tasks queue:m", "mail", "tasks queue:mail"),
        ("workflows na", "name:", "workflows name:"),
        ("cancel --r", "--reason", "cancel --reason"),
        ("queues pause b", "bulk", "queues pause bulk"),
        ("pause n", "nightly", "pause nightly"),
        ("requeue --", "--fresh-budget", "requeue --fresh-budget"),
        ("theme n", "nord", "theme nord"),
        ("filter ", "mine", ""),
        ("export ", "csv", ""),
        ("editor ar", "arguments", "editor arguments"),
        ("audit u", "undo", "audit undo"),
        ("cancel --reason ", None, ""),
    ],
)
def test_tab_goes_on_from_what_is_typed(typed: str, first: str | None, hinted: str) -> None:
    offers = complete(typed, len(typed), KNOWN)
    if first is not None:
        assert first in [offer.text for offer in offers[:3]]
    else:
        assert offers == []
    assert hint(typed, len(typed), KNOWN) == hinted


def test_an_empty_line_offers_first_what_the_screen_can_do() -> None:
    assert [offer.text for offer in complete("", 0, KNOWN)][:2] == ["cancel", "overview"]


def keep(history: CommandHistory, line: str) -> None:
    """What the command line does, which writes in a thread."""
    if (kept := history.remember(line)) is not None:
        history.append(kept)


def test_the_history_keeps_no_reason_no_value_and_no_search_in_arguments(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    history = CommandHistory(path)
    for line in (
        "tasks queue:mail",
        "requeue 12 --reason 'hunter2 was leaked' --fresh-budget",
        'rerun --kwargs \'{"password": "hunter2"}\' 7',
        "workflows complete --value=hunter2",
        'tasks args:"hunter2"',
        "go postgresql://ops:hunter2@db/app",
        "tasks queue:mail",
    ):
        keep(history, line)
    assert "hunter2" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert history.lines[:2] == ["tasks queue:mail", "go postgresql://ops:***@db/app"]
    assert "requeue 12 --fresh-budget" in history.lines
    assert CommandHistory(path).lines == history.lines


def test_the_history_stays_short_and_does_without_a_file(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f"go {number}\n" for number in range(3 * MOST)))
    assert len(CommandHistory(path).lines) == MOST
    assert CommandHistory(path).lines[0] == f"go {3 * MOST - 1}"
    assert len(path.read_text().splitlines()) == MOST
    nowhere = CommandHistory(tmp_path / "history" / "below" / "a file")
    keep(nowhere, "go 1")
    keep(nowhere, "go 2")
    assert nowhere.lines == ["go 2", "go 1"]


FILE = Path("/home/ops/.config/horsies/config.toml")
OWNERS: dict[Scope, type] = {
    Scope.APP: ConsoleApp,
    Scope.TABLE: RowTable,
    Scope.TASKS: TasksView,
    Scope.DETAIL: DetailView,
    Scope.WORKERS: WorkersView,
    Scope.RECOVERY: RecoveryView,
    Scope.WORKFLOWS: WorkflowsView,
    Scope.WORKFLOW: WorkflowView,
    Scope.GRAPH: GraphView,
    Scope.FLOWS: WorkflowView,
    Scope.ACTIVITY: ActivityView,
    Scope.OVERVIEW: OverviewView,
    Scope.VERBS: TasksView,
    Scope.SHEET: Sheet,
    Scope.PICKER: Picker,
    Scope.REPLAY: ReplayConsole,
}


def test_ids_are_unique_and_begin_with_their_scope() -> None:
    assert [name for name, times in Counter(action.id for action in ACTIONS).items() if times > 1] == []
    assert {action.scope for action in ACTIONS} == set(Scope)


def test_every_scope_has_a_title_in_the_help_and_a_place_where_it_lives() -> None:
    assert set(TITLES) == set(Scope)
    assert {scope for scopes in TOGETHER for scope in scopes} == set(Scope)


@pytest.mark.parametrize("scopes", TOGETHER, ids="+".join)
def test_no_key_has_two_meanings_on_one_screen(scopes: tuple[Scope, ...]) -> None:
    keys = Counter(key for action in ACTIONS if action.scope in scopes for key in action.keys)
    assert [key for key, times in keys.items() if times > 1] == []


def test_the_keys_of_a_replay_are_free_on_every_screen_but_that_pausing_it_takes_the_place_of_freezing() -> None:
    taken = {key: action.id for action in ACTIONS if action.scope is not Scope.REPLAY for key in action.keys}
    replay = [key for action in ACTIONS if action.scope is Scope.REPLAY for key in action.keys]
    assert {key: taken[key] for key in replay if key in taken} == {"p": "app.freeze"}


@pytest.mark.parametrize(
    "action", [action for action in ACTIONS if action.scope in OWNERS], ids=lambda action: action.id
)
def test_every_action_has_a_method_where_it_lives(action: Action) -> None:
    called = action.binding.action.partition("(")[0]
    owner: type = ConsoleApp if called.startswith("app.") else OWNERS[action.scope]
    assert callable(getattr(owner, f"action_{called.rpartition('.')[2]}", None)), called


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_label_and_help_fit_their_columns_and_keys_are_keys(action: Action) -> None:
    assert 0 < len(action.label) <= 15
    assert 0 < len(action.help) <= 52
    assert [key_name(key) for key in action.keys] == list(action.keys)


def test_each_tab_can_be_opened_by_the_command_line() -> None:
    assert {tab.name for tab in TABS} == set(_SCREENS)


def test_what_writes_is_a_capital_and_undo_is_the_only_other_one() -> None:
    others = {action.id for action in ACTIONS if action.writes and not all(key.isupper() for key in action.keys)}
    assert others == {"verbs.undo", "activity.undo", "outcome.undo"}


def test_a_key_is_shown_as_people_write_it_and_in_ascii_where_asked() -> None:
    assert [key_label(key) for key in ("question_mark", "enter", "ctrl+r", "G", "space")] == [
        "?",
        "↵",
        "^r",
        "G",
        "space",
    ]
    assert all(key_label(key, ascii_only=True).isascii() for action in ACTIONS for key in action.keys)


def test_a_user_may_write_keys_as_he_reads_them() -> None:
    user = {"tasks.follow": "F5", "app.freeze": "Ctrl+b, #", "tasks.filter": "é", "app.help": "del"}
    assert keymap(user, FILE) == {
        "tasks.follow": "f5",
        "app.freeze": "ctrl+b,number_sign",
        "tasks.filter": "é",
        "app.help": "delete",
    }


def test_two_actions_may_change_places() -> None:
    assert keymap({"tasks.follow": "p", "app.freeze": "f"}, FILE) == {"tasks.follow": "p", "app.freeze": "f"}


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ({"tasks.folow": "f"}, "keys.tasks.folow is not an action; did you mean 'tasks.follow'?"),
        ({"tasks.follow": "ctrl-f"}, "keys.tasks.follow names no key with 'ctrl-f'"),
        ({"tasks.follow": "meta?+f"}, "keys.tasks.follow names no key"),
        ({"tasks.follow": "p"}, "keys.tasks.follow takes 'p', which is app.freeze already"),
        ({"tasks.follow": "x", "app.freeze": "x"}, "takes 'x', which is tasks."),
        ({"verbs.requeue": "q"}, "keys.verbs.requeue takes 'q', which is app.leave already"),
        ({"app.quit_now": "x"}, "keys.app.quit_now cannot be moved"),
        ({"tasks.follow": "ctrl+c"}, "which is app.quit_now already"),
    ],
)
def test_a_wrong_key_says_which_line_of_which_file(user: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        keymap(user, FILE)
    assert says in caught.value.message
    assert str(FILE) in caught.value.message
    assert caught.value.help_text


def test_a_key_of_one_screen_is_free_on_another() -> None:
    assert keymap({"detail.find": "f"}, FILE) == {"detail.find": "f"}
