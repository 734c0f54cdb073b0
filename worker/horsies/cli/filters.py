"""Filters on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import typer

from horsies.display.terminal import say_error
from horsies.query import TASKS, WORKFLOWS, FilterError, parse, parse_schedules, parse_workers, parse_workflows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from horsies.domain.states import TargetKind
    from horsies.query import ScheduleFilter, TaskFilter, WorkerFilter, WorkflowFilter

FilterT = TypeVar("FilterT")

_WRONG_COMMAND_LINE = 2


def understood(text: str) -> TaskFilter:
    """The filter; if it is invalid, the command ends with the place and the probable meaning."""
    return _understood(text, parse)


def understood_workflows(text: str) -> WorkflowFilter:
    return _understood(text, parse_workflows)


def understood_workers(text: str) -> WorkerFilter:
    return _understood(text, parse_workers)


def understood_schedules(text: str) -> ScheduleFilter:
    return _understood(text, parse_schedules)


def _understood(text: str, parse: Callable[[str], FilterT]) -> FilterT:
    try:
        return parse(text)
    except FilterError as error:
        error.with_note("--filter-help explains filters")
        say_error(error)
        raise typer.Exit(_WRONG_COMMAND_LINE) from error


def check_targets(kind: TargetKind, given: Mapping[str, Any]) -> None:
    """End the command before it connects, unless exactly one of ids and a filter that can be parsed is given."""
    if kind not in ("task", "workflow"):
        return
    ids, text, language = given["ids"], given["filter_text"], TASKS if kind == "task" else WORKFLOWS
    thing = language.thing
    if ids and text is not None:
        raise typer.BadParameter("ids and --filter are two selections; give one of them")
    if not ids and text is None:
        raise typer.BadParameter(f"name {thing}s by id, or give --filter: nothing is meant by itself")
    if text is not None and not text.strip():
        raise typer.BadParameter(f"an empty filter matches every {thing}; if that is meant, write --filter '*'")
    for word in ids or ():
        key, colon, _ = word.removeprefix("-").lower().partition(":")
        if colon and key in language.keys.keys() | language.said_elsewhere:
            raise typer.BadParameter(f"{word!r} is no id; a filter is given as --filter {word!r}")
    if text is not None:
        (understood if kind == "task" else understood_workflows)(text)
