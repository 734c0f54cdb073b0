"""The verbs of `horsies workers`, `horsies queues`, and `horsies audit undo`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from horsies.cli.acting import act
from horsies.cli.formatting import unshortened
from horsies.cli.operation_ids import operation_of
from horsies.operations import queues, workers
from horsies.operations.audit import actions_of, standing
from horsies.operations.preview import Preview, Target
from horsies.operations.queues import QueueVerb
from horsies.operations.undo import undo
from horsies.operations.workers import WorkerVerb

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.cli.reading import Connection
    from horsies.cli.verb_options import Asked
    from horsies.operations.actor import Actor
    from horsies.operations.preview import Outcome


def act_on_workers(asked: Asked, verb: str, ids: list[str]) -> NoReturn:
    act(asked, _OnWorkers(WorkerVerb(verb), tuple(map(unshortened, ids))))


def act_on_queues(asked: Asked, verb: str, names: list[str]) -> NoReturn:
    act(asked, _OnQueues(QueueVerb(verb), tuple(names)))


def take_back(asked: Asked, operation: str) -> NoReturn:
    act(asked, _Undo(operation))


@dataclass(frozen=True, slots=True)
class _OnWorkers:
    verb: WorkerVerb
    ids: tuple[str, ...]

    async def look(self, connection: Connection) -> Preview:
        return await workers.preview(connection, self.verb, self.ids)

    async def apply(
        self,
        connection: Connection,
        preview: Preview,
        actor: Actor,
        reason: str | None,
        on_progress: Callable[[int, int], None],
    ) -> Outcome:
        return await workers.apply(connection, preview, actor, reason, on_progress=on_progress)


@dataclass(frozen=True, slots=True)
class _OnQueues:
    verb: QueueVerb
    names: tuple[str, ...]

    async def look(self, connection: Connection) -> Preview:
        return await queues.preview(connection, self.verb, self.names)

    async def apply(
        self,
        connection: Connection,
        preview: Preview,
        actor: Actor,
        reason: str | None,
        on_progress: Callable[[int, int], None],
    ) -> Outcome:
        return await queues.apply(connection, preview, actor, reason)


@dataclass(frozen=True, slots=True)
class _Undo:
    operation: str

    async def look(self, connection: Connection) -> Preview:
        """All that the operation changed; rows that have changed since are refused when it is applied."""
        operation_id = await operation_of(connection, self.operation)
        actions = await actions_of(connection, operation_id)
        return Preview(
            verb="undo",
            options={"operation_id": operation_id},
            eligible=tuple(
                Target(action.target_kind, action.target_id, action.verb, action.status or "") for action in actions
            ),
            refused=(),
            consequences=("what has changed since, or has no way back, is refused, row by row",),
            filter=None,
            command=f"horsies audit undo {operation_id}",
            taken_at=(await standing(connection)).now,
        )

    async def apply(
        self,
        connection: Connection,
        preview: Preview,
        actor: Actor,
        reason: str | None,
        on_progress: Callable[[int, int], None],
    ) -> Outcome:
        return await undo(connection, preview.options["operation_id"], actor, reason, on_progress=on_progress)
