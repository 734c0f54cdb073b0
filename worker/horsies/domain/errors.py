"""Errors for users and operators: a code, the place in their code, the problem and the remedy.

HorsiesError
├── ConfigurationError (also ValueError)   settings that are inconsistent or invalid
├── TaskDefinitionError                    a task that cannot be registered as written
├── WorkflowValidationError                a workflow that cannot run as written
├── RegistryError                          a task name unknown, or known twice
└── MultipleValidationErrors               several of the above, reported together
    └── ConfigurationErrors                (also ConfigurationError)
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from horsies.domain.masking import mask, mask_urls
from horsies.domain.plain_text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import CodeType, FrameType
    from typing import Self


class ErrorCode(StrEnum):
    """Stable numbers for errors of definition and configuration; run-time outcomes have their own codes."""

    WORKFLOW_NO_NAME = "HRS-001"
    WORKFLOW_NO_NODES = "HRS-002"
    WORKFLOW_INVALID_NODE_ID = "HRS-003"
    WORKFLOW_DUPLICATE_NODE_ID = "HRS-004"
    WORKFLOW_NO_ROOT_TASKS = "HRS-005"
    WORKFLOW_INVALID_DEPENDENCY = "HRS-006"
    WORKFLOW_CYCLE_DETECTED = "HRS-007"
    WORKFLOW_INVALID_ARGS_FROM = "HRS-008"
    WORKFLOW_INVALID_CTX_FROM = "HRS-009"
    WORKFLOW_CTX_PARAM_MISSING = "HRS-010"
    WORKFLOW_INVALID_OUTPUT = "HRS-011"
    WORKFLOW_INVALID_SUCCESS_POLICY = "HRS-012"
    WORKFLOW_INVALID_JOIN = "HRS-013"
    WORKFLOW_UNRESOLVED_QUEUE = "HRS-014"
    WORKFLOW_UNRESOLVED_PRIORITY = "HRS-015"
    WORKFLOW_NO_DEFINITION_KEY = "HRS-016"
    WORKFLOW_DUPLICATE_DEFINITION_KEY = "HRS-017"
    WORKFLOW_SUBWORKFLOW_APP_MISSING = "HRS-018"
    WORKFLOW_INVALID_KWARG_KEY = "HRS-019"
    WORKFLOW_MISSING_REQUIRED_PARAMS = "HRS-020"
    WORKFLOW_KWARGS_ARGS_FROM_OVERLAP = "HRS-021"
    WORKFLOW_SUBWORKFLOW_PARAMS_REQUIRE_BUILD_WITH = "HRS-022"
    WORKFLOW_SUBWORKFLOW_BUILD_WITH_BINDING = "HRS-023"
    WORKFLOW_ARGS_FROM_TYPE_MISMATCH = "HRS-024"
    WORKFLOW_OUTPUT_TYPE_MISMATCH = "HRS-025"
    WORKFLOW_POSITIONAL_ARGS_NOT_SUPPORTED = "HRS-026"
    WORKFLOW_EXCESS_POSITIONAL_ARGS = "HRS-026"  # a documented alias
    WORKFLOW_CHECK_CASES_REQUIRED = "HRS-027"
    WORKFLOW_CHECK_CASE_INVALID = "HRS-028"
    WORKFLOW_CHECK_BUILDER_EXCEPTION = "HRS-029"
    WORKFLOW_CHECK_UNDECORATED_BUILDER = "HRS-030"
    WORKFLOW_KWARGS_NOT_SERIALIZABLE = "HRS-031"
    TASK_NO_RETURN_TYPE = "HRS-100"
    TASK_INVALID_RETURN_TYPE = "HRS-101"
    TASK_INVALID_OPTIONS = "HRS-102"
    TASK_INVALID_QUEUE = "HRS-103"
    TASK_PREDECORATED_NOT_SUPPORTED = "HRS-104"
    CONFIG_INVALID_QUEUE_MODE = "HRS-200"
    CONFIG_INVALID_CLUSTER_CAP = "HRS-201"
    CONFIG_INVALID_PREFETCH = "HRS-202"
    BROKER_INVALID_URL = "HRS-203"
    CONFIG_INVALID_RECOVERY = "HRS-204"
    CONFIG_INVALID_SCHEDULE = "HRS-205"
    CLI_INVALID_ARGS = "HRS-206"
    WORKER_INVALID_LOCATOR = "HRS-207"
    CONFIG_INVALID_RESILIENCE = "HRS-208"
    CONFIG_INVALID_EXCEPTION_MAPPER = "HRS-209"
    MODULE_EXEC_ERROR = "HRS-210"
    BROKER_INIT_FAILED = "HRS-211"
    CHECK_RESERVED_CODE_COLLISION = "HRS-212"
    TASK_NOT_REGISTERED = "HRS-300"
    TASK_DUPLICATE_NAME = "HRS-301"


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in the user's code; columns count from 1, as editors do. Without a column, the whole line is meant."""

    file: str
    line: int
    column: int | None = None
    end_column: int | None = None

    @classmethod
    def of_function(cls, fn: Callable[..., object]) -> SourceLocation | None:
        """Return where `fn` is defined; None for built-ins and callables without code."""
        code = getattr(fn, "__code__", None)
        return None if code is None else cls(code.co_filename, code.co_firstlineno)

    def __str__(self) -> str:
        start = self.columns[0]
        return f"{self.file}:{self.line}" if start is None else f"{self.file}:{self.line}:{start}"

    @property
    def source(self) -> str:
        """The line itself, passwords masked; empty where the file cannot be read."""
        return mask(linecache.getline(self.file, self.line).rstrip())

    @property
    def columns(self) -> tuple[int | None, int | None]:
        """The first column, and the one after the last; without an end, up to the end of the line."""
        line = self.source
        if not line:
            return self.column, self.end_column
        start = len(line) - len(line.lstrip()) + 1 if self.column is None else self.column
        return start, min(self.end_column or len(line) + 1, max(len(line), start) + 1)


