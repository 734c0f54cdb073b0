"""Options of the commands that change something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from horsies.cli.options import text_argument, text_option

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a verb. `command` is the command line after `horsies`."""

    choice: DatabaseChoice
    command: str
    reason: str | None
    dry_run: bool
    yes: bool
    read_only: bool
    as_json: bool

    @property
    def thing(self) -> str:
        """The kind of its targets: `tasks requeue` is for a task."""
        return self.command.split()[0].removesuffix("s")


TaskIdsArgument = Annotated[
    list[str] | None, text_argument("ID", "Ids of tasks, or how they begin or end: `1cd6ba9a`.")
]
WorkflowIdsArgument = Annotated[
    list[str] | None, text_argument("ID", "Ids of workflows, or how they begin or end: `1cd6ba9a`.")
]
NodeArgument = Annotated[str, text_argument("NODE", "The id of the node, or its index: `import_eu`, `3`.")]
WorkerIdsArgument = Annotated[list[str], text_argument("WORKER", "Ids of workers, or how they begin or end: `web-1`.")]
QueuesArgument = Annotated[list[str], text_argument("QUEUE", "Names of queues.")]
SessionsArgument = Annotated[
    list[str], typer.Argument(metavar="PID", help="Process ids of sessions, as `horsies sessions ls` lists them.")
]
OperationArgument = Annotated[str, text_argument("OPERATION", "Its id, which the outcome showed, or how that ends.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would change, and change nothing.")]
ReasonOption = Annotated[str | None, text_option("--reason", "TEXT", "The reason, for the audit trail.")]
ReadOnlyOption = Annotated[
    bool, typer.Option("--read-only", help="Refuse to change anything.", envvar="HORSIES_READ_ONLY")
]
