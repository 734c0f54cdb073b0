"""Groups of commands that are loaded only when one of them is called."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

MARKUP: Final = "markdown"


class GroupsOnDemand(TyperGroup):
    """A group that `--help` shows by its name and a sentence: to load its commands took 20 of 150 ms."""

    groups: ClassVar[Mapping[str, typer.Typer]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, group in self.groups.items():
            self.commands[name] = TyperCommand(name, help=group.info.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        group = self.groups.get(name or "")
        return name, command if group is None else _whole(group), rest


@cache
def _whole(group: typer.Typer) -> Any:
    """Return the group with the commands of its verbs."""
    from horsies.cli.verbs.commands import add_verbs

    add_verbs(group)
    above = typer.Typer(rich_markup_mode=MARKUP)
    above.add_typer(group, name="it")
    commands: Any = get_command(above)
    return commands.commands["it"]
