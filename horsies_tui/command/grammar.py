"""The grammar of the command line. A line is parsed once into one of these commands, or rejected with the remedy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.operations.verb import COMMAND_GROUPS
from horsies.operations.verbs import VERBS
from horsies.query import FilterError, Problem, parse, parse_activity, parse_schedules, parse_workers, parse_workflows
from horsies.query.problems import nearest
from horsies_tui.command.words import CommandWord, words
from horsies_tui.saved_filters import is_filter_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from horsies.domain.states import TargetKind
    from horsies.operations.verb import Option, Verb
    from horsies.query.language import Filter
    from horsies.query.values import Present

Format: TypeAlias = Literal["csv", "jsonl"]
Part: TypeAlias = Literal["arguments", "result", "traceback", "task"]

ReadFilter: TypeAlias = "Callable[[str, Present | None], Filter]"

SCREENS: Final[Mapping[str, ReadFilter | None]] = {
    "overview": None,
    "tasks": parse,
    "workers": parse_workers,
    "workflows": parse_workflows,
    "recovery": None,
    "schedules": parse_schedules,
    "activity": parse_activity,
}
"""Each screen and the parser of its filter; None for a screen without one."""
FORMATS: Final[Mapping[str, Format]] = {"csv": "csv", "jsonl": "jsonl", "json": "jsonl"}
PARTS: Final[Mapping[str, Part]] = {
    "arguments": "arguments",
    "args": "arguments",
    "result": "result",
    "error": "result",
    "traceback": "traceback",
    "task": "task",
}
ACTIONS: Final[Mapping[str, str]] = {
    "quit": "quit_now",
    "q": "quit_now",
    "help": "help",
    "errors": "errors",
    "refresh": "refresh",
    "freeze": "freeze",
    "utc": "utc",
    "context": "contexts",
    "palette": "command_palette",
}
"""Commands without arguments, and the action that each runs."""
GROUPS: Final[Mapping[str, tuple[TargetKind, ...]]] = {
    name: tuple(kind for kind, of in COMMAND_GROUPS.items() if of == name) for name in COMMAND_GROUPS.values()
}
_WITHOUT_GROUP: Final = tuple(kind for kind in COMMAND_GROUPS if kind != "session")
"""Kinds whose verbs need no group before them. A pid could be the end of an id, so `cancel` means tasks and workflows.
"""
BY_FILTER: Final[Mapping[TargetKind, ReadFilter]] = {"task": parse, "workflow": parse_workflows}
"""Kinds whose verbs accept a filter."""
_ELSEWHERE: Final = frozenset({"--yes", "-y", "--dry-run", "-n"})
"""Options of the shell command only: the console always shows a preview and always asks."""


class CommandError(HorsiesError):
    """Raised for a line that is not a command, with the cause, the place and a correction."""

    default_code = ErrorCode.CLI_INVALID_ARGS

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Show:
    """Go to a screen. A `filter` of None leaves its filter unchanged."""

    screen: str
    filter: str | None = None


@dataclass(frozen=True, slots=True)
class Go:
    """Open the task, workflow or worker with this id; the beginning or the end of an id is enough."""

    id: str


@dataclass(frozen=True, slots=True)
class Act:
    """Run a verb. `verbs` are the candidates; the targets or the screen decide between them. Without targets it applies
    to the selection, as its key does.
    """

    verbs: tuple[Verb, ...]
    targets: tuple[str, ...] = ()
    filter: str | None = None
    options: Mapping[str, str | bool] = field(default_factory=dict)
    reason: str = ""
    kinds: tuple[TargetKind, ...] = ()
    """The kinds that the line names, as in `queues pause`; empty for any kind."""

    @property
    def name(self) -> str:
        return self.verbs[0].name


@dataclass(frozen=True, slots=True)
class Recall:
    """Apply the saved filter of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Save:
    """Save the filter of the screen under this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete the saved filter of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class ExportRows:
    """Write all matching rows to a file; without a path, to a new file in the current directory."""

    format: Format
    path: str = ""


@dataclass(frozen=True, slots=True)
class Theme:
    name: str


@dataclass(frozen=True, slots=True)
class OpenPart:
    """Open a part of the task in a program: the user's editor or pager."""

    part: Part
    pager: bool = False


@dataclass(frozen=True, slots=True)
class RunAction:
    """Run an action of the application."""

    action: str


Command: TypeAlias = Show | Go | Act | Recall | Save | Forget | ExportRows | Theme | OpenPart | RunAction


