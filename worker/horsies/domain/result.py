"""Success or failure as a value: `Result[T, E]` is `Ok[T] | Err[E]`."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, ParamSpec, TypeAlias, TypeVar, final

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
E = TypeVar("E")
U = TypeVar("U")
F = TypeVar("F")
P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)
ExceptionT = TypeVar("ExceptionT", bound=BaseException)


class UnwrapError(Exception):
    """Raised by unwrap() of an Err and unwrap_err() of an Ok; `result` is that Err or Ok."""

    def __init__(self, result: Result[Any, Any], message: str) -> None:
        super().__init__(result, message)
        self.result = result

    def __str__(self) -> str:
        return str(self.args[1])


class Immutable:
    """A class without setters: a generic frozen dataclass with slots fails in `Ok[int](1)` on Python 3.11."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed; build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed; {name!r} cannot be deleted")


@final
class Ok(Immutable, Generic[T_co]):
    """A success and its value."""

    __slots__ = ("ok_value",)
    __match_args__ = ("ok_value",)

    ok_value: T_co

    def __init__(self, value: T_co) -> None:
        object.__setattr__(self, "ok_value", value)

    def is_ok(self) -> bool:
        return True

    def is_err(self) -> bool:
        return False

    def ok(self) -> T_co:
        return self.ok_value

    def err(self) -> None:
        return None

    def expect(self, _message: str) -> T_co:
        return self.ok_value

    def expect_err(self, message: str) -> NoReturn:
        raise UnwrapError(self, f"{message}: {self.ok_value!r}") from _cause(self.ok_value)

    def unwrap(self) -> T_co:
        return self.ok_value

    def unwrap_err(self) -> NoReturn:
        self.expect_err("unwrap_err() found a success")

    def unwrap_or(self, _default: U) -> T_co:
        return self.ok_value

    def unwrap_or_else(self, _op: Callable[[Any], U]) -> T_co:
        return self.ok_value

    def unwrap_or_raise(self, _exception: type[BaseException]) -> T_co:
        return self.ok_value

    def map(self, op: Callable[[T_co], U]) -> Ok[U]:
        return Ok(op(self.ok_value))

    async def map_async(self, op: Callable[[T_co], Awaitable[U]]) -> Ok[U]:
        return Ok(await op(self.ok_value))

    def map_or(self, _default: U, op: Callable[[T_co], U]) -> U:
        return op(self.ok_value)

    def map_or_else(self, _default_op: Callable[[], U], op: Callable[[T_co], U]) -> U:
        return op(self.ok_value)

    def map_err(self, _op: Callable[[Any], Any]) -> Ok[T_co]:
        return self

    def and_then(self, op: Callable[[T_co], Result[U, E]]) -> Result[U, E]:
        return op(self.ok_value)

    async def and_then_async(self, op: Callable[[T_co], Awaitable[Result[U, E]]]) -> Result[U, E]:
        return await op(self.ok_value)

    def or_else(self, _op: Callable[[Any], Any]) -> Ok[T_co]:
        return self

    def inspect(self, op: Callable[[T_co], Any]) -> Ok[T_co]:
        """Call `op` with the value, only for its side effect."""
        op(self.ok_value)
        return self

    def inspect_err(self, _op: Callable[[Any], Any]) -> Ok[T_co]:
        return self

    def __iter__(self) -> Iterator[T_co]:
        yield self.ok_value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ok) and bool(self.ok_value == other.ok_value)

    def __hash__(self) -> int:
        return hash((Ok, self.ok_value))

    def __repr__(self) -> str:
        return f"Ok({self.ok_value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Ok, (self.ok_value,))


class _ReadsClass(type):
    """`isinstance(result, Err)` and `case Err():` read the class of the result, which an UnseenErr notices."""

    def __instancecheck__(cls, instance: object) -> bool:
        return issubclass(instance.__class__, cls)


