"""Exception classes to error codes, for one task or for the whole application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from horsies.domain.codes import why_not_a_code
from horsies.domain.errors import ConfigurationError, ErrorCode

ExceptionMapper: TypeAlias = dict[type[BaseException], str]


def mapper_problems(mapper: object) -> Iterable[ConfigurationError]:
    """Each entry of a mapper that could never match or would store a malformed code."""
    if not isinstance(mapper, Mapping):
        yield _problem(f"exception_mapper is {type(mapper).__name__}, not a dict of exception classes to codes")
        return
    for key, code in mapper.items():
        if not (isinstance(key, type) and issubclass(key, BaseException)):
            yield _problem(f"exception_mapper key {key!r} is not an exception class")
        if reason := _why_not(code):
            yield _problem(f"exception_mapper value for {getattr(key, '__name__', key)}: {reason}")


def default_code_problems(code: object) -> Iterable[ConfigurationError]:
    """The reason why `code` cannot be the code of unhandled exceptions, if there is one."""
    if reason := _why_not(code):
        yield _problem(f"default_unhandled_error_code: {reason}")


def _why_not(code: object) -> str | None:
    return why_not_a_code(code) if isinstance(code, str) else f"{code!r} is not a string"


def _problem(message: str) -> ConfigurationError:
    return ConfigurationError(
        message,
        code=ErrorCode.CONFIG_INVALID_EXCEPTION_MAPPER,
        help_text='write codes like "TIMEOUT": exception_mapper={TimeoutError: "TIMEOUT"}',
    )
