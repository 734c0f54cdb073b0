"""The error code of an unhandled exception: the task's mapper, the app's, the task's default, the app's default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from horsies.domain.codes import ContractCode, to_builtin
from horsies.domain.errors import WorkflowContextMissingIdError

if TYPE_CHECKING:
    from horsies.domain.codes import BuiltInTaskCode

CodeByException: TypeAlias = Mapping[type[BaseException], str]


@dataclass(frozen=True, slots=True)
class ExceptionCodes:
    """The rules for one task. Only the exact class counts, so a new subclass never changes its meaning silently."""

    task_mapper: CodeByException | None
    app_mapper: CodeByException
    task_default: str | None
    app_default: str

    def is_mapped(self, exception: BaseException) -> bool:
        return type(exception) in {**self.app_mapper, **(self.task_mapper or {})}

    def code_of(self, exception: BaseException) -> BuiltInTaskCode | str:
        """The enum member if the rules name a built-in code."""
        if isinstance(exception, WorkflowContextMissingIdError):
            return ContractCode.WORKFLOW_CTX_MISSING_ID
        kind = type(exception)
        if self.task_mapper is not None and kind in self.task_mapper:
            return to_builtin(self.task_mapper[kind])
        if kind in self.app_mapper:
            return to_builtin(self.app_mapper[kind])
        return to_builtin(self.app_default if self.task_default is None else self.task_default)
