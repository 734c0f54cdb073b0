"""The registry of keys: complete, no key with two meanings on one screen, and the user's own keys are checked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from horsies.cli.tui import _SCREENS
from horsies.domain.errors import ConfigurationError
from horsies_tui.actions import ACTIONS, FIXED, TOGETHER, Action, Scope, action_of, key_label, key_name
from horsies_tui.activity.view import ActivityView
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


def test_ctrl_c_is_fixed_and_taken_before_any_widget_sees_it() -> None:
    quit_now = action_of("app.quit_now")
    assert quit_now is not None
    assert quit_now.keys == ("ctrl+c",)
    assert quit_now.binding.priority
    assert frozenset({"app.quit_now"}) == FIXED
