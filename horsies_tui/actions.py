"""The registry of the console's keys: bindings, footer, `?` help, palette and the user's own keys are made from it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from textual.binding import Binding
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, format_key

from horsies.operations.verbs import verbs_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.binding import BindingType
    from textual.screen import Screen

    from horsies.domain.states import TargetKind
    from horsies.operations.verb import Verb
    from horsies_tui.look.glyphs import Glyphs


class Scope(StrEnum):
    """The part of the console in which a key is valid. Among scopes that are active together, a key has one meaning."""

    APP = "app"
    REPLAY = "replay"
    TABLE = "table"
    BESIDE = "beside"
    OVERVIEW = "overview"
    CHART = "chart"
    TASKS = "tasks"
    DETAIL = "detail"
    STORY = "story"
    WORKERS = "workers"
    RECOVERY = "recovery"
    WORKFLOWS = "workflows"
    WORKFLOW = "workflow"
    GRAPH = "graph"
    FLOWS = "flows"
    SCHEDULES = "schedules"
    ACTIVITY = "activity"
    VERBS = "verbs"
    SHEET = "sheet"
    PREVIEW = "preview"
    ARGUMENTS = "arguments"
    OUTCOME = "outcome"
    PICKER = "picker"
    FILTER = "filter"
    COMMAND = "command"
    MENU = "menu"


@dataclass(frozen=True, slots=True)
class Action:
    """One action of the operator. `id`, its name in `[keys]`, is `scope.name`; `action_name` is the method called.

    Capital letters write (and open a preview first), except `G` and `N`, which have their usual pager meaning, and `Y`.
    """

    id: str
    keys: tuple[str, ...]
    label: str
    help: str
    writes: bool = False
    palette: bool = True
    footer: bool = False
    run: str = ""
    """What Textual calls, if it is not the method named after the id."""
    record: Verb | None = None
    """The verb that it applies."""

    @property
    def scope(self) -> Scope:
        return Scope(self.id.partition(".")[0])

    @property
    def binding(self) -> Binding:
        return Binding(
            ",".join(self.keys),
            self.run or self.id.partition(".")[2],
            self.label,
            id=self.id,
            show=self.footer,
            tooltip=self.help,
            priority=self.id in FIXED,
        )


FIXED: Final = frozenset({"app.quit_now"})
"""These keys cannot be remapped and no widget takes them, so that the console can always be left."""

TOGETHER: Final = (
    (Scope.APP, Scope.TABLE, Scope.OVERVIEW),
    (Scope.APP, Scope.CHART, Scope.OVERVIEW),
    (Scope.APP, Scope.TABLE, Scope.BESIDE, Scope.TASKS, Scope.VERBS),
    (Scope.APP, Scope.DETAIL, Scope.STORY, Scope.VERBS),
    (Scope.APP, Scope.TABLE, Scope.WORKERS, Scope.VERBS),
    (Scope.APP, Scope.TABLE, Scope.BESIDE, Scope.RECOVERY, Scope.VERBS),
    (Scope.APP, Scope.TABLE, Scope.BESIDE, Scope.WORKFLOWS, Scope.FLOWS),
    (Scope.APP, Scope.WORKFLOW, Scope.GRAPH, Scope.FLOWS),
    (Scope.APP, Scope.WORKFLOW, Scope.STORY, Scope.FLOWS),
    (Scope.APP, Scope.TABLE, Scope.SCHEDULES),
    (Scope.APP, Scope.STORY, Scope.SCHEDULES),
    (Scope.APP, Scope.TABLE, Scope.ACTIVITY),
    (Scope.REPLAY,),
    (Scope.SHEET, Scope.PREVIEW),
    (Scope.SHEET, Scope.ARGUMENTS),
    (Scope.SHEET, Scope.TABLE, Scope.OUTCOME),
    (Scope.SHEET, Scope.MENU),
    (Scope.PICKER, Scope.TABLE),
    (Scope.FILTER,),
    (Scope.COMMAND,),
)
"""Sets of scopes that are active at the same time on some screen."""

_RECOVERED: Final[tuple[TargetKind, ...]] = ("worker", "workflow", "queue", "schedule", "task")


def _keys_of(scope: Scope, verbs: Iterable[Verb]) -> tuple[Action, ...]:
    """One for each verb that has a key. The name in the id has an underscore, as a method."""
    return tuple(
        Action(
            f"{scope}.{verb.name.replace('-', '_')}",
            (verb.key,),
            verb.label or verb.name.replace("-", " "),
            verb.hint,
            writes=True,
            footer=verb.footer,
            run=f"verb('{verb.name}')",
            record=verb,
        )
        for verb in verbs
        if verb.key
    )


ACTIONS: Final[tuple[Action, ...]] = (
    # The footer and the help keep this order: a replay, the row, what can be done with it, the screen, the frame.
    Action("replay.pause", ("p",), "pause", "Pause or continue the recording.", footer=True),
    Action("replay.back", ("less_than_sign",), "10s back", "Go back ten seconds.", footer=True, run="seek(-10)"),
    Action("replay.on", ("greater_than_sign",), "10s on", "Go forward ten seconds.", footer=True, run="seek(10)"),
    Action("replay.far_back", ("left_parenthesis",), "2min back", "Go back two minutes.", run="seek(-120)"),
    Action("replay.far_on", ("right_parenthesis",), "2min on", "Go forward two minutes.", run="seek(120)"),
    Action("replay.slower", ("comma",), "slower", "Replay at half the speed.", footer=True, run="speed(-1)"),
    Action("replay.faster", ("full_stop",), "faster", "Replay at twice the speed.", footer=True, run="speed(1)"),
    Action("table.open", ("enter",), "open", "Open the row under the cursor.", footer=True, palette=False),
    Action("table.mark", ("space",), "mark", "Mark the row; verbs act on the marked rows.", footer=True, palette=False),
    Action("table.mark_range", ("m",), "range", "Mark from the last marked row to the cursor."),
    Action("table.mark_shown", ("a",), "mark all", "Mark every row that is loaded and shown."),
    Action("table.clear_marks", ("ctrl+backslash",), "unmark", "Clear all marks."),
    Action("table.up", ("up", "k"), "up", "Move one row up.", palette=False),
    Action("table.down", ("down", "j"), "down", "Move one row down.", palette=False),
    Action("table.page_up", ("pageup", "ctrl+u"), "page up", "Move one page up.", palette=False),
    Action("table.page_down", ("pagedown", "ctrl+d"), "page down", "Move one page down.", palette=False),
    Action("table.first", ("home", "g"), "first", "Go to the first row.", palette=False),
    Action("table.last", ("end", "G"), "last", "Go to the last row.", palette=False),
    Action("beside.story", ("v",), "story", "Show or hide the row's story beside the list.", footer=True),
    Action("beside.into_story", ("tab",), "into story", "Go to the story beside the list; esc returns."),
    Action("beside.story_up", ("shift+up",), "story up", "Scroll the story up by half a page.", palette=False),
    Action("beside.story_down", ("shift+down",), "story down", "Scroll the story down by half a page.", palette=False),
    Action("chart.open", ("enter",), "open", "Show the tasks behind the chart's numbers.", footer=True, palette=False),
    Action("chart.up", ("up", "k"), "up", "Go to the previous chart.", palette=False),
    Action("chart.down", ("down", "j"), "down", "Go to the next chart.", palette=False),
    Action("overview.left", ("left", "h"), "left", "Go to the previous number, or time in a chart.", palette=False),
    Action("overview.right", ("right", "l"), "right", "Go to the next number, or time in a chart.", palette=False),
    *_keys_of(Scope.OVERVIEW, verbs_for("queue")),
    Action("overview.next_part", ("tab",), "next part", "Go to the next part: queues, alerts or charts.", footer=True),
    Action("overview.previous_part", ("shift+tab",), "part before", "Go to the previous part.", palette=False),
    Action("overview.shorter", ("left_square_bracket",), "shorter", "Shorten the time of the charts.", footer=True),
    Action("overview.longer", ("right_square_bracket",), "longer", "Lengthen the time of the charts.", footer=True),
    *_keys_of(Scope.VERBS, (verb for verb in verbs_for("task") if not verb.on_recovery)),
    *_keys_of(Scope.VERBS, verbs_for("operation")),
    Action("verbs.outcome", ("o",), "outcome", "Show what the last operation did, row by row.", run="verb('outcome')"),
    *_keys_of(Scope.RECOVERY, (verb for kind in _RECOVERED for verb in verbs_for(kind) if verb.on_recovery)),
    *_keys_of(Scope.FLOWS, verbs_for("workflow", "node")),
    Action("workflows.filter", ("slash",), "filter", "Filter the workflows.", footer=True),
    Action("workflows.sort", ("s",), "sort", "Change the order.", footer=True),
    Action("workflows.columns", ("c",), "columns", "Choose the columns."),
    Action("workflows.states", ("t",), "states", "Switch states on and off."),
    Action("workflows.copy", ("y",), "copy", "Copy the row's id."),
    Action("graph.open", ("enter",), "open", "Open its task or sub-workflow.", palette=False, footer=True),
    Action("graph.up", ("up", "k"), "up", "Go to the node above.", palette=False),
    Action("graph.down", ("down", "j"), "down", "Go to the node below.", palette=False),
    Action("graph.left", ("left", "h"), "left", "Go to the node that it waits for.", palette=False),
    Action("graph.right", ("right", "l"), "right", "Go to the node that waits for it.", palette=False),
    Action("graph.page_up", ("pageup", "ctrl+u"), "page up", "Go up several nodes.", palette=False),
    Action("graph.page_down", ("pagedown", "ctrl+d"), "page down", "Go down several nodes.", palette=False),
    Action("graph.first", ("home",), "first", "Go to the first node.", palette=False),
    Action("graph.last", ("end", "G"), "last", "Go to the last node.", palette=False),
    Action("graph.next_trouble", ("n",), "next problem", "Go to the next node that failed, runs or waits to."),
    Action("graph.last_trouble", ("N",), "problem before", "Go to the previous one."),
    Action("graph.larger", ("plus", "equals_sign"), "larger", "Draw nodes larger.", footer=True),
    Action("graph.smaller", ("minus",), "smaller", "Draw nodes smaller; the smallest is a map."),
    Action("graph.fit", ("0",), "fit", "Fit the whole graph; again: readable nodes."),
    Action("graph.timeline", ("g",), "timeline", "Show the nodes on a time axis, or the graph again.", footer=True),
    Action("graph.story", ("tab",), "its story", "Go to the node's story; esc returns.", footer=True),
    Action("workflow.copy", ("y",), "copy", "Copy the id of the node's task, or of the workflow."),
    Action("workflow.previous_row", ("left_square_bracket",), "prev", "Show the workflow above."),
    Action("workflow.next_row", ("right_square_bracket",), "next", "Show the workflow below."),
    *_keys_of(Scope.WORKERS, verbs_for("worker")),
    Action("workers.filter", ("slash",), "filter", "Filter the workers.", footer=True),
    Action("workers.sort", ("s",), "sort", "Change the order.", footer=True),
    Action("workers.group", ("e",), "hosts", "Group by host, or show each worker again.", footer=True),
    Action("workers.other_part", ("tab",), "its tasks", "Go to the tasks that it holds, or back."),
    Action("workers.shorter", ("left_square_bracket",), "shorter", "Plot less of the past."),
    Action("workers.longer", ("right_square_bracket",), "longer", "Plot more of the past."),
    Action("workers.earlier", ("left",), "earlier", "Go to the previous time in the charts.", palette=False),
    Action("workers.later", ("right",), "later", "Go to the next time in the charts.", palette=False),
    Action("workers.tasks", ("l",), "all its tasks", "List all its tasks, also ended ones."),
    Action("workers.everyone", ("w",), "older ones", "Also show workers that ended over an hour ago."),
    Action("workers.columns", ("c",), "columns", "Choose the columns."),
    Action("workers.copy", ("y",), "copy", "Copy the id of the worker, or of its task."),
    *_keys_of(Scope.SCHEDULES, verbs_for("schedule")),
    Action("schedules.filter", ("slash",), "filter", "Filter the schedules.", footer=True),
    Action("schedules.sort", ("s",), "sort", "Change the order.", footer=True),
    Action("schedules.columns", ("c",), "columns", "Choose the columns."),
    Action("schedules.previous_row", ("left_square_bracket",), "prev", "Show the schedule above.", footer=True),
    Action("schedules.next_row", ("right_square_bracket",), "next", "Show the schedule below.", footer=True),
    Action("schedules.copy", ("y",), "copy", "Copy the name of the schedule, or the id of the run."),
    *(replace(action, footer=True) for action in _keys_of(Scope.ACTIVITY, verbs_for("operation"))),
    Action("activity.filter", ("slash",), "filter", "Filter by operator, verb, kind or time.", footer=True),
    Action("activity.night", ("n",), "last night", "Show yesterday 18:00 until today 8:00.", footer=True),
    Action("activity.kinds", ("t",), "kinds", "Show only operations, only changes, or both.", footer=True),
    Action("activity.tasks", ("l",), "its tasks", "List the tasks of the line.", footer=True),
    Action("activity.columns", ("c",), "columns", "Choose the columns."),
    Action("activity.copy", ("y",), "copy", "Copy the command of the operation."),
    Action("tasks.filter", ("slash",), "filter", "Filter the tasks.", footer=True),
    Action("tasks.follow", ("f",), "follow", "Keep the newest in view.", footer=True),
    Action("tasks.sort", ("s",), "sort", "Change the order.", footer=True),
    Action("tasks.next_group", ("n",), "next grouping", "Group by error code, by name, and so on.", footer=True),
    Action("tasks.shorter", ("left_square_bracket",), "shorter", "Shorten the time of the statistics.", footer=True),
    Action("tasks.longer", ("right_square_bracket",), "longer", "Lengthen the time of the statistics.", footer=True),
    Action("tasks.group", ("e",), "group", "Group by error code or name, or show statistics.", footer=True),
    Action("tasks.states", ("t",), "states", "Switch states on and off."),
    Action("tasks.columns", ("c",), "columns", "Choose the columns."),
    Action("tasks.jump", ("ctrl+g",), "go to time", "Jump to a moment: 14:05, 2h ago."),
    Action("tasks.mark_matching", ("asterisk",), "all that match", "Select all that match the filter, shown or not."),
    Action("tasks.copy", ("y",), "copy", "Copy the row's id."),
    Action("filter.apply", ("enter",), "apply", "Show what matches.", palette=False, footer=True),
    Action("filter.complete", ("tab",), "complete", "Insert the selected completion.", palette=False, footer=True),
    Action("filter.below", ("down",), "next offer", "Go to the next completion.", palette=False, footer=True),
    Action("filter.above", ("up",), "earlier", "Show earlier completions and filters.", palette=False),
    Action("filter.leave", ("escape",), "leave", "Return to the list and keep its filter.", palette=False, footer=True),
    Action("command.run", ("enter",), "run", "Run the command.", palette=False, footer=True),
    Action("command.complete", ("tab",), "complete", "Insert the selected completion.", palette=False, footer=True),
    Action("command.below", ("down",), "next offer", "Go to the next completion.", palette=False, footer=True),
    Action("command.above", ("up",), "earlier", "Show earlier completions and commands.", palette=False, footer=True),
    Action("command.leave", ("escape",), "leave", "Return to the screen.", palette=False, footer=True),
    Action("story.open", ("enter",), "fold/follow", "Fold or unfold; follow a link.", palette=False, footer=True),
    Action("story.up", ("up", "k"), "up", "Move one line up.", palette=False),
    Action("story.down", ("down", "j"), "down", "Move one line down.", palette=False),
    Action("story.page_up", ("pageup", "ctrl+u"), "page up", "Move one page up.", palette=False),
    Action("story.page_down", ("pagedown", "ctrl+d"), "page down", "Move one page down.", palette=False),
    Action("story.first", ("home", "g"), "first", "Go to the first line.", palette=False),
    Action("story.last", ("end", "G"), "last", "Go to the last line.", palette=False),
    Action("story.fold", ("left", "h"), "fold", "Fold, or go to its parent, or left.", palette=False),
    Action("story.unfold", ("right", "l"), "unfold", "Unfold, or go right.", palette=False),
    Action("story.next_part", ("tab",), "next part", "Go to the next part of the story.", palette=False),
    Action("story.previous_part", ("shift+tab",), "part before", "Go to the previous part.", palette=False),
    Action("detail.find", ("slash",), "search", "Search in arguments, result and traceback.", footer=True),
    Action("detail.next_match", ("n",), "next match", "Go to the next match."),
    Action("detail.previous_match", ("N",), "previous match", "Go to the previous match."),
    Action("detail.previous_row", ("left_square_bracket",), "prev", "Show the task above.", footer=True),
    Action("detail.next_row", ("right_square_bracket",), "next", "Show the task below.", footer=True),
    Action(
        "detail.stack",
        ("S",),
        "stack",
        "Show what a running task is doing: its Python stack.",
        writes=True,
        footer=True,
    ),
    Action("detail.output", ("O",), "output", "Show live output of a running task.", writes=True, footer=True),
    Action("detail.copy", ("y",), "copy json", "Copy the whole task as JSON.", footer=True),
    Action("detail.editor", ("e",), "editor", "Open arguments, result or traceback in $EDITOR."),
    Action("detail.copy_line", ("Y",), "copy value", "Copy the value under the cursor."),
    Action("sheet.close", ("escape", "q"), "close", "Close without doing anything.", palette=False, footer=True),
    Action("menu.take", ("enter",), "take", "Choose the selected line.", palette=False),
    Action("menu.switch", ("space",), "switch", "Switch the line on or off.", palette=False),
    Action("menu.down", ("down", "j"), "down", "Go to the next line.", palette=False),
    Action("menu.up", ("up", "k"), "up", "Go to the previous line.", palette=False),
    # No letters: the reason field has the focus, and letters are typed into it.
    Action("preview.confirm", ("ctrl+y",), "do it", "Apply it, or go to its confirmation.", palette=False),
    Action("preview.fresh", ("ctrl+n",), "reset retries", "Grant all retries of its policy again.", palette=False),
    Action("preview.rows", ("ctrl+l",), "list rows", "List what would happen to each row.", palette=False),
    Action("preview.copy", ("y",), "copy", "Copy the command that does the same, whole.", palette=False),
    Action(
        "arguments.send", ("ctrl+s",), "check", "Check the arguments, and preview what would be sent.", palette=False
    ),
    Action("outcome.undo", ("z",), "undo", "Undo this operation, as far as possible.", True, palette=False),
    Action("picker.close", ("escape",), "close", "Return to the database that is open.", palette=False, footer=True),
    Action("picker.retry", ("ctrl+r", "r"), "retry", "Try to connect now.", footer=True, run="app.refresh"),
    Action("picker.quit", ("q",), "quit", "Close; where no database is open, leave the console.", palette=False),
    Action("app.overview", ("1",), "overview", "Show the state of the cluster.", run="show('overview')"),
    Action("app.tasks", ("2",), "tasks", "Show the task list, live.", run="show('tasks')"),
    Action("app.workers", ("3",), "workers", "Show the workers and what they do.", run="show('workers')"),
    Action("app.workflows", ("4",), "workflows", "Show workflows and their progress.", run="show('workflows')"),
    Action("app.recovery", ("5",), "recovery", "Show what is stuck, and why.", run="show('recovery')"),
    Action("app.schedules", ("6",), "schedules", "Show the schedules and their runs.", run="show('schedules')"),
    Action("app.activity", ("7",), "activity", "Show operations and changes.", run="show('activity')"),
    Action("app.command", ("colon",), "command", "Type a command: :tasks queue:mail, :go 7f3a.", palette=False),
    Action("app.palette", ("ctrl+p",), "palette", "Run an action by its name.", palette=False, run="command_palette"),
    Action("app.export", ("ctrl+e",), "export", "Write all rows that the filter shows to a CSV file."),
    Action("app.save_filter", ("ctrl+s",), "save filter", "Save the filter of this screen under a name."),
    Action("app.refresh", ("ctrl+r",), "refresh", "Read again now; when offline, try to connect."),
    Action("app.end_blocker", ("Q",), "end blocker", "End the database session that blocks ours.", writes=True),
    Action("app.freeze", ("p",), "freeze", "Freeze this view, or make it live again."),
    Action("app.contexts", ("at",), "context", "List the databases and their verdicts; go to one."),
    Action("app.errors", ("exclamation_mark",), "errors", "List the last errors."),
    Action("app.utc", ("u",), "UTC/local", "Show times in UTC, or in this machine's zone."),
    Action("app.theme", ("ctrl+t",), "theme", "Choose a theme: ours, the terminal's, Textual's."),
    Action("app.suspend", ("ctrl+z",), "suspend", "Suspend the console; `fg` returns.", run="suspend_process"),
    Action("app.back", ("escape",), "back", "Go one level back; never quits.", palette=False),
    Action("app.leave", ("q",), "quit", "Go back, or quit from a tab."),
    Action("app.quit_now", ("ctrl+c",), "quit now", "Quit immediately.", palette=False),
    Action("app.help", ("question_mark",), "help", "List the keys of this screen.", footer=True),
)

_BY_ID: Final = {action.id: action for action in ACTIONS}


def bindings(*scopes: Scope) -> list[BindingType]:
    """The BINDINGS of a widget that handles these scopes."""
    return [action.binding for action in ACTIONS if action.scope in scopes]


def bindings_of(*ids: str) -> list[BindingType]:
    """The bindings of single actions, for a widget that handles only a part of a scope."""
    return [_BY_ID[action_id].binding for action_id in ids]


def action_of(binding_id: str | None) -> Action | None:
    return _BY_ID.get(binding_id or "")


def live_actions(screen: Screen[object]) -> list[tuple[Action, list[str]]]:
    """The actions that work on this screen now, in the registry's order, each with the user's keys for it."""
    keys: dict[str, list[str]] = {}
    for key, active in screen.active_bindings.items():
        keys.setdefault(active.binding.id or "", []).append(key)
    return [(action, keys[action.id]) for action in ACTIONS if action.id in keys]


_GLYPHS: Final = {"enter": "↵", "up": "↑", "down": "↓", "left": "←", "right": "→"}
_PLAIN: Final = {"enter": "enter", "escape": "esc", "pageup": "pgup", "pagedown": "pgdn", "space": "space"}
_MODIFIERS: Final = frozenset({"ctrl", "shift", "alt", "super", "hyper", "meta"})
_NAMED: Final = frozenset(key.value for key in Keys)
_OTHER_NAMES: Final = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete"}


def key_label(key: str, *, ascii_only: bool = False) -> str:
    """Return the label of a key: `?` for question_mark, `↵` for enter, `^r` for ctrl+r."""
    modifiers, plus, last = key.rpartition("+")
    name = _PLAIN.get(last) or format_key(last)
    if ascii_only and not name.isascii():
        name = last
    elif not ascii_only:
        name = _GLYPHS.get(last, name)
    return (modifiers + plus).replace("ctrl+", "^") + name


def key_name(text: str) -> str | None:
    """Textual's name for a key that the user wrote as `/`, `F5` or `Ctrl+f`; None if there is no such key."""
    *modifiers, last = text.split("+") if len(text) > 1 else [text]
    last = last if len(last) == 1 else _OTHER_NAMES.get(last.lower(), last.lower())
    modifiers = [modifier.lower() for modifier in modifiers]
    if not _MODIFIERS.issuperset(modifiers):
        return None
    if len(last) == 1:
        last = _name_of_character(last)
    elif last not in _NAMED and format_key(last) == last:
        return None
    return "+".join([*modifiers, last])


def _name_of_character(character: str) -> str:
    if character.isalnum():
        return character
    name = unicodedata.name(character, character).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


def key_for(action_id: str, screen: Screen[Any], glyphs: Glyphs) -> str:
    """The first key of this action on this screen; if it has none here, its default key."""
    usual = action_of(action_id)
    keys = next((keys for action, keys in live_actions(screen) if action.id == action_id), None)
    return key_label((keys or (usual.keys if usual else [""]))[0], ascii_only=glyphs.ascii)


def hint(action_id: str, screen: Screen[Any], glyphs: Glyphs) -> str:
    """`R requeue`."""
    action = action_of(action_id)
    return f"{key_for(action_id, screen, glyphs)} {action.label if action else action_id}"
