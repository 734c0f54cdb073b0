"""The commands of the manual verbs, made of their records."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horsies.cli.database import database_parameters
from horsies.cli.options import (
    DebugOption,
    DryRunOption,
    FilterHelpOption,
    FilterOption,
    JsonOption,
    NodeArgument,
    OperationArgument,
    QueuesArgument,
    ReadOnlyOption,
    ReasonOption,
    SchedulesArgument,
    SessionsArgument,
    TaskIdsArgument,
    WorkerIdsArgument,
    WorkflowFilterHelpOption,
    WorkflowFilterOption,
    WorkflowIdArgument,
    WorkflowIdsArgument,
    YesOption,
    option_parameter,
)
from horsies.operations.verb import COMMAND_GROUPS
from horsies.operations.verbs import verbs_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from horsies.operations.verb import Option, Verb

_TARGETS: dict[str, dict[str, Any]] = {
    "task": {"ids": TaskIdsArgument, "filter_text": FilterOption},
    "workflow": {"ids": WorkflowIdsArgument, "filter_text": WorkflowFilterOption},
    "node": {"workflow_id": WorkflowIdArgument, "node": NodeArgument},
    "worker": {"workers": WorkerIdsArgument},
    "queue": {"queues": QueuesArgument},
    "schedule": {"schedules": SchedulesArgument},
    "session": {"sessions": SessionsArgument},
    "operation": {"operation": OperationArgument},
}
_FILTER_HELP: dict[str, Any] = {"task": FilterHelpOption, "workflow": WorkflowFilterHelpOption}
_OPTIONAL = frozenset({"ids", "filter_text"})


def add_verbs(group: typer.Typer) -> None:
    kinds = [kind for kind, name in COMMAND_GROUPS.items() if name == group.info.name]
    for verb in verbs_for(*kinds):
        group.command(verb.name, help=verb.help, epilog=f"For example: `{verb.example}`")(_command(verb))


def _command(verb: Verb) -> Callable[..., None]:
    """typer reads the parameters of a command from its signature."""

    def command(**given: Any) -> None:
        from horsies.cli.verbs.acting import act

        act(verb, given)

    parameters = list(_parameters(verb))
    vars(command)["__signature__"] = Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _parameters(verb: Verb) -> Iterator[Parameter]:
    for name, kind in _TARGETS[verb.kind].items():
        yield option_parameter(name, kind, None if name in _OPTIONAL else Parameter.empty)
    for option in verb.options:
        yield option_parameter(option.name, *_option(option))
    yield option_parameter("dry_run", DryRunOption, False)
    yield option_parameter("yes", YesOption, False)
    yield option_parameter("reason", ReasonOption, None)
    yield option_parameter("read_only", ReadOnlyOption, False)
    yield option_parameter("as_json", JsonOption, False)
    if verb.kind in _FILTER_HELP:
        yield option_parameter("filter_help", _FILTER_HELP[verb.kind], False)
    yield from database_parameters()
    yield option_parameter("debug", DebugOption, False)


def _option(option: Option) -> tuple[Any, Any]:
    """Return its type for typer, and its default."""
    if option.metavar is None:
        return Annotated[bool, typer.Option(*option.spelled, help=option.help)], False
    info = typer.Option(
        *option.spelled, metavar=option.metavar, help=option.help, show_default=option.default is not None
    )
    return (Annotated[str | None, info] if option.default is None else Annotated[str, info]), option.default
