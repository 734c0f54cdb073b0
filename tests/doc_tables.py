"""The parts of the pages that are made from the code: settings, options, verbs, keys, filters, transitions.

They stand between `<!-- made: name -->` and `<!-- end -->`. `python tests/doc_tables.py` makes them anew.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, get_args, get_type_hints

from doc_pages import DOCS, ROOT, all_commands

from horsies.config.app import AppConfig, CustomQueueConfig, PostgresConfig, WorkerResilienceConfig
from horsies.config.recovery import RecoveryConfig
from horsies.config.retry_policy import RetryPolicy
from horsies.config.schedule import ScheduleConfig, TaskSchedule, WorkflowSchedule
from horsies.domain.states import TASK_TRANSITIONS
from horsies.operations.verb import COMMAND_GROUPS, Verb
from horsies.operations.verbs import verbs_for
from horsies.query import TASKS
from horsies.query.other_keys import ACTIVITY, SCHEDULES, WORKERS, WORKFLOWS
from horsies.run.settings import WorkerSettings
from horsies.task.definition import TaskOptions
from horsies.task.options import TaskSendOptions
from horsies.workflow.nodes import MapNode, SubWorkflowNode, TaskNode
from horsies_tui.actions import ACTIONS, Scope, key_label
from horsies_tui.command.grammar import SYNTAX

SETTINGS = (
    AppConfig,
    PostgresConfig,
    CustomQueueConfig,
    RecoveryConfig,
    WorkerResilienceConfig,
    RetryPolicy,
    ScheduleConfig,
    TaskSchedule,
    WorkflowSchedule,
    TaskOptions,
    TaskSendOptions,
    TaskNode,
    SubWorkflowNode,
    MapNode,
    WorkerSettings,
)
LANGUAGES = {"tasks": TASKS, "workflows": WORKFLOWS, "workers": WORKERS, "schedules": SCHEDULES, "activity": ACTIVITY}
_NO_SETTINGS: Final = frozenset({"locator", "platform", "index", "number"})
"""Fields that users do not write."""
COMMON_FROM = 10
"""An option with the same help in so many commands is described once for all."""
_MADE = re.compile(r"(<!-- made: ([\w: -]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def made(text: str) -> str:
    """A page with its parts made anew."""
    return _MADE.sub(lambda found: f"{found[1]}\n{part(found[2])}\n\n{found[3]}", text)


def part(name: str) -> str:
    kind, _, of = name.partition(": ")
    return "\n".join(_PARTS[kind](of))


def made_pages() -> dict[str, str]:
    """All pages that have made parts, by their path."""
    pages = {path: path.read_text("utf-8") for path in (ROOT / "README.md", *DOCS.rglob("*.md"))}
    return {path.relative_to(ROOT).as_posix(): text for path, text in pages.items() if _MADE.search(text)}


def table(*head: str, rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Without columns that are empty in all rows. `a|b` is written `a/b`: forges and mkdocs escape bars differently."""
    lines = [tuple(cell.replace("|", "/") for cell in row) for row in rows]
    kept = [place for place in range(len(head)) if any(line[place] for line in lines)]
    yield f"| {' | '.join(head[place] for place in kept)} |"
    yield "|" + "---|" * len(kept)
    for line in lines:
        yield f"| {' | '.join(line[place] for place in kept)} |"


def _settings(of: str) -> Iterator[str]:
    config = next(config for config in SETTINGS if config.__name__ == of)
    yield from table("setting", "default", "bounds", "meaning", rows=_rows_of(config))


def _rows_of(config: type[Any]) -> Iterator[tuple[str, ...]]:
    words = _docstrings(config)
    if config in (SubWorkflowNode, MapNode):
        words = _docstrings(TaskNode) | words  # what is said there once holds for all nodes
    for name, default, bounds in _fields(config):
        if name not in _NO_SETTINGS:
            assert name in words, f"{config.__name__}.{name} has no docstring"
            yield f"`{name}`", f"`{default}`" if default else "", bounds, words[name]


def _fields(config: type[Any]) -> Iterator[tuple[str, str, str]]:
    """Name, default and bounds of each setting."""
    if is_dataclass(config):
        for field in fields(config):
            default = field.default if field.default is not MISSING else None if field.default_factory else ...
            yield field.name, _shown(default, field.default is not MISSING), ""
    elif hasattr(config, "model_fields"):
        for name, field in config.model_fields.items():
            default = field.get_default(call_default_factory=True)
            low, high = (
                next((f"{getattr(bound, side):,}" for bound in field.metadata if hasattr(bound, side)), "")
                for side in ("ge", "le")
            )
            bounds = f"{low} to {high}" if high else f"from {low}" if low else ""
            yield name, _shown(default, not field.is_required()), bounds
    else:
        for name in config.__annotations__:
            yield name, "", ""


def _shown(default: object, has_one: bool) -> str:
    if not has_one or not isinstance(default, bool | int | float | str | list | tuple | None):
        return ""
    return f"{default:,}" if type(default) is int else repr(getattr(default, "value", default))


