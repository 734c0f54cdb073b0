"""The result of a task: a TaskResult that holds either a value or an error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, cast, overload

from pydantic import BaseModel, ConfigDict, field_validator
from typing_extensions import TypeVar

from horsies.domain.codes import BUILTIN_CODE_REGISTRY, BuiltInTaskCode
from horsies.domain.result import Immutable
from horsies.domain.states import WorkflowStatus
from horsies.domain.tags import BUILTIN_CODE, DATACLASS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T_co = TypeVar("T_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)
OutputT = TypeVar("OutputT", default=Any)


class TaskError(BaseModel):
    """The reason why a task has no value: a code for decisions, a message for people, data for details."""

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    exception: dict[str, Any] | BaseException | None = None
    error_code: BuiltInTaskCode | str | None = None
    data: Any = None
    message: str | None = None

    @field_validator("error_code", mode="before")
    @classmethod
    def _only_own_codes(cls, code: object) -> object:
        """A built-in code is an enum member or its stored form; every other code is plain text.

        Otherwise a user's "WORKER_CRASHED" could not be distinguished from the built-in one, and a foreign enum would
        be read back as a plain string.
        """
        if isinstance(code, BuiltInTaskCode):
            return code
        if isinstance(code, dict) and code.keys() == {BUILTIN_CODE}:
            stored = code[BUILTIN_CODE]
            if not isinstance(stored, str) or stored not in BUILTIN_CODE_REGISTRY:
                raise ValueError(f"{stored!r} is not a built-in code")
            return BUILTIN_CODE_REGISTRY[stored]
        if isinstance(code, Enum):
            raise ValueError(f"{code!r} is an enum member of yours; pass its text, for example {code.name!r}")
        if isinstance(code, str) and code in BUILTIN_CODE_REGISTRY:
            member = BUILTIN_CODE_REGISTRY[code]
            raise ValueError(
                f"{code!r} is a built-in code; pass {type(member).__name__}.{member.name}, or choose another text"
            )
        return code

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, value) for name, value in super().__repr_args__() if value is not None]


# No slots: a frozen generic dataclass with slots cannot be called as SubWorkflowSummary[int](...) (Python 3.11:
# typing sets __orig_class__, and the generated __setattr__ then fails with a TypeError about super()).
@dataclass(frozen=True)
class SubWorkflowSummary(Generic[OutputT]):
    """The outcome of a child workflow, for the nodes that come after it."""

    status: WorkflowStatus
    output: OutputT | None
    total_tasks: int
    completed_tasks: int
    failed_tasks: int
    skipped_tasks: int
    error_summary: str | None = None

    def __post_init__(self) -> None:
        # Stored JSON contains the status as its text.
        object.__setattr__(self, "status", WorkflowStatus(self.status))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> SubWorkflowSummary[Any]:
        """Read a stored object, tagged or plain; missing or invalid fields get a default."""
        fields = stored.get("data", {}) if DATACLASS in stored else stored
        error_summary = fields.get("error_summary")
        return SubWorkflowSummary(
            status=_status(fields.get("status")),
            output=fields.get("output"),
            total_tasks=_count(fields.get("total_tasks")),
            completed_tasks=_count(fields.get("completed_tasks")),
            failed_tasks=_count(fields.get("failed_tasks")),
            skipped_tasks=_count(fields.get("skipped_tasks")),
            error_summary=None if error_summary is None else str(error_summary),
        )


def _status(stored: object) -> WorkflowStatus:
    """Read a status; a child has ended, and one that cannot be read must not look like a success."""
    return WorkflowStatus.__members__.get(str(stored), WorkflowStatus.FAILED)


def _count(stored: object) -> int:
    return stored if isinstance(stored, int) else 0


class SubWorkflowError(TaskError):
    """A child workflow did not succeed; which one, and how it ended."""

    sub_workflow_id: str
    sub_workflow_summary: SubWorkflowSummary[Any]

    @field_validator("sub_workflow_summary", mode="before")
    @classmethod
    def _from_stored_object(cls, summary: object) -> object:
        return SubWorkflowSummary.from_json(summary) if isinstance(summary, dict) else summary


_ABSENT: Final = object()


class TaskResult(Immutable, Generic[T_co, E_co]):
    """`TaskResult(ok=value)` or `TaskResult(err=error)`, never both; `ok=None` is a success.

    Written out, not a frozen slotted dataclass, for the reason given at SubWorkflowSummary.
    """

    __slots__ = ("_err", "_ok")

    _ok: T_co | None
    _err: E_co | None

    @overload
    def __init__(self, *, ok: T_co) -> None: ...
    @overload
    def __init__(self, *, err: E_co) -> None: ...
    def __init__(self, *, ok: Any = _ABSENT, err: Any = None) -> None:
        if (ok is _ABSENT) == (err is None):
            raise ValueError("a TaskResult holds exactly one of ok=<value> and err=<error>; an error is never None")
        object.__setattr__(self, "_ok", None if ok is _ABSENT else ok)
        object.__setattr__(self, "_err", err)

    def is_ok(self) -> bool:
        return self._err is None

    def is_err(self) -> bool:
        return self._err is not None

    @property
    def ok(self) -> T_co | None:
        """The value, or None for an error."""
        return self._ok

    @property
    def err(self) -> E_co | None:
        """The error, or None for a success."""
        return self._err

    @property
    def ok_value(self) -> T_co:
        """The value; ValueError for an error."""
        if self._err is not None:
            raise ValueError(f"this result holds an error, not a value: {self._err!r}")
        return cast("T_co", self._ok)

    @property
    def err_value(self) -> E_co:
        """The error; ValueError for a success."""
        if self._err is None:
            raise ValueError(f"this result holds a value, not an error: {self._ok!r}")
        return self._err

    def unwrap(self) -> T_co:
        return self.ok_value

    def unwrap_err(self) -> E_co:
        return self.err_value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskResult):
            return NotImplemented
        return bool(self._ok == other._ok and self._err == other._err)

    def __hash__(self) -> int:
        return hash((TaskResult, self._ok, self._err))

    def __repr__(self) -> str:
        return f"TaskResult(ok={self._ok!r})" if self._err is None else f"TaskResult(err={self._err!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Copying and pickling would otherwise use __setattr__.
        return (_restore, (self._ok, self._err))


def _restore(ok: Any, err: Any) -> TaskResult[Any, Any]:
    return TaskResult(ok=ok) if err is None else TaskResult(err=err)
