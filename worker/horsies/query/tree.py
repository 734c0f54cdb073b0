"""A parsed filter, whose text can be parsed again with the same meaning, and the conditions that it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from horsies.domain.states import TASK_TERMINAL_STATES, TaskStatus
from horsies.query.conditions import Conditions, conditions_of, statuses_of
from horsies.query.keys import TASKS
from horsies.query.language import BARE
from horsies.query.values import Choice, Glob
from horsies.query.worker_keys import WORKERS
from horsies.query.workflow_keys import WORKFLOWS

if TYPE_CHECKING:
    from horsies.query.language import Language
    from horsies.query.values import Value

ValueT = TypeVar("ValueT", bound="Value")


@dataclass(frozen=True, slots=True)
class Term:
    """All conditions of the filter on one key with one sign; the key of bare words is empty."""

    key: str
    values: tuple[Value, ...]
    negated: bool = False

    def written(self, language: Language) -> str:
        sign = "-" if self.negated else ""
        if self.key == BARE:
            return " ".join(
                sign + (value.as_word() if isinstance(value, Glob) else str(value)) for value in self.values
            )
        prefix = f"{sign}{self.key}:"
        if language.keys[self.key].kind.any_of:
            return prefix + ",".join(map(str, self.values))
        return " ".join(f"{prefix}{value}" for value in self.values)


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that must all hold; without a term it matches everything."""

    language: ClassVar[Language]
    terms: tuple[Term, ...] = ()

    @property
    def text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return " ".join(term.written(self.language) for term in self.terms)

    def pick(self, key: str, kind: type[ValueT], *, negated: bool = False) -> tuple[ValueT, ...]:
        """The values of that kind that the filter includes, or excludes, under `key`."""
        return tuple(
            value
            for term in self.terms
            if term.key == key and term.negated is negated
            for value in term.values
            if isinstance(value, kind)
        )


@dataclass(frozen=True, slots=True)
class TaskFilter(Filter):
    language: ClassVar[Language] = TASKS


@dataclass(frozen=True, slots=True)
class WorkflowFilter(Filter):
    language: ClassVar[Language] = WORKFLOWS


@dataclass(frozen=True, slots=True)
class WorkerFilter(Filter):
    language: ClassVar[Language] = WORKERS


@dataclass(frozen=True, slots=True)
class TaskConditions(Conditions):
    language: ClassVar[Language] = TASKS


@dataclass(frozen=True, slots=True)
class WorkflowConditions(Conditions):
    language: ClassVar[Language] = WORKFLOWS


_HAVE_ERRORS: Final = tuple(
    status.value for status in TaskStatus if status in TASK_TERMINAL_STATES and status is not TaskStatus.COMPLETED
)


def parameters(understood: TaskFilter) -> TaskConditions:
    statuses = statuses_of(understood)
    wants_error = understood.pick("error", Glob) or Choice("error") in understood.pick("has", Choice)
    if statuses is None and wants_error:  # only these have a code, and an index of their own
        statuses = _HAVE_ERRORS
    return TaskConditions(statuses, conditions_of(understood))


def workflow_parameters(understood: WorkflowFilter) -> WorkflowConditions:
    return WorkflowConditions(statuses_of(understood), conditions_of(understood))