class HorsiesError(Exception):
    """Base of every error with a cause and a remedy; `str()` is the compiler-like text."""

    default_code: ErrorCode | None = None

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode | None = None,
        location: SourceLocation | None = None,
        notes: Sequence[str] = (),
        help_text: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code if code is not None else self.default_code
        self.location = location
        self.notes = list(notes)
        self.help_text = help_text

    def with_note(self, note: str) -> Self:
        self.notes.append(note)
        return self

    def with_help(self, help_text: str) -> Self:
        self.help_text = help_text
        return self

    def with_location(self, location: SourceLocation | None) -> Self:
        self.location = location
        return self

    def __str__(self) -> str:
        return render(self)


class ConfigurationError(HorsiesError, ValueError):
    """A setting is wrong; also a ValueError, as documented for every configuration class."""


class TaskDefinitionError(HorsiesError):
    """A task cannot be registered as it is written."""


class WorkflowValidationError(HorsiesError):
    """A workflow cannot run as it is written."""


class RegistryError(HorsiesError):
    """A task name that is not registered, or registered in two places."""


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Every broken rule of one validation, in the order in which the rules were checked."""

    errors: tuple[HorsiesError, ...]

    def __str__(self) -> str:
        return self.render()

    def render(self, *, colour: bool = False) -> str:
        count = len(self.errors)
        end = f"error: aborting due to {count} previous error{'' if count == 1 else 's'}"
        return "\n\n".join([*(render(error, colour=colour) for error in self.errors), end])


class MultipleValidationErrors(HorsiesError, ValueError):  # noqa: N818 - a documented name
    """The error for two or more broken rules at once, so that one run shows all of them."""

    def __init__(self, report: ValidationReport) -> None:
        super().__init__("; ".join(error.message for error in report.errors))
        self.report = report

    def __reduce__(self) -> tuple[type[Self], tuple[ValidationReport]]:
        # An exception is rebuilt from its args by default, which contain the text and not the report.
        return type(self), (self.report,)

    def __str__(self) -> str:
        return self.report.render()


class ConfigurationErrors(MultipleValidationErrors, ConfigurationError):  # noqa: N818
    """Several broken settings; `except ConfigurationError` catches this too."""


class WorkflowContextMissingIdError(RuntimeError):
    """A node without a node_id was used; a task that lets this pass fails with WORKFLOW_CTX_MISSING_ID."""


def raise_collected(
    errors: Iterable[HorsiesError], several: type[MultipleValidationErrors] = MultipleValidationErrors
) -> None:
    """Raise nothing for no error, the error itself for one, `several` with the report for more."""
    collected = tuple(flatten(errors))
    if len(collected) == 1:
        raise collected[0]
    if collected:
        raise several(ValidationReport(collected))


def flatten(errors: Iterable[HorsiesError]) -> Iterable[HorsiesError]:
    """Yield each single error, also those of nested reports."""
    for error in errors:
        if isinstance(error, MultipleValidationErrors):
            yield from flatten(error.report.errors)
        else:
            yield error


RED, BLUE, BOLD, RESET = "\x1b[1;31m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"


def render(error: HorsiesError, *, colour: bool = False) -> str:
    """The error in the format of a compiler: headline, place with its source line, notes, help.

    Without control characters and passwords of URLs. What begins a line is ours: other lines are indented.
    """
    if isinstance(error, MultipleValidationErrors):
        return error.report.render(colour=colour)

    def paint(style: str, text: str) -> str:
        return f"{style}{text}{RESET}" if colour else text

    code = f"[{error.code.value}]" if error.code else ""
    lines = [paint(RED, f"error{code}") + paint(BOLD, f": {_hang(error.message, '  ')}")]
    margin = " "
    if error.location is not None:
        number = str(error.location.line)
        margin = " " * len(number) + " "
        bar = paint(BLUE, "|")
        lines.append(f"{margin[:-1]}{paint(BLUE, '-->')} {_hang(str(error.location), margin)}")
        if source := error.location.source:
            lines += [f"{margin}{bar}", f"{paint(BLUE, number)} {bar} {_hang(source, margin)}"]
            start, end = error.location.columns
            marks = "" if start is None or end is None else " " * (start - 1) + "^" * max(1, end - start)
            lines.append(f"{margin}{bar} {marks}".rstrip())
    label = paint(BLUE, "=")
    indent = margin + " " * len("= note: ")
    lines += [f"{margin}{label} note: {_hang(note, indent)}" for note in error.notes]
    if error.help_text:
        lines.append(f"{margin}{label} help: {_hang(error.help_text, indent)}")
    return "\n".join(lines)


def way_to_install(extra: str) -> str:
    """Return how to install an extra. No index has the package under its name, so pip needs the sources."""
    return f"in a clone of the repository of horsies-console: pip install '.[{extra}]'"


def _hang(text: str, indent: str) -> str:
    """Return the plain lines of a text, of which further ones are indented."""
    return f"\n{indent}".join(clean(mask_urls(line)) for line in text.split("\n"))


_NOT_THE_USERS: Final = ("horsies.", "pydantic.", "importlib.")
_NEVERTHELESS: Final = ("horsies.demo.",)
_MAX_LINES_ABOVE_DEF: Final = 100


def calling_place() -> SourceLocation | None:
    """Return the nearest expression on the stack outside the engine."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.currentframe() does the same
    while frame is not None and not _is_the_users(frame):
        frame = frame.f_back
    return None if frame is None else _place(frame.f_code, frame.f_lasti, frame.f_lineno)