@final
class Err(Immutable, Generic[E_co], metaclass=_ReadsClass):
    """A failure and its reason."""

    __slots__ = ("err_value",)
    __match_args__ = ("err_value",)

    err_value: E_co

    def __init__(self, value: E_co) -> None:
        object.__setattr__(self, "err_value", value)

    def is_ok(self) -> bool:
        return False

    def is_err(self) -> bool:
        return True

    def ok(self) -> None:
        return None

    def err(self) -> E_co:
        return self.err_value

    def expect(self, message: str) -> NoReturn:
        raise UnwrapError(self, f"{message}: {self.err_value!r}") from _cause(self.err_value)

    def expect_err(self, _message: str) -> E_co:
        return self.err_value

    def unwrap(self) -> NoReturn:
        self.expect("unwrap() found a failure")

    def unwrap_err(self) -> E_co:
        return self.err_value

    def unwrap_or(self, default: U) -> U:
        return default

    def unwrap_or_else(self, op: Callable[[E_co], U]) -> U:
        return op(self.err_value)

    def unwrap_or_raise(self, exception: type[BaseException]) -> NoReturn:
        raise exception(self.err_value)

    def map(self, _op: Callable[[Any], Any]) -> Err[E_co]:
        return self

    async def map_async(self, _op: Callable[[Any], Any]) -> Err[E_co]:
        return self

    def map_or(self, default: U, _op: Callable[[Any], U]) -> U:
        return default

    def map_or_else(self, default_op: Callable[[], U], _op: Callable[[Any], U]) -> U:
        return default_op()

    def map_err(self, op: Callable[[E_co], F]) -> Err[F]:
        return Err(op(self.err_value))

    def and_then(self, _op: Callable[[Any], Any]) -> Err[E_co]:
        return self

    async def and_then_async(self, _op: Callable[[Any], Any]) -> Err[E_co]:
        return self

    def or_else(self, op: Callable[[E_co], Result[T, F]]) -> Result[T, F]:
        return op(self.err_value)

    def inspect(self, _op: Callable[[Any], Any]) -> Err[E_co]:
        return self

    def inspect_err(self, op: Callable[[E_co], Any]) -> Err[E_co]:
        """Call `op` with the reason, only for its side effect."""
        op(self.err_value)
        return self

    def __iter__(self) -> Iterator[NoReturn]:
        # A generator, not a plain raise: a generator expression calls iter() on its outermost source when it is
        # created, which would raise before do() is entered.
        yield self._leave_do()

    def _leave_do(self) -> NoReturn:
        raise _LeaveDo(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Err) and bool(self.err_value == other.err_value)

    def __hash__(self) -> int:
        return hash((Err, self.err_value))

    def __repr__(self) -> str:
        return f"Err({self.err_value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Err, (self.err_value,))


class UnseenErr(Err[E_co]):  # type: ignore[misc]  # Err is final for others: type checkers rely on it
    """An Err that calls `on_drop` if it is dropped before any attribute of it, even its class, was read."""

    __slots__ = ("_on_drop",)

    def __init__(self, value: E_co, on_drop: Callable[[], None]) -> None:
        super().__init__(value)
        object.__setattr__(self, "_on_drop", on_drop)

    def __getattribute__(self, name: str) -> Any:
        object.__setattr__(self, "_on_drop", None)
        return object.__getattribute__(self, name)

    def __del__(self) -> None:
        on_drop = object.__getattribute__(self, "_on_drop")
        if on_drop is not None:
            on_drop()


Result: TypeAlias = Ok[T] | Err[E]

OkErr: Final = (Ok, Err)
"""For `isinstance(value, OkErr)`: the alias Result itself cannot be used there."""


def is_ok(result: Result[T, E]) -> TypeIs[Ok[T]]:
    return isinstance(result, Ok)


def is_err(result: Result[T, E]) -> TypeIs[Err[E]]:
    return isinstance(result, Err)


def as_result(*exceptions: type[ExceptionT]) -> Callable[[Callable[P, T]], Callable[P, Result[T, ExceptionT]]]:
    """Make a function return Ok(value), or Err(exception) for the exceptions named here."""
    _require_exceptions(exceptions)

    def decorate(fn: Callable[P, T]) -> Callable[P, Result[T, ExceptionT]]:
        @functools.wraps(fn)
        def caught(*args: P.args, **kwargs: P.kwargs) -> Result[T, ExceptionT]:
            try:
                return Ok(fn(*args, **kwargs))
            except exceptions as error:
                return Err(error)

        return caught

    return decorate


def as_async_result(
    *exceptions: type[ExceptionT],
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[Result[T, ExceptionT]]]]:
    """Do what `as_result` does, for coroutine functions."""
    _require_exceptions(exceptions)

    def decorate(fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[Result[T, ExceptionT]]]:
        @functools.wraps(fn)
        async def caught(*args: P.args, **kwargs: P.kwargs) -> Result[T, ExceptionT]:
            try:
                return Ok(await fn(*args, **kwargs))
            except exceptions as error:
                return Err(error)

        return caught

    return decorate


def do(steps: Generator[Result[T, E], None, None]) -> Result[T, E]:
    """Evaluate `do(Ok(x + y) for x in first for y in second)`: the sum, or the first Err on the way."""
    if not isinstance(steps, Generator):
        raise TypeError("do() takes a generator expression; with an await inside it, use do_async()")
    try:
        return _only(next(steps, None))
    except _LeaveDo as early:
        return early.failure


async def do_async(steps: Generator[Result[T, E], None, None] | AsyncGenerator[Result[T, E], None]) -> Result[T, E]:
    """Evaluate `do` for an expression with an await.

    Python makes it an async generator, unless the only await is in the source of its first `for`.
    """
    if isinstance(steps, Generator):
        return do(steps)
    try:
        return _only(await anext(steps, None))
    except _LeaveDo as early:
        return early.failure
    finally:
        await steps.aclose()


class _LeaveDo(Exception):  # noqa: N818 - a jump, not an error
    def __init__(self, failure: Err[Any]) -> None:
        super().__init__(f"{failure!r} was iterated outside do()")
        self.failure = failure


def _only(result: Result[T, E] | None) -> Result[T, E]:
    if result is None:
        raise ValueError("the expression in do() has no result: its `if` excluded everything")
    return result


def _cause(value: object) -> BaseException | None:
    return value if isinstance(value, BaseException) else None


def _require_exceptions(exceptions: tuple[type[BaseException], ...]) -> None:
    if not exceptions or not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in exceptions):
        raise TypeError("name one or more exception classes, for example as_result(ValueError)")
