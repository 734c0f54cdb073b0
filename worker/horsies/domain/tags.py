"""The keys that mark an object in stored JSON as more than a plain object."""

from __future__ import annotations

from typing import Final

DATETIME: Final = "__datetime__"
DATE: Final = "__date__"
TIME: Final = "__time__"
PYDANTIC_MODEL: Final = "__pydantic_model__"
DATACLASS: Final = "__dataclass__"
TASK_RESULT: Final = "__task_result__"
TASK_ERROR: Final = "__task_error__"
BUILTIN_CODE: Final = "__builtin_task_code__"

# A result of an earlier node, given to a later one as a string of JSON.
INJECTED_RESULT: Final = "__horsies_taskresult__"
WORKFLOW_CTX: Final = "__horsies_workflow_ctx__"
WORKFLOW_META: Final = "__horsies_workflow_meta__"

# Not upstream's: which subclass of TaskError a stored error is. Readers that do not know it see a TaskError.
ERROR_CLASS: Final = "__error_class__"

# A user's own dict with such a key would be read back as something else, so it is refused when written.
RESERVED: Final = frozenset(
    {
        DATETIME,
        DATE,
        TIME,
        PYDANTIC_MODEL,
        DATACLASS,
        TASK_RESULT,
        TASK_ERROR,
        BUILTIN_CODE,
        INJECTED_RESULT,
        WORKFLOW_CTX,
        WORKFLOW_META,
        ERROR_CLASS,
    }
)
