"""The parameters of a task's function, and why a call does not fit them."""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.argument_types import checker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from horsies.domain.argument_types import ArgumentCheck

_MOST_SHAPES: Final = 64


class Parameters:
    """The signature of one function.

    Whether a call is possible depends on its number of values and its names. Shapes that fit are cached: binding takes
    1.5 µs, a tenth of the cost of a send here.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self._signature = inspect.signature(fn)
        self._fitting: set[tuple[int, tuple[str, ...]]] = set()
        parameters = self._signature.parameters.values()
        # With **more, a positional-only name that is given by keyword is one of those. Python 3.11's bind() refuses it,
        # that of 3.13.0 takes it for the parameter.
        takes_more = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
        only = inspect.Parameter.POSITIONAL_ONLY
        self._more = {each.name for each in parameters if each.kind is only} if takes_more else set[str]()

    def why_not(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """None if the function can be called with these, otherwise the reason as a message."""
        shape = (len(args), tuple(kwargs))
        if shape in self._fitting:
            return None
        try:
            self._signature.bind(*args, **{name: value for name, value in kwargs.items() if name not in self._more})
        except TypeError as error:
            return f"arguments do not fit {self}: {error}"
        if len(self._fitting) < _MOST_SHAPES:  # a function with **kwargs could be called with any number of shapes
            self._fitting.add(shape)
        return None

    def why_not_by_type(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """The same for the annotated types of a call that is possible. The text contains no value."""
        misfit = self._check_types(args, kwargs)
        return None if misfit is None else f"arguments do not fit {self}: {misfit}"

    @cached_property
    def _check_types(self) -> ArgumentCheck:
        """Built at the first call: the names in annotations may be defined below the function."""
        return checker(self._fn)

    def __contains__(self, name: object) -> bool:
        return name in self._signature.parameters

    def __str__(self) -> str:
        """`add(a, b=2)`; annotations would make the line too long."""
        plain = [
            parameter.replace(annotation=inspect.Parameter.empty) for parameter in self._signature.parameters.values()
        ]
        return f"{self._fn.__name__}{inspect.Signature(plain)}"
