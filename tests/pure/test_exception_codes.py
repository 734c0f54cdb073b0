"""The code of an unhandled exception: which of the four rules decides, and that only exact classes match."""

from __future__ import annotations

from hypothesis import given, strategies as st

from horsies.domain.codes import BUILTIN_CODE_REGISTRY, OperationalErrorCode
from horsies.domain.exception_codes import ExceptionCodes

CODES = st.sampled_from(["TIMEOUT", "NO_ROUTE", "BROKEN", "A1", *BUILTIN_CODE_REGISTRY])
MAPPERS = st.dictionaries(st.sampled_from([TimeoutError, OSError, ValueError, SystemExit]), CODES)


@given(
    task_mapper=st.none() | MAPPERS,
    app_mapper=MAPPERS,
    task_default=st.none() | CODES,
    app_default=CODES,
    kind=st.sampled_from([TimeoutError, OSError, ValueError, SystemExit, ConnectionError]),
)
def test_the_first_rule_that_has_something_to_say_decides(
    task_mapper: dict[type[BaseException], str] | None,
    app_mapper: dict[type[BaseException], str],
    task_default: str | None,
    app_default: str,
    kind: type[BaseException],
) -> None:
    codes = ExceptionCodes(task_mapper, app_mapper, task_default, app_default)
    candidates = [(task_mapper or {}).get(kind), app_mapper.get(kind), task_default, app_default]
    assert codes.code_of(kind()) == next(code for code in candidates if code is not None)


def test_a_subclass_is_not_its_parent() -> None:
    codes = ExceptionCodes({OSError: "DISK"}, {Exception: "ANY"}, None, "OTHER")
    assert codes.code_of(OSError()) == "DISK"
    assert codes.code_of(ConnectionResetError()) == "OTHER"


def test_an_empty_mapper_of_the_task_does_not_hide_that_of_the_app() -> None:
    assert ExceptionCodes({}, {OSError: "DISK"}, "MINE", "OTHER").code_of(OSError()) == "DISK"


def test_the_name_of_a_builtin_code_becomes_the_member() -> None:
    codes = ExceptionCodes({OSError: "WORKER_CRASHED"}, {}, None, "UNHANDLED_EXCEPTION")
    assert codes.code_of(OSError()) is OperationalErrorCode.WORKER_CRASHED
    assert codes.code_of(ValueError()) is OperationalErrorCode.UNHANDLED_EXCEPTION
