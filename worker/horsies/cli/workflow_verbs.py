"""The verbs of `horsies workflows`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn

from horsies.cli.acting import act
from horsies.cli.filters import chosen, understood_workflows
from horsies.cli.node_values import fitting
from horsies.cli.workflow_reading import node_named, story_of, whole_id
from horsies.operations import workflows
from horsies.operations.preview import OperationError
from horsies.operations.workflows import WorkflowSelection, WorkflowVerb
from horsies.query import WORKFLOWS, workflow_parameters
from horsies.views import workflow_matching

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.cli.reading import Connection
    from horsies.cli.verb_options import Asked
    from horsies.operations.actor import Actor
    from horsies.operations.preview import Outcome, Preview
    from horsies.query import WorkflowFilter

_MOST: Final = 10_000
"""Each is read with its whole family: 5 ms."""


def act_on_workflows(asked: Asked, verb: str, ids: list[str] | None, filter_text: str | None) -> NoReturn:
    chosen(ids, filter_text, WORKFLOWS)
    wanted = None if filter_text is None else understood_workflows(filter_text)
    act(asked, _OnWorkflows(WorkflowVerb(verb), tuple(ids or ()), wanted))


def act_on_node(
    asked: Asked, verb: str, workflow_id: str, node: str, *, value: str | None = None, module: str | None = None
) -> NoReturn:
    fits = None if module is None else fitting(module)
    act(asked, _OnNode(WorkflowVerb(verb), workflow_id, node, value, fits))


@dataclass(frozen=True, slots=True)
class _OnWorkflows:
    verb: WorkflowVerb
    ids: tuple[str, ...]
    wanted: WorkflowFilter | None

    async def look(self, connection: Connection) -> Preview:
        if self.wanted is None:
            ids = [await whole_id(connection, text) for text in self.ids]
            return await workflows.preview(connection, self.verb, WorkflowSelection.of_ids(ids))
        ids = await workflow_matching(connection, workflow_parameters(self.wanted), _MOST + 1)
        if len(ids) > _MOST:
            raise OperationError(
                f"the filter matches more than {_MOST:,} workflows, which is the most for one operation",
                help_text="narrow it, for example with since: and until:, and repeat",
            )
        preview = await workflows.preview(connection, self.verb, WorkflowSelection.of_ids(ids))
        command = shlex.join(["horsies", "workflows", self.verb, "--filter", self.wanted.text])
        return replace(preview, filter=self.wanted.text, command=command)

    async def apply(
        self,
        connection: Connection,
        preview: Preview,
        actor: Actor,
        reason: str | None,
        on_progress: Callable[[int, int], None],
    ) -> Outcome:
        return await workflows.apply(connection, preview, actor, reason, on_progress=on_progress)


@dataclass(frozen=True, slots=True)
class _OnNode:
    verb: WorkflowVerb
    workflow_id: str
    node: str
    value: str | None
    fits: Callable[[str, str], str | None] | None

    async def look(self, connection: Connection) -> Preview:
        story = await story_of(connection, self.workflow_id)
        if story is None:
            raise OperationError(
                f"no workflow has the id {self.workflow_id}, or one that begins or ends so",
                help_text="`horsies workflows ls` lists them",
            )
        selection = WorkflowSelection.of_node(story.row.id, node_named(story, self.node).index)
        return await workflows.preview(connection, self.verb, selection, value=self.value, fits=self.fits)

    async def apply(
        self,
        connection: Connection,
        preview: Preview,
        actor: Actor,
        reason: str | None,
        on_progress: Callable[[int, int], None],
    ) -> Outcome:
        return await workflows.apply(connection, preview, actor, reason, on_progress=on_progress)