_NAMES: Final[Mapping[str, tuple[Callable[[str], Command], str]]] = {
    "go": (Go, "the id of a task, a workflow or a worker"),
    "filter": (Recall, "the name of a saved filter"),
    "unsave": (Forget, "the name of a saved filter"),
    "theme": (Theme, "the name of a theme"),
}
"""Commands that are one word, with their classes."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """A command as the help and the completion show it."""

    name: str
    usage: str
    help: str


SYNTAX: Final = (
    *(Syntax(name, "[FILTER]" if read else "", f"Go to {name}.") for name, read in SCREENS.items()),
    Syntax("go", "ID", "Open a task, a workflow or a worker by its id, or by the beginning or end of it."),
    Syntax("filter", "NAME", "Apply a saved filter."),
    Syntax("save", "NAME", "Save the filter of this screen under a name."),
    Syntax("unsave", "NAME", "Delete a saved filter."),
    Syntax("export", "csv|jsonl [FILE]", "Write all rows that the filter shows to a file."),
    Syntax("editor", "arguments|result|traceback|task", "Open it in $VISUAL or $EDITOR, to read."),
    Syntax("pager", "arguments|result|traceback|task", "Open it in $PAGER."),
    Syntax("theme", "NAME", "Use another theme."),
    Syntax("context", "", "Go to another database of the config file."),
    Syntax("palette", "", "Run an action by its name."),
    Syntax("help", "", "List the keys of this screen."),
    Syntax("errors", "", "List the last errors."),
    Syntax("refresh", "", "Read again now."),
    Syntax("freeze", "", "Freeze this view, or make it live again."),
    Syntax("utc", "", "Show times in UTC, or in this machine's zone."),
    Syntax("quit", "", "Leave the console."),
)


def verbs_named(name: str, kinds: Iterable[TargetKind] = _WITHOUT_GROUP) -> tuple[Verb, ...]:
    return tuple(VERBS[kind, name] for kind in kinds if (kind, name) in VERBS)


def names() -> list[str]:
    """Return all words that can begin a line."""
    return [
        *dict.fromkeys(
            (*(one.name for one in SYNTAX), "q", *(name for kind, name in VERBS if kind in _WITHOUT_GROUP), *GROUPS)
        )
    ]


def options_of(verbs: Iterable[Verb]) -> dict[str, Option]:
    """Return the options of these verbs that a console supports, by each of their spellings."""
    found = (option for verb in verbs for option in verb.options)
    return {spelled: option for option in found for spelled in option.spelled}


def verbs_of(line: Sequence[CommandWord]) -> tuple[tuple[Verb, ...], int]:
    """Return the verbs that a line may mean and the number of words that name them; empty for another command."""
    if not line:
        return (), 0
    group = GROUPS.get(line[0].text)
    if group and len(line) > 1 and (meant := verbs_named(line[1].text, group)):
        return meant, 2
    return verbs_named(line[0].text), 1


def parse_command(text: str, present: Present | None = None) -> Command | None:
    """Return the command; None for an empty line. Raise CommandError with the mistake and a correction. `present` is
    for filters, see `parse`.
    """
    line = words(text)
    if not line:
        return None
    first, rest = line[0], line[1:]
    verbs, named = verbs_of(line)
    if verbs:
        return _act(verbs, line[named:], text, GROUPS[first.text] if named > 1 else (), present)
    if first.text in SCREENS:
        return _show(first, text, present)
    if first.text in ACTIONS:
        _refuse_more(rest, first)
        return RunAction(ACTIONS[first.text])
    _refuse_unclosed(rest)
    if first.text in _NAMES:
        make, what = _NAMES[first.text]
        return make(_one(rest, first, what))
    match first.text:
        case "save":
            return Save(_name(rest, first))
        case "editor" | "pager":
            part = _choice(rest, first, PARTS, "what to open: arguments, result, traceback or task")
            _refuse_more(rest[1:], first)
            return OpenPart(PARTS[part], pager=first.text == "pager")
        case "export":
            form = FORMATS[_choice(rest, first, FORMATS, "a format: csv or jsonl")]
            _refuse_more(rest[2:], first)
            return ExportRows(form, rest[1].text if len(rest) > 1 else "")
    if first.text in GROUPS:
        known = sorted({verb.name for kind in GROUPS[first.text] for verb in _verbs_for(kind)})
        raise _wrong(first.end, first.end, f"{first.text} needs a verb: {', '.join(known)}")
    raise _wrong(first.start, first.end, f"`{first.text}` is not a command", nearest(first.text, names()))


def _verbs_for(kind: TargetKind) -> list[Verb]:
    return [VERBS[of, name] for of, name in VERBS if of == kind]


def _show(first: CommandWord, text: str, present: Present | None) -> Show:
    """Parse a screen and its filter, which has a language and quotes of its own."""
    rest = text[first.end :].strip()
    read = SCREENS[first.text]
    if not rest:
        return Show(first.text)
    start = text.index(rest, first.end)
    if read is None:
        raise _wrong(start, len(text), f"{first.text} has no filter")
    _check_filter(lambda filter_text: read(filter_text, present), rest, start)
    return Show(first.text, rest)


def _check_filter(read: Callable[[str], Filter], text: str, start: int, *, quoted: CommandWord | None = None) -> None:
    """Raise CommandError for an invalid filter. If it is `quoted`, its places are not those of the line."""
    try:
        read(text)
    except FilterError as error:
        one = error.problems[0]
        if quoted is not None:
            raise _wrong(quoted.start, quoted.end, str(one)) from error
        raise _wrong(start + one.start, start + one.end, one.message, one.suggestion) from error


def _act(
    verbs: tuple[Verb, ...],
    rest: Sequence[CommandWord],
    text: str,
    kinds: tuple[TargetKind, ...],
    present: Present | None,
) -> Act:
    _refuse_unclosed(rest)
    known = options_of(verbs)
    targets: list[str] = []
    options: dict[str, str | bool] = {}
    filter_word: CommandWord | None = None
    reason, position = "", 0
    while position < len(rest):
        word = rest[position]
        position += 1
        if not word.text.startswith("-") or word.text == "-" or text[word.start] in "'\"":
            targets.append(word.text)
            continue
        spelled, equals, value = word.text.partition("=")
        option = known.get(spelled)
        _refuse_option(word, spelled, option, verbs)
        if option is not None and option.metavar is None:
            options[option.name] = True
            continue
        valued = word
        if not equals:
            if position == len(rest):
                raise _wrong(word.end, word.end, f"{spelled} needs a value")
            valued = rest[position]
            value, position = valued.text, position + 1
        if option is not None:
            options[option.name] = value
        elif spelled == "--reason":
            reason = value
        else:
            filter_word = CommandWord(value, valued.start, valued.end)
    meant = tuple(verb for verb in verbs if options.keys() <= {option.name for option in verb.options})
    if not meant:
        raise _wrong(0, len(text), f"{verbs[0].name} does not take {' and '.join(sorted(options))} together")
    if filter_word is None:
        return Act(meant, tuple(targets), None, options, reason, kinds)
    return Act(_by_filter(meant, filter_word, targets, present), (), filter_word.text, options, reason, kinds)


def _refuse_option(word: CommandWord, spelled: str, option: Option | None, verbs: Sequence[Verb]) -> None:
    if option is not None or spelled in ("--reason", "--filter", "-f"):
        return
    if spelled in _ELSEWHERE:
        raise _wrong(word.start, word.end, f"leave out {spelled}: the console always shows what would change and asks")
    known = [*options_of(verbs), "--reason", "--filter"]
    raise _wrong(word.start, word.end, f"{verbs[0].name} has no option {spelled}", nearest(spelled, known))


def _by_filter(
    verbs: Sequence[Verb], word: CommandWord, targets: Sequence[str], present: Present | None
) -> tuple[Verb, ...]:
    meant = tuple(verb for verb in verbs if verb.kind in BY_FILTER)
    if not meant:
        raise _wrong(word.start, word.end, f"{verbs[0].name} takes no filter; name its targets")
    if targets:
        raise _wrong(word.start, word.end, "give either ids or --filter, not both")
    if not word.text.strip():
        raise _wrong(
            word.start, word.end, "an empty filter matches everything; to select everything, write --filter '*'"
        )
    if len(meant) == 1:
        read = BY_FILTER[meant[0].kind]
        _check_filter(lambda text: read(text, present), word.text, word.start, quoted=word)
    return meant


def _refuse_unclosed(rest: Sequence[CommandWord]) -> None:
    for word in rest:
        if word.unclosed is not None:
            raise _wrong(word.unclosed, word.unclosed + 1, "this quote is never closed")


def _refuse_more(rest: Sequence[CommandWord], first: CommandWord) -> None:
    if rest:
        raise _wrong(rest[0].start, rest[-1].end, f"{first.text} takes no further arguments")


def _one(rest: Sequence[CommandWord], first: CommandWord, what: str) -> str:
    if not rest or not rest[0].text:
        raise _wrong(first.end, first.end, f"{first.text} needs {what}")
    _refuse_more(rest[1:], first)
    return rest[0].text


def _name(rest: Sequence[CommandWord], first: CommandWord) -> str:
    name = _one(rest, first, "a name for the filter")
    if not is_filter_name(name):
        raise _wrong(rest[0].start, rest[0].end, "a name may have only letters, digits, - and _")
    return name


def _choice(rest: Sequence[CommandWord], first: CommandWord, known: Mapping[str, object], what: str) -> str:
    if not rest:
        raise _wrong(first.end, first.end, f"{first.text} needs {what}")
    word = rest[0]
    if word.text not in known:
        raise _wrong(word.start, word.end, f"{first.text} needs {what}", nearest(word.text, known))
    return word.text


def _wrong(start: int, end: int, message: str, suggestion: str | None = None) -> CommandError:
    return CommandError(Problem(start, end, message, suggestion))


def without_secrets(text: str) -> str:
    """Return the line for the history, without reasons and values; empty if it must not be kept."""
    line = words(text)
    verbs, named = verbs_of(line)
    if verbs:
        valued = {"--reason", *(spelled for spelled, option in options_of(verbs).items() if option.metavar)}
        kept, drop = list[str](), False
        for word in line[named:]:
            spelled = word.text.partition("=")[0]
            if drop or spelled in valued:
                drop = not drop and "=" not in word.text
                continue
            kept.append(text[word.start : word.end])
        line_kept = " ".join([*(word.text for word in line[:named]), *kept])
        return "" if "args:" in line_kept else line_kept
    # A search in arguments contains values of them.
    return "" if "args:" in text else text.strip()


def kind_of(screen: str) -> TargetKind | None:
    """Return the kind of the rows of a screen."""
    return cast("TargetKind", screen.removesuffix("s")) if screen in GROUPS else None
