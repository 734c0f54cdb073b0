"""Filters as they are given on a command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from horsies.cli.tables import Screen, say
from horsies.domain.errors import render
from horsies.query import FilterError, parse

if TYPE_CHECKING:
    from horsies.query import TaskFilter

_WRONG_COMMAND_LINE = 2


def understood(text: str) -> TaskFilter:
    """The filter; with a mistake in it the command ends, and says where it is and what was probably meant."""
    try:
        return parse(text)
    except FilterError as error:
        error.with_note("--filter-help explains filters")
        say(render(error, colour=Screen.of(sys.stderr).colour), stream=sys.stderr)
        raise typer.Exit(_WRONG_COMMAND_LINE) from error


def chosen(ids: list[str] | None, text: str | None) -> None:
    """A verb is told what it is for: by ids or by a filter, one of the two, and never by silence."""
    if ids and text is not None:
        raise typer.BadParameter("ids and --filter are two selections; give one of them")
    if not ids and text is None:
        raise typer.BadParameter("name tasks by id, or give --filter: nothing is meant by itself")
    if text is not None and not text.strip():
        raise typer.BadParameter("an empty filter matches every task; if that is meant, write --filter '*'")
    for word in ids or ():
        if ":" in word:
            raise typer.BadParameter(f"{word!r} is no id; a filter is given as --filter {word!r}")
    if text is not None:
        understood(text)
