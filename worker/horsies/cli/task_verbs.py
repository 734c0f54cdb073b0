"""The verbs of `horsies tasks`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from horsies.cli.acting import act
from horsies.cli.filters import chosen, understood
from horsies.operations import tasks
from horsies.operations.preview import OperationError
from horsies.operations.reruns import Arguments
from horsies.operations.selection import Selection
from horsies.operations.tasks import TaskVerb
from horsies.views import Ambiguous, find_task

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.cli.reading import Connection
    from horsies.cli.verb_options import Asked
    from horsies.operations.actor import Actor
    from horsies.operations.preview import Outcome, Preview

_WHOLE = 36


def act_on_tasks(
    asked: Asked,
    verb: str,
    ids: list[str] | None,
    filter_text: str | None,
    *,
    fresh_budget: bool = False,
    args: str | None = None,
    kwargs: str | None = None,
) -> NoReturn:
    chosen(ids, filter_text)
    if filter_text is not None:
        understood(filter_text)
    arguments = None if args is None and kwargs is None else Arguments(args, kwargs)
    act(asked, _OnTasks(TaskVerb(verb), tuple(ids or ()), filter_text, fresh_budget, arguments))


@dataclass(frozen=True, slots=True)
class _OnTasks:
    verb: TaskVerb
    ids: tuple[str, ...]
    filter_text: str | None
    fresh_budget: bool
    arguments: Arguments | None

    async def look(self, connection: Connection) -> Preview:
        if self.filter_text is not None:
            selection = Selection.of_filter(self.filter_text)
        else:
            selection = Selection.of_ids([await _whole(connection, text) for text in self.ids])
        return await tasks.preview(
            connection, self.verb, selection, fresh_budget=self.fresh_budget, arguments=self.arguments
        )

    async def apply(
        self,
        connection: Connection,
        preview: Preview,
        actor: Actor,
        reason: str | None,
        on_progress: Callable[[int, int], None],
    ) -> Outcome:
        return await tasks.apply(connection, preview, actor, reason, on_progress=on_progress)


async def _whole(connection: Connection, text: str) -> str:
    """An unknown id is refused later, like every other row that cannot be changed."""
    if len(text) == _WHOLE:
        return text
    found = await find_task(connection, text)
    if isinstance(found, Ambiguous):
        raise ambiguous(found)
    return found or text


def ambiguous(found: Ambiguous) -> OperationError:
    more = ["…"] if found.more else []
    return OperationError(
        f"several tasks begin or end with {found.text!r}",
        notes=["\n".join([*found.ids, *more])],
        help_text="give more of the id, or --filter for all of them",
    )
