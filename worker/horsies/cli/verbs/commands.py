"""The commands of the manual verbs, made of their records."""

from __future__ import annotations

from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horsies.cli import options
from horsies.cli.database import SchedulesArgument, database_parameters
from horsies.operations.verb import COMMAND_GROUPS
from horsies.operations.verbs import verbs_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from horsies.operations.verb import Option, Verb

_TARGETS: dict[str, dict[str, Any]] = {
    "task": {"ids": options.TaskIdsArgument, "filter_text": options.FilterOption},
    "workflow": {"ids": options.WorkflowIdsArgument, "filter_text": options.WorkflowFilterOption},
    "node": {"workflow_id": options.WorkflowIdArgument, "node": options.NodeArgument},
    "worker": {"workers": options.WorkerIdsArgument},
    "queue": {"queues": options.QueuesArgument},
    "schedule": {"schedules": SchedulesArgument},
    "session": {"sessions": options.SessionsArgument},
    "operation": {"operation": options.OperationArgument},
}
_FILTER_HELP: dict[str, Any] = {"task": options.FilterHelpOption, "workflow": options.WorkflowFilterHelpOption}
_OPTIONAL = frozenset({"ids", "filter_text"})


def add_verbs(group: typer.Typer) -> None:
    kinds = [kind for kind, name in COMMAND_GROUPS.items() if name == group.info.name]
    for verb in verbs_for(*kinds):
        group.command(verb.name, help=verb.help, epilog=f"For example: `{verb.example}`")(_command(verb))


def _command(verb: Verb) -> Callable[..., None]:
    def command(**given: Any) -> None:
        from horsies.cli.verbs.acting import act

        act(verb, given)

    options.declare(command, list(_parameters(verb)))
    return command


def _parameters(verb: Verb) -> Iterator[Parameter]:
    for name, kind in _TARGETS[verb.kind].items():
        yield options.option_parameter(name, kind, None if name in _OPTIONAL else Parameter.empty)
    for option in verb.options:
        yield options.option_parameter(option.name, *_option(option))
    yield options.option_parameter("dry_run", options.DryRunOption, False)
    yield options.option_parameter("yes", options.YesOption, False)
    yield options.option_parameter("reason", options.ReasonOption, None)
    yield options.option_parameter("read_only", options.ReadOnlyOption, False)
    yield options.option_parameter("as_json", options.JsonOption, False)
    if verb.kind in _FILTER_HELP:
        yield options.option_parameter("filter_help", _FILTER_HELP[verb.kind], False)
    yield from database_parameters()
    yield options.option_parameter("debug", options.DebugOption, False)


def _option(option: Option) -> tuple[Any, Any]:
    """Return its type for typer, and its default."""
    if option.metavar is None:
        return Annotated[bool, typer.Option(*option.spelled, help=option.help)], False
    info = typer.Option(*option.spelled, metavar=option.metavar, help=option.help)
    return (Annotated[str | None, info] if option.default is None else Annotated[str, info]), option.default