def raising_place(error: BaseException) -> SourceLocation | None:
    """Return where `error` arose: the innermost line of the user's code, or else of the imported library."""
    if isinstance(error, SyntaxError) and error.filename is not None and error.lineno is not None:
        return SourceLocation(error.filename, error.lineno, error.offset or None)
    found: SourceLocation | None = None
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        is_library = code.co_filename.startswith((*_installed(), "<frozen "))
        if _is_the_users(step.tb_frame) and not (found is not None and is_library):
            found = _place(code, step.tb_lasti, step.tb_lineno)
        step = step.tb_next
    return found


def signature_place(fn: Callable[..., object]) -> SourceLocation | None:
    """Return the `def` of a function, below its decorators; None for callables without code."""
    start = SourceLocation.of_function(fn)
    if start is None or not start.source.lstrip().startswith("@"):
        return start
    for line in range(start.line, start.line + _MAX_LINES_ABOVE_DEF):
        if linecache.getline(start.file, line).lstrip().startswith(("def ", "async def ")):
            return SourceLocation(start.file, line)
    return start


@cache
def _installed() -> tuple[str, ...]:
    """Return the directories of installed libraries; read late, because each command imports this module."""
    return tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _is_the_users(frame: FrameType) -> bool:
    module = f"{frame.f_globals.get('__name__', '')}."
    return not module.startswith(_NOT_THE_USERS) or module.startswith(_NEVERTHELESS)


def _place(code: CodeType, instruction: int, line: int) -> SourceLocation:
    positions = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    first, last, start, end = positions
    if first != line or start is None or end is None:
        return SourceLocation(code.co_filename, line)
    source = linecache.getline(code.co_filename, line).encode()
    columns = [len(source[:offset].decode(errors="ignore")) + 1 for offset in (start, end)]
    return SourceLocation(code.co_filename, line, columns[0], columns[1] if last == first else None)