def _docstrings(config: type[Any]) -> dict[str, str]:
    """The docstrings of the fields, those of base classes too."""
    found: dict[str, str] = {}
    for each in reversed(config.__mro__):
        if each.__module__.startswith("horsies"):
            (described,) = ast.parse(inspect.getsource(each)).body
            assert isinstance(described, ast.ClassDef)
            for field, text in zip(described.body, described.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    found[ast.unparse(field.target)] = " ".join(str(ast.literal_eval(text.value)).split())
    return found


@cache
def _options() -> dict[tuple[str, ...], list[tuple[str, str, str]]]:
    """Of each command its options: spelling, default, help."""
    return {path: list(_options_of(command)) for path, command in all_commands()}


def _options_of(command: Any) -> Iterator[tuple[str, str, str]]:
    types = get_type_hints(command.callback)
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            yield _option(parameter, types[parameter.name])


def _option(parameter: Any, its_type: Any) -> tuple[str, str, str]:
    """`its_type` is X, or X | None."""
    kinds = [one for one in get_args(its_type) or (its_type,) if isinstance(one, type)]
    value = parameter.metavar or ("NUMBER" if kinds[0] in (int, float) else "TEXT")
    if issubclass(kinds[0], Enum):
        value = "|".join(str(one.value) for one in kinds[0])
    first, *others = parameter.opts
    spelled = [f"`{first}`" if parameter.is_flag else f"`{first} {value}`", *(f"`{flag}`" for flag in others)]
    default = getattr(parameter.default, "value", parameter.default)
    if callable(default) or default is None or default is False or default in ((), []):
        default = parameter.show_default if isinstance(parameter.show_default, str) else ""
    words = " ".join((parameter.help or "").split())
    return ", ".join(spelled), f"`{default}`" if default != "" else "", words


def _commons() -> dict[tuple[str, str, str], int]:
    count = Counter(option for options in _options().values() for option in options)
    return {option: often for option, often in count.items() if often >= COMMON_FROM}


def _common_options(_of: str) -> Iterator[str]:
    yield from table("option", "default", "meaning", rows=_commons())


def _command_options(_of: str) -> Iterator[str]:
    commons = _commons()
    for path, command in all_commands():
        own = [option for option in _options()[path] if option not in commons]
        shared = [option[0].split("`")[1].split()[0] for option in _options()[path] if option in commons]
        arguments = " ".join(_argument(one) for one in command.params if one.param_type_name == "argument")
        yield f"### horsies {' '.join(path)}"
        yield f"\n`horsies {' '.join(path)}{' ' + arguments if arguments else ''}`"
        yield from ("", inspect.cleandoc(command.help or ""), "")
        yield from (inspect.cleandoc(command.epilog), "") if command.epilog else ()
        if own:
            yield from (*table("option", "default", "meaning", rows=own), "")
        if shared:
            yield f"Also {', '.join(f'`{flag}`' for flag in shared)}.\n"


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name.upper()).strip("[]")
    name = f"{name}…" if parameter.nargs == -1 and not name.endswith(("...", "…")) else name
    return name if parameter.required else f"[{name}]"


def _verbs(_of: str) -> Iterator[str]:
    rows = [_verb(verb) for kind in COMMAND_GROUPS for verb in verbs_for(kind)]
    yield from table("command", "key", "what it does", "undo", rows=rows)


def _verb(verb: Verb) -> tuple[str, ...]:
    undo = "yes" if verb.has_way_back else "no"
    command = f"`horsies {COMMAND_GROUPS[verb.kind]} {verb.name}`"
    return command, f"`{verb.key}`" if verb.key else "", verb.help.partition("\n")[0], undo


def _keys(of: str) -> Iterator[str]:
    scopes = [Scope(name) for name in of.split()]
    rows = [
        (" ".join(map(_key, action.keys)), action.help, "yes" if action.writes else "", f"`{action.id}`")
        for scope in scopes
        for action in ACTIONS
        if action.scope is scope
    ]
    yield from table("key", "what it does", "writes", "name in `[keys]`", rows=rows)


def _key(key: str) -> str:
    return f"`{key_label(key).replace('^', 'ctrl+')}`"


def _commands(_of: str) -> Iterator[str]:
    rows = ((f"`:{one.name}{' ' + one.usage if one.usage else ''}`", one.help) for one in SYNTAX)
    yield from table("command", "what it does", rows=rows)


def _filter(of: str) -> Iterator[str]:
    rows = ((f"`{key.name}:`", key.help, f"`{key.example}`") for key in LANGUAGES[of].keys.values())
    yield from table("key", "what it asks for", "example", rows=rows)


def _transitions(_of: str) -> Iterator[str]:
    rows = (
        (str(one.source or ""), one.verb.value, str(one.target), ", ".join(one.who), one.guard)
        for one in TASK_TRANSITIONS
    )
    yield from table("from", "by", "to", "who", "only if", rows=rows)


_PARTS: dict[str, Callable[[str], Iterator[str]]] = {
    "settings": _settings,
    "common options": _common_options,
    "command options": _command_options,
    "verbs": _verbs,
    "keys": _keys,
    "commands": _commands,
    "filter": _filter,
    "transitions": _transitions,
}


if __name__ == "__main__":
    for name, text in made_pages().items():
        (ROOT / name).write_text(made(text), "utf-8")
